// Landlock (Linux 5.13): a thread, and what it starts, may change files in a few places only,
// whoever owns the others. docs/SECURITY.md.
#pragma once

#include "common/base/result.hpp"

#include <span>

namespace continuo::cnapt {

// A directory that is open, with all below it.
struct WritePlace {
    int directory = -1;
    bool may_make_links = false;  // symbolic ones, beside files
};

// For good. From now on files are made, written, renamed and removed only in `places`, and no
// directories, sockets, pipes or devices anywhere; /dev/null may be written. Files that are open
// already stay open. Needs no_new_privs. Errors: Unsupported (kernel without Landlock), System.
base::Result<void> write_only_in(std::span<const WritePlace> places);

}  // namespace continuo::cnapt
