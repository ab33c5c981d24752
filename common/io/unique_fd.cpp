#include "common/io/unique_fd.hpp"

#include <unistd.h>

namespace continuo::io {

void UniqueFd::reset(int fd) {
    if (fd_ >= 0) {
        ::close(fd_);
    }
    fd_ = fd;
}

}  // namespace continuo::io
