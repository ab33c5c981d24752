#include "cnapt/names/resolv_file.hpp"

#include "cnapt/names/resolv_write.hpp"
#include "cnapt/names/write_places.hpp"
#include "common/io/file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace continuo::cnapt::names {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr const char* kKeptName = "resolv.conf";
constexpr const char* kDamagedName = "resolv.conf.damaged";
constexpr std::string_view kFirstLine = "continuo kept resolv.conf 1\n";
constexpr std::string_view kOriginalKey = "original ";
constexpr size_t kMaxKeptBytes = 3 * kMaxResolvConfBytes;
constexpr mode_t kPermissionBits = 07777;
constexpr mode_t kOthersMayWrite = 022;
constexpr unsigned kOwnDirectory = 0700;
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr std::string_view kStubName = "/systemd/resolve/stub-resolv.conf";
constexpr std::string_view kUplinkName = "/systemd/resolve/resolv.conf";

// "KEY NUMBER\n"
template <typename T>
bool take_number(std::string_view& text, std::string_view key, T& number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos || text.substr(0, key.size()) != key) {
        return false;
    }
    const char* const last = text.data() + end;
    const auto read = std::from_chars(text.data() + key.size(), last, number);
    text.remove_prefix(end + 1);
    return read.ec == std::errc() && read.ptr == last;
}

std::string number_line(std::string_view key, int64_t number) {
    return std::string(key) + std::to_string(number) + "\n";
}

bool begins(std::string_view text, std::string_view whole) {
    return whole.substr(0, text.size()) == text;
}

// An in-place write was interrupted within a line, as no other program leaves it.
bool is_cut(std::string_view text, std::string_view whole) {
    return text.empty() || (text.back() != '\n' && begins(text, whole));
}

}  // namespace

Result<void> ResolvFile::open_directory() {
    const size_t slash = path_.rfind('/');
    name_ = path_.substr(slash == std::string::npos ? 0 : slash + 1);
    const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    directory_ = io::UniqueFd(::open(directory.c_str(), kDirectoryFlags));
    return directory_.is_open() ? Result<void>{} : failed("open the directory of resolv.conf");
}

std::vector<base::IpAddress> ResolvFile::servers_kept_in(const std::string& kept,
                                                         const std::string& path) {
    ResolvFile file(path, kept);
    file.kept_directory_ = io::UniqueFd(::open(kept.c_str(), kDirectoryFlags | O_NOFOLLOW));
    if (!file.open_directory() || !file.kept_directory_.is_open()) {
        return {};
    }
    const auto record = file.read_kept();
    return record && *record ? name_servers(file.text_of((*record)->original))
                             : std::vector<base::IpAddress>();
}

Result<ResolvFile> ResolvFile::open(const std::string& path, const std::string& kept) {
    ResolvFile file(path, kept);
    CTN_TRY(file.open_directory());
    CTN_TRY(io::make_directories(kept, kOwnDirectory));
    std::array<char, PATH_MAX> absolute{};
    if (::realpath(kept.c_str(), absolute.data()) != nullptr) {
        file.kept_path_ = absolute.data();
    }
    file.kept_directory_ = io::UniqueFd(::open(kept.c_str(), kDirectoryFlags | O_NOFOLLOW));
    struct stat status {};
    if (!file.kept_directory_.is_open() || ::fstat(file.kept_directory_.value(), &status) != 0) {
        return failed("open the directory of the kept resolv.conf");
    }
    if (status.st_uid != ::geteuid() || (status.st_mode & kOthersMayWrite) != 0) {
        return Error{Errc::InvalidState, "the directory of the kept resolv.conf is another user's",
                     0};
    }
    struct stat around {};
    if (::fstat(file.directory_.value(), &around) != 0 ||
        (around.st_dev == status.st_dev && around.st_ino == status.st_ino)) {
        return Error{Errc::InvalidState, "the original cannot be kept beside resolv.conf", 0};
    }
    // One process at a time: the next one waits until this one has restored the file.
    if (::flock(file.kept_directory_.value(), LOCK_EX | LOCK_NB) != 0) {
        return Error{Errc::WouldBlock, "another process changes resolv.conf", 0};
    }
    return file;
}

