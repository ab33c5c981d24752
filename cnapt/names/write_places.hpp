// Landlock (Linux 5.13): restricts a thread, and what it starts, to changing files in a few places,
// whoever owns the others. docs/SECURITY.md.
#pragma once

#include "common/base/result.hpp"

#include <span>

namespace continuo::cnapt::names {

// An open directory, with everything below it.
struct WritePlace {
    int directory = -1;
    bool may_make_links = false;  // symbolic ones, beside files
};

// Permanent. Files can then be created, written, renamed and removed only in `places`, and no
// directories, sockets, pipes or devices created anywhere; /dev/null stays writable. Open files
// stay open. Needs no_new_privs. Errors: Unsupported (kernel without Landlock), System.
base::Result<void> write_only_in(std::span<const WritePlace> places);

}  // namespace continuo::cnapt::names
