#include "common/io/file.hpp"

#include "common/base/secret.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::io {

namespace {

using base::Errc;
using base::Error;
using base::Result;

Error system_error(std::string_view where) {
    return Error{errno == ENOENT ? Errc::NotFound : Errc::System, where, errno};
}

std::string directory_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
        return ".";
    }
    return slash == 0 ? "/" : path.substr(0, slash);
}

Result<void> write_all(int fd, std::string_view content) {
    while (!content.empty()) {
        const ssize_t written = ::write(fd, content.data(), content.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return system_error("write file");
        }
        content.remove_prefix(static_cast<size_t>(written));
    }
    return {};
}

Result<void> write_and_rename(int fd,
                              const std::string& temporary,
                              const std::string& path,
                              std::string_view content,
                              unsigned mode) {
    CTN_TRY(write_all(fd, content));
    if (::fchmod(fd, mode) != 0 || ::fsync(fd) != 0) {
        return system_error("sync file");
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        return system_error("rename file");
    }
    return {};
}

}  // namespace

Result<void>
write_file_atomically(const std::string& path, std::string_view content, unsigned mode) {
    const std::string temporary = path + ".tmp-" + std::to_string(::getpid());
    const UniqueFd file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!file.is_open()) {
        return system_error("create file");
    }
    if (auto done = write_and_rename(file.value(), temporary, path, content, mode); !done) {
        ::unlink(temporary.c_str());
        return done;
    }
    const UniqueFd directory(
        ::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.is_open() || ::fsync(directory.value()) != 0) {
        return system_error("sync directory");
    }
    return {};
}

Result<std::string> read_file(const std::string& path, size_t limit_bytes) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) {
        return system_error("open file");
    }
    return read_all(file.value(), limit_bytes);
}

Result<std::string> read_all(int fd, size_t limit_bytes) {
    std::string content;
    std::array<char, 16384> block{};
    for (;;) {
        const ssize_t got = ::read(fd, block.data(), block.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return system_error("read file");
        }
        if (got == 0) {
            base::wipe(block.data(), std::min(content.size(), block.size()));  // may have been keys
            return content;
        }
        if (content.size() + static_cast<size_t>(got) > limit_bytes) {
            return Error{Errc::LimitReached, "file too long"};
        }
        content.append(block.data(), static_cast<size_t>(got));
    }
}

Result<void> remove_file(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        return system_error("remove file");
    }
    return {};
}

Result<void> make_directories(const std::string& path, unsigned mode) {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (!part.empty() && ::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
            return system_error("make directory");
        }
        if (end == std::string::npos) {
            break;
        }
    }
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        return system_error("make directory");
    }
    if (!S_ISDIR(status.st_mode)) {
        return Error{Errc::System, "make directory", ENOTDIR};
    }
    return {};
}

Result<LockFile> LockFile::acquire(const std::string& path) {
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.is_open()) {
        return system_error("open lock file");
    }
    if (::flock(file.value(), LOCK_EX | LOCK_NB) != 0) {
        return Error{errno == EWOULDBLOCK ? Errc::InvalidState : Errc::System, "lock file", errno};
    }
    return LockFile(std::move(file));
}

}  // namespace continuo::io
