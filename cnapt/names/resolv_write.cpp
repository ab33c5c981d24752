#include "cnapt/names/resolv_write.hpp"

#include "common/io/unique_fd.hpp"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::cnapt::names {

using base::Errc;
using base::Error;
using base::Result;

namespace {

Result<void> write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count < 0 && errno != EINTR) {
            return failed("write resolv.conf");
        }
        text.remove_prefix(count < 0 ? 0 : static_cast<size_t>(count));
    }
    return {};
}

void set_time(int fd, const timespec& modified) {
    const std::array<timespec, 2> times = {timespec{0, UTIME_OMIT}, modified};
    static_cast<void>(::futimens(fd, times.data()) == 0);
}

void set_attributes(int fd, const Attributes& attributes) {
    static_cast<void>(::fchown(fd, attributes.user, attributes.group) == 0);
    static_cast<void>(::fchmod(fd, attributes.mode) == 0);
    if (attributes.modified) {
        set_time(fd, *attributes.modified);
    }
}

}  // namespace

Error failed(std::string_view where) {
    return Error{Errc::System, where, errno};
}

Result<std::string> read_all(int fd, size_t limit) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return failed("read resolv.conf");
        }
        if (count == 0) {
            return text;
        }
        text.append(buffer.data(), static_cast<size_t>(count));
        if (text.size() > limit) {
            return Error{Errc::LimitReached, "resolv.conf is too long", 0};
        }
    }
}

void set_link_attributes(int directory, const std::string& name, const Attributes& attributes) {
    static_cast<void>(::fchownat(directory, name.c_str(), attributes.user, attributes.group,
                                 AT_SYMLINK_NOFOLLOW) == 0);
    if (attributes.modified) {
        const std::array<timespec, 2> times = {timespec{0, UTIME_OMIT}, *attributes.modified};
        static_cast<void>(::utimensat(directory, name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) ==
                          0);
    }
}

Result<void> write_temporary(int directory,
                             const std::string& name,
                             std::string_view text,
                             const Attributes& attributes) {
    static_cast<void>(::unlinkat(directory, name.c_str(), 0) == 0);
    const io::UniqueFd fd(::openat(directory, name.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.is_open()) {
        return failed("make a file beside resolv.conf");
    }
    CTN_TRY(write_all(fd.value(), text));
    set_attributes(fd.value(), attributes);
    return ::fsync(fd.value()) == 0 ? Result<void>{} : failed("fsync");
}

Result<void> write_in_place(int directory,
                            const std::string& name,
                            std::string_view text,
                            const timespec& modified) {
    const io::UniqueFd fd(
        ::openat(directory, name.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.is_open()) {
        return failed("write resolv.conf");
    }
    CTN_TRY(write_all(fd.value(), text));
    set_time(fd.value(), modified);
    return ::fsync(fd.value()) == 0 ? Result<void>{} : failed("fsync");
}

}  // namespace continuo::cnapt::names
