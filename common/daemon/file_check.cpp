#include "common/daemon/file_check.hpp"

#include "common/host/privileges.hpp"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

namespace continuo::daemon {

using config::Diagnostic;
using config::quote;
using config::Severity;

namespace {

void check_directory(std::string_view key,
                     const std::string& path,
                     const config::Place& place,
                     const std::string& file,
                     std::vector<Diagnostic>& found) {
    const size_t slash = path.rfind('/');
    const std::string directory =
        slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
    struct stat status {};
    const int error = ::stat(directory.c_str(), &status) != 0 ? errno
                      : !S_ISDIR(status.st_mode)              ? ENOTDIR
                                                              : 0;
    if (!path.empty() && error != 0) {
        found.push_back({file, place.line, place.column,
                         quote(key) + " is " + quote(path) +
                             ", which cannot be written: " + std::strerror(error),
                         "a file in a directory that is there"});
    }
}

}  // namespace

void check_readers(const std::string& path,
                   bool holds_key,
                   const char* user,
                   std::vector<Diagnostic>& found) {
    struct stat status {};
    const bool is_there = ::stat(path.c_str(), &status) == 0;
    if (is_there && holds_key && (status.st_mode & S_IROTH) != 0) {
        found.push_back({path, 1, 1, "it holds a key, and every user of this host may read it",
                         "mode 0640 or 0600", Severity::Warning});
    }
    if (const auto may_read = host::service_user_may_read(user, path); may_read && !*may_read) {
        const std::string name(user);
        found.push_back({path, 1, 1,
                         "the user " + name + ", as which the daemon runs, may not read it",
                         "mode 0640 and the group " + name, Severity::Warning});
    }
}

void check_recordings(const config::DebugConfig& debug,
                      const std::string& file,
                      std::vector<Diagnostic>& found) {
    check_directory("capture_file", debug.capture_file, debug.capture_file_place, file, found);
    check_directory("capture_keys_file", debug.capture_keys_file, debug.capture_keys_file_place,
                    file, found);
}

}  // namespace continuo::daemon
