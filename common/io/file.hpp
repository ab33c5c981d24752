// Small files, written so that a crash leaves the old or the new content, and read with a limit;
// and the lock that keeps one daemon to a state directory. Blocking.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <string>
#include <string_view>

namespace continuo::io {

// Writes PATH.tmp-PID, fsyncs, renames, fsyncs the directory. `mode` as for open(2), not narrowed
// by umask.
base::Result<void>
write_file_atomically(const std::string& path, std::string_view content, unsigned mode = 0600);
// Errors: NotFound, LimitReached (longer than `limit_bytes`), System.
base::Result<std::string> read_file(const std::string& path, size_t limit_bytes);
// Everything that an open file, pipe or socket returns. Errors: as above, except NotFound.
base::Result<std::string> read_all(int fd, size_t limit_bytes);
// No error when there is none.
base::Result<void> remove_file(const std::string& path);
// Creates the directory and its parents. `mode` is for new ones.
base::Result<void> make_directories(const std::string& path, unsigned mode = 0755);

// Held until destruction, or until the process ends in whatever way.
class LockFile {
  public:
    // Errors: InvalidState (another process holds it), System.
    static base::Result<LockFile> acquire(const std::string& path);

  private:
    explicit LockFile(UniqueFd fd) : fd_(std::move(fd)) {}
    UniqueFd fd_;
};

}  // namespace continuo::io
