// FolderLock: lets one process at a time write the live file of a state folder or change its
// tables.
#pragma once

#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <string>

namespace continuo::snapt::store {

class FolderLock {
  public:
    // InvalidState while another process, or another FolderLock, has it; does not wait.
    static base::Result<FolderLock> take(const std::string& folder);

  private:
    explicit FolderLock(io::UniqueFd fd) : fd_(std::move(fd)) {}

    io::UniqueFd fd_;
};

}  // namespace continuo::snapt::store
