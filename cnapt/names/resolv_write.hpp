// Files and links for ResolvFile, each by name in an open directory. Blocking.
#pragma once

#include "common/base/result.hpp"

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace continuo::cnapt::names {

// errno of the last system call that failed.
base::Error failed(std::string_view where);

// LimitReached: it is longer.
base::Result<std::string> read_all(int fd, size_t limit);

struct Attributes {
    mode_t mode = 0600;
    uid_t user = 0;
    gid_t group = 0;
    std::optional<timespec> modified;
};

// Sets owner and time as far as permitted.
void set_link_attributes(int directory, const std::string& name, const Attributes& attributes);

// A complete file under a temporary name, synced; owner and time as far as permitted.
base::Result<void> write_temporary(int directory,
                                   const std::string& name,
                                   std::string_view text,
                                   const Attributes& attributes);

// For a file that cannot be replaced (a mount). Owner and mode stay.
base::Result<void> write_in_place(int directory,
                                  const std::string& name,
                                  std::string_view text,
                                  const timespec& modified);

}  // namespace continuo::cnapt::names
