#include "snapt/store/folder_lock.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>

namespace continuo::snapt::store {

using base::Errc;
using base::Error;

base::Result<FolderLock> FolderLock::take(const std::string& folder) {
    io::UniqueFd fd(::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd.is_open()) {
        return Error{Errc::System, "state folder cannot be written", errno};
    }
    if (::flock(fd.value(), LOCK_EX | LOCK_NB) != 0) {
        return Error{Errc::InvalidState, "state folder is in use by another snapt", 0};
    }
    return FolderLock(std::move(fd));
}

}  // namespace continuo::snapt::store
