#include "common/io/mapped_file.hpp"

#include "common/io/unique_fd.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace continuo::io {

using base::Errc;
using base::Error;
using base::Result;

Result<MappedFile> MappedFile::open(const std::string& path, size_t bytes) {
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.is_open()) {
        return Error{Errc::System, "open mapped file", errno};
    }
    const auto length = static_cast<off_t>(bytes);
    if (::ftruncate(file.value(), length) != 0) {
        return Error{Errc::System, "size of mapped file", errno};
    }
    if (const int code = ::posix_fallocate(file.value(), 0, length); code != 0) {
        return Error{Errc::System, "no room on the disk for mapped file", code};
    }
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.value(), 0);
    if (data == MAP_FAILED) {
        return Error{Errc::System, "map file", errno};
    }
    return MappedFile(static_cast<uint8_t*>(data), bytes);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        ::munmap(data_, bytes_);
    }
}

}  // namespace continuo::io