Result<void> ResolvFile::confine() const {
    const std::array<WritePlace, 2> places = {
        {{directory_.value(), true}, {kept_directory_.value(), false}}};
    return write_only_in(places);
}

Result<ResolvFile::Content> ResolvFile::look_at(const std::string& name) const {
    Content content;
    struct stat status {};
    if (::fstatat(directory_.value(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? Result<Content>(content) : failed("stat resolv.conf");
    }
    content.mode = status.st_mode & kPermissionBits;
    content.user = status.st_uid;
    content.group = status.st_gid;
    content.modified = status.st_mtim;
    if (S_ISLNK(status.st_mode)) {
        std::array<char, PATH_MAX> target{};
        const ssize_t length =
            ::readlinkat(directory_.value(), name.c_str(), target.data(), target.size());
        if (length < 0) {
            return failed("read the link resolv.conf");
        }
        content.kind = Kind::Link;
        content.text.assign(target.data(), static_cast<size_t>(length));
        return content;
    }
    if (!S_ISREG(status.st_mode)) {
        return Error{Errc::InvalidState, "resolv.conf is no file", 0};
    }
    const io::UniqueFd fd(
        ::openat(directory_.value(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd.is_open()) {
        return failed("open resolv.conf");
    }
    content.kind = Kind::Regular;
    content.text = CTN_TRY(read_all(fd.value(), kMaxResolvConfBytes));
    return content;
}

bool ResolvFile::is_ours(const Content& content, const std::string& ours) const {
    return content.kind == Kind::Regular &&
           (content.text == ours || kept_place(content.text) == kept_path_);
}

bool ResolvFile::is_still_ours(const Content& now) const {
    if (!kept_) {
        return false;
    }
    const bool is_half = is_unfinished_ && now.kind == Kind::Regular &&
                         (begins(now.text, kept_->ours) || begins(now.text, kept_->original.text));
    return is_half || is_ours(now, kept_->ours);
}

std::string ResolvFile::other_place(const Content& content) const {
    const std::string place(content.kind == Kind::Regular ? kept_place(content.text) : "");
    const bool is_other = !place.empty() && place != kept_path_;
    // There may be a file that this user cannot see.
    const bool is_there = is_other && (::access((place + "/" + kKeptName).c_str(), F_OK) == 0 ||
                                       (errno != ENOENT && errno != ENOTDIR));
    return is_there ? place : std::string();
}

std::string ResolvFile::other_place() const {
    const auto now = look();
    return now ? other_place(*now) : std::string();
}

std::string ResolvFile::text_of(const Content& content) const {
    if (content.kind != Kind::Link) {
        return content.text;
    }
    const io::UniqueFd fd(
        ::openat(directory_.value(), content.text.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    auto text = fd.is_open() ? read_all(fd.value(), kMaxResolvConfBytes) : Result<std::string>("");
    return text ? std::move(*text) : std::string();
}

Result<void> ResolvFile::keep(const Kept& kept) const {
    const Content& original = kept.original;
    std::string text(kFirstLine);
    text += number_line("kind ", static_cast<int64_t>(original.kind));
    text += number_line("mode ", original.mode);
    text += number_line("user ", original.user);
    text += number_line("group ", original.group);
    text += number_line("seconds ", original.modified.tv_sec);
    text += number_line("nanoseconds ", original.modified.tv_nsec);
    text += number_line("ours ", static_cast<int64_t>(kept.ours.size()));
    text += number_line(kOriginalKey, static_cast<int64_t>(original.text.size()));
    text += "\n" + kept.ours + original.text;
    const std::string temporary = std::string(kKeptName) + ".new";
    const int directory = kept_directory_.value();
    CTN_TRY(write_temporary(directory, temporary, text, {0600, ::geteuid(), ::getegid(), {}}));
    if (::renameat(directory, temporary.c_str(), directory, kKeptName) != 0 ||
        ::fsync(directory) != 0) {
        return failed("keep the original of resolv.conf");
    }
    return {};
}

Result<std::optional<ResolvFile::Kept>> ResolvFile::read_kept() const {
    const io::UniqueFd fd(::openat(kept_directory_.value(), kKeptName,
                                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd.is_open()) {
        return errno == ENOENT ? Result<std::optional<Kept>>(std::nullopt)
                               : failed("open the kept resolv.conf");
    }
    struct stat status {};
    if (::fstat(fd.value(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != ::geteuid()) {
        return Error{Errc::InvalidState, "the kept resolv.conf is another user's", 0};
    }
    const std::string all = CTN_TRY(read_all(fd.value(), kMaxKeptBytes));
    std::string_view text = all;
    const Error damaged{Errc::Malformed, "the kept resolv.conf is damaged", 0};
    if (text.substr(0, kFirstLine.size()) != kFirstLine) {
        return damaged;
    }
    text.remove_prefix(kFirstLine.size());
    Kept kept;
    unsigned kind = 0;
    size_t ours = 0;
    size_t original = 0;
    // Earlier versions did not write the length of the original.
    const auto take_original = [&] {
        const bool is_there = text.substr(0, kOriginalKey.size()) == kOriginalKey;
        return is_there ? take_number(text, kOriginalKey, original) &&
                              text.size() - std::min(text.size(), 1 + ours) == original
                        : true;
    };
    const bool is_whole =
        take_number(text, "kind ", kind) && take_number(text, "mode ", kept.original.mode) &&
        take_number(text, "user ", kept.original.user) &&
        take_number(text, "group ", kept.original.group) &&
        take_number(text, "seconds ", kept.original.modified.tv_sec) &&
        take_number(text, "nanoseconds ", kept.original.modified.tv_nsec) &&
        take_number(text, "ours ", ours) && take_original() && !text.empty() &&
        text.front() == '\n' && ours < text.size() && kind <= static_cast<unsigned>(Kind::Link);
    if (!is_whole) {
        return damaged;
    }
    kept.original.kind = static_cast<Kind>(kind);
    kept.ours = text.substr(1, ours);
    kept.original.text = text.substr(1 + ours);
    return std::optional(std::move(kept));
}

Result<void> ResolvFile::forget() {
    kept_.reset();
    is_unfinished_ = false;
    const auto now = look();
    if (!now || other_place(*now).empty()) {  // otherwise another owner's file is set aside
        static_cast<void>(::unlinkat(directory_.value(), aside_name().c_str(), 0) == 0);
    }
    const bool is_gone = ::unlinkat(kept_directory_.value(), kKeptName, 0) == 0 || errno == ENOENT;
    return is_gone ? Result<void>{} : failed("remove the kept resolv.conf");
}

Result<void> ResolvFile::put_under(const std::string& temporary, const Content& content) const {
    const int directory = directory_.value();
    const Attributes attributes{content.mode, content.user, content.group, content.modified};
    if (content.kind != Kind::Link) {
        const auto written = write_temporary(directory, temporary, content.text, attributes);
        if (!written) {
            static_cast<void>(::unlinkat(directory, temporary.c_str(), 0) == 0);
        }
        return written;
    }
    static_cast<void>(::unlinkat(directory, temporary.c_str(), 0) == 0);
    if (::symlinkat(content.text.c_str(), directory, temporary.c_str()) != 0) {
        return failed("make a link beside resolv.conf");
    }
    set_link_attributes(directory, temporary, attributes);
    return {};
}

Result<void> ResolvFile::put(const Content& content) const {
    const int directory = directory_.value();
    if (content.kind == Kind::Absent) {
        const bool is_gone = ::unlinkat(directory, name_.c_str(), 0) == 0 || errno == ENOENT;
        return is_gone ? Result<void>{} : failed("remove resolv.conf");
    }
    const std::string temporary = temporary_name();
    if (const auto made = put_under(temporary, content); !made) {
        // An unwritable directory may hold a writable file.
        const int error = made.error().sys_errno;
        const bool is_refused = error == EACCES || error == EPERM || error == EROFS;
        return is_refused && content.kind == Kind::Regular &&
                       write_in_place(directory, name_, content.text, content.modified)
                   ? Result<void>{}
                   : made;
    }
    if (::renameat(directory, temporary.c_str(), directory, name_.c_str()) == 0) {
        static_cast<void>(::fsync(directory) == 0);
        return {};
    }
    const Error error = failed("replace resolv.conf");
    static_cast<void>(::unlinkat(directory, temporary.c_str(), 0) == 0);
    if (error.sys_errno == EBUSY && content.kind == Kind::Regular) {
        return write_in_place(directory, name_, content.text, content.modified);
    }
    return error;
}

Result<void> ResolvFile::exchange(const Content& ours) const {
    const int directory = directory_.value();
    const std::string aside = aside_name();
    CTN_TRY(put_under(aside, ours));
    if (::syscall(SYS_renameat2, directory, aside.c_str(), directory, name_.c_str(),
                  RENAME_EXCHANGE) != 0) {
        const Error error = failed("exchange resolv.conf");
        static_cast<void>(::unlinkat(directory, aside.c_str(), 0) == 0);
        return error;
    }
    static_cast<void>(::fsync(directory) == 0);
    return {};
}

Result<void> ResolvFile::put_back(const Content& original) const {
    const int directory = directory_.value();
    const auto aside = look_at(aside_name());
    const bool is_it = aside && original.kind != Kind::Absent && aside->kind == original.kind &&
                       aside->text == original.text;
    if (is_it && ::renameat(directory, aside_name().c_str(), directory, name_.c_str()) == 0) {
        static_cast<void>(::fsync(directory) == 0);
        return {};
    }
    return put(original);
}

// Without the record: the current file is for a tunnel, and the original is lost.
bool ResolvFile::take_back_aside(const Content& now) const {
    const auto is_of_tunnel = [](const Content& content) {
        return content.kind == Kind::Regular && is_resolv_conf_of_tunnel(content.text);
    };
    const int directory = directory_.value();
    const auto aside = look_at(aside_name());
    return is_of_tunnel(now) && other_place(now).empty() && aside && aside->kind != Kind::Absent &&
           !is_of_tunnel(*aside) &&
           ::renameat(directory, aside_name().c_str(), directory, name_.c_str()) == 0;
}

Result<bool> ResolvFile::clean_up() {
    static_cast<void>(::unlinkat(directory_.value(), temporary_name().c_str(), 0) == 0);
    const auto kept = read_kept();
    if (!kept) {
        const int place = kept_directory_.value();
        static_cast<void>(::renameat(place, kKeptName, place, kDamagedName) == 0);
        if (const auto now = look(); now && take_back_aside(*now)) {
            return true;
        }
        return kept.error();
    }
    const Content now = CTN_TRY(look());
    if (!*kept && take_back_aside(now)) {
        return true;
    }
    if (!*kept) {
        const bool is_of_tunnel = now.kind == Kind::Regular && is_resolv_conf_of_tunnel(now.text);
        if (is_of_tunnel && other_place(now).empty()) {
            return Error{Errc::NotFound,
                         "resolv.conf is an earlier run's, and its original is not there", 0};
        }
        if (!is_of_tunnel) {
            static_cast<void>(::unlinkat(directory_.value(), aside_name().c_str(), 0) == 0);
        }
        return false;
    }
    const bool is_half = now.kind == Kind::Regular && (is_cut(now.text, (*kept)->ours) ||
                                                       is_cut(now.text, (*kept)->original.text));
    if (is_half || is_ours(now, (*kept)->ours)) {
        CTN_TRY(put_back((*kept)->original));
    }
    CTN_TRY(forget());
    return true;
}

Result<void> ResolvFile::apply(const std::vector<base::IpAddress>& servers) {
    if (kept_ && servers_ == servers && !is_replaced()) {
        return {};
    }
    servers_ = servers;
    return take_over();
}

bool ResolvFile::is_replaced() const {
    const auto now = look();
    return kept_ && now && (now->kind != Kind::Regular || now->text != kept_->ours);
}

ResolvFile::Content ResolvFile::make_ours(std::string text, const Content& original) const {
    Content ours;
    ours.kind = Kind::Regular;
    ours.text = std::move(text);
    ours.user = ::geteuid();
    ours.group = ::getegid();
    ours.modified.tv_nsec = UTIME_NOW;
    // Another owner's file keeps the permissions for that owner; we may have none.
    const bool is_alike = original.kind == Kind::Regular && original.user == ours.user &&
                          original.group == ours.group;
    ours.mode = is_alike ? original.mode : ours.mode;
    return ours;
}

Result<void> ResolvFile::take_over() {
    Kept kept;
    kept.original = CTN_TRY(look());
    const bool is_ours_there = is_still_ours(kept.original);
    if (is_ours_there) {
        kept.original = kept_->original;
    } else if (!other_place(kept.original).empty()) {
        return Error{Errc::InvalidState, "it is another cnapt's", 0};
    }
    kept.ours = resolv_conf_through(servers_, text_of(kept.original), kept_path_);
    CTN_TRY(keep(kept));
    const Content ours = make_ours(kept.ours, kept.original);
    const bool is_exchanged =
        !is_ours_there && kept.original.kind != Kind::Absent && exchange(ours);
    if (const auto is_put = is_exchanged ? Result<void>{} : put(ours); !is_put) {
        const auto now = look();
        const bool is_as_before =
            now && now->kind == kept.original.kind && now->text == kept.original.text;
        // An in-place write may have begun; repairs that fail now are tried later.
        if (!is_as_before && !put_back(kept.original)) {
            kept_ = std::move(kept);
            is_unfinished_ = true;
        } else if (!kept_) {
            static_cast<void>(forget().has_value());
        }
        return is_put;
    }
    is_unfinished_ = false;
    // Another program may have written since the check: that is then the original.
    if (const auto aside = look_at(aside_name());
        is_exchanged && aside &&
        (aside->kind != kept.original.kind || aside->text != kept.original.text)) {
        kept.original = *aside;
        static_cast<void>(keep(kept).has_value());
    }
    kept_ = std::move(kept);
    return {};
}

Result<bool> ResolvFile::restore() {
    if (!kept_) {
        return true;
    }
    const Content now = CTN_TRY(look());
    const bool is_to_go = is_still_ours(now);
    if (is_to_go) {
        is_unfinished_ = true;
        CTN_TRY(put_back(kept_->original));
    }
    CTN_TRY(forget());
    return is_to_go;
}

std::vector<base::IpAddress> ResolvFile::original_servers() const {
    if (kept_) {
        return name_servers(text_of(kept_->original));
    }
    const auto now = look();
    return now ? name_servers(text_of(*now)) : std::vector<base::IpAddress>();
}

bool ResolvFile::leads_to_stub(const Content& content) const {
    return (content.kind == Kind::Link && content.text.ends_with(kStubName)) ||
           is_stub_of_resolved(text_of(content));
}

bool ResolvFile::leads_to_resolved() const {
    const auto now = look();
    return now && !kept_ && leads_to_stub(*now);
}

bool ResolvFile::hides_file_of_resolved() const {
    return kept_ &&
           (leads_to_stub(kept_->original) ||
            (kept_->original.kind == Kind::Link && kept_->original.text.ends_with(kUplinkName)));
}

}  // namespace continuo::cnapt::names
