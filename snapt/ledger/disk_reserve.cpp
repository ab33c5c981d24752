#include "snapt/ledger/disk_reserve.hpp"

#include "common/io/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::snapt::ledger {

bool DiskReserve::is_there() const {
    struct stat file {};
    return ::stat(path_.c_str(), &file) == 0 && static_cast<uint64_t>(file.st_size) >= bytes_;
}

bool DiskReserve::make(uint64_t free_bytes, uint64_t spare_bytes) const {
    if (bytes_ == 0 || is_there() || free_bytes < bytes_ + spare_bytes) {
        return false;
    }
    const io::UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const bool is_made =
        file.is_open() && ::posix_fallocate(file.value(), 0, static_cast<off_t>(bytes_)) == 0;
    if (!is_made) {
        ::unlink(path_.c_str());  // a partial reserve takes room and is useless
    }
    return is_made;
}

bool DiskReserve::give_up() const {
    return bytes_ != 0 && ::unlink(path_.c_str()) == 0;
}

}  // namespace continuo::snapt::ledger
