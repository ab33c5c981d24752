#include "common/host/privileges.hpp"

#include "common/host/unix_socket.hpp"
#include "common/io/file.hpp"
#include "common/io/unique_fd.hpp"
#include "common/process/process_lookup.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::host {

namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr std::array<const char*, 41> kCapabilityNames = {"CAP_CHOWN",
                                                          "CAP_DAC_OVERRIDE",
                                                          "CAP_DAC_READ_SEARCH",
                                                          "CAP_FOWNER",
                                                          "CAP_FSETID",
                                                          "CAP_KILL",
                                                          "CAP_SETGID",
                                                          "CAP_SETUID",
                                                          "CAP_SETPCAP",
                                                          "CAP_LINUX_IMMUTABLE",
                                                          "CAP_NET_BIND_SERVICE",
                                                          "CAP_NET_BROADCAST",
                                                          "CAP_NET_ADMIN",
                                                          "CAP_NET_RAW",
                                                          "CAP_IPC_LOCK",
                                                          "CAP_IPC_OWNER",
                                                          "CAP_SYS_MODULE",
                                                          "CAP_SYS_RAWIO",
                                                          "CAP_SYS_CHROOT",
                                                          "CAP_SYS_PTRACE",
                                                          "CAP_SYS_PACCT",
                                                          "CAP_SYS_ADMIN",
                                                          "CAP_SYS_BOOT",
                                                          "CAP_SYS_NICE",
                                                          "CAP_SYS_RESOURCE",
                                                          "CAP_SYS_TIME",
                                                          "CAP_SYS_TTY_CONFIG",
                                                          "CAP_MKNOD",
                                                          "CAP_LEASE",
                                                          "CAP_AUDIT_WRITE",
                                                          "CAP_AUDIT_CONTROL",
                                                          "CAP_SETFCAP",
                                                          "CAP_MAC_OVERRIDE",
                                                          "CAP_MAC_ADMIN",
                                                          "CAP_SYSLOG",
                                                          "CAP_WAKE_ALARM",
                                                          "CAP_BLOCK_SUSPEND",
                                                          "CAP_AUDIT_READ",
                                                          "CAP_PERFMON",
                                                          "CAP_BPF",
                                                          "CAP_CHECKPOINT_RESTORE"};
constexpr unsigned kCapabilityBits = 64;
constexpr unsigned kDirectoryMode = 0755;
constexpr unsigned kSharedMode = 01770;  // a socket is replaced only by its owner
constexpr unsigned kStateMode = 0700;

struct User {
    uid_t user = 0;
    gid_t group = 0;
    const char* name = "";

    // The private one, and that of the command sockets.
    std::vector<gid_t> groups() const {
        std::vector<gid_t> list = {group};
        if (const auto command = command_group(); command && *command != group) {
            list.push_back(*command);
        }
        return list;
    }
};

Error failed(std::string_view what) {
    return Error{Errc::System, what, errno};
}

std::optional<User> user_of(const char* name) {
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    const int error = ::getpwnam_r(name, &entry, buffer.data(), buffer.size(), &found);
    return error == 0 && found != nullptr && entry.pw_uid != 0
               ? std::optional(User{entry.pw_uid, entry.pw_gid, name})
               : std::nullopt;
}

std::optional<User> service_user(const char* name) {
    auto user = user_of(name);
    return user ? user : user_of(kSharedUser);
}

std::string directory_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
}

bool is_there(const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
}

// The effective user counts.
bool may(int mode, const std::string& path) {
    return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

std::string obstacle_for(const ServiceFiles& files,
                         const std::vector<std::string>& readable,
                         std::string obstacle) {
    for (const std::string& path : readable) {
        if (!may(R_OK, path)) {
            return obstacle.append(" may not read ").append(path);
        }
    }
    if (!may(F_OK, files.state)) {
        return obstacle.append(" may not reach ").append(files.state);
    }
    if (!files.device.empty() && is_there(files.device) && !may(R_OK | W_OK, files.device)) {
        return obstacle.append(" may not open ").append(files.device);
    }
    const std::string directory = directory_of(files.socket);
    return may(W_OK | X_OK, directory) ? ""
                                       : obstacle.append(" may not write to ").append(directory);
}

// Why the service user could not work with `files`. Changes the effective ids for the check.
Result<std::string> try_as(const User& user, const ServiceFiles& files) {
    std::vector<std::string> readable;
    for (const std::string& path : files.read_again) {
        if (!path.empty() && is_there(path)) {
            readable.push_back(path);
        }
    }
    const gid_t former = ::getegid();
    std::array<gid_t, NGROUPS_MAX> groups{};
    const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
    const std::vector<gid_t> theirs = user.groups();
    if (count < 0 || ::setgroups(theirs.size(), theirs.data()) != 0 || ::setegid(user.group) != 0 ||
        ::seteuid(user.user) != 0) {
        return failed("try the service user");
    }
    std::string obstacle = obstacle_for(files, readable, user.name);
    if (::seteuid(0) != 0 || ::setegid(former) != 0 ||
        ::setgroups(static_cast<size_t>(count), groups.data()) != 0) {
        return failed("become root again");
    }
    return obstacle;
}

constexpr User kRoot{};

// Gives away the directory and its files that belong to `from`.
void hand_over(const std::string& path, const User& from, const User& to) {
    const io::UniqueFd directory(
        ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    // A shared one (such as /tmp) is not ours to give away.
    if (!directory.is_open() || ::fstat(directory.value(), &status) != 0 ||
        (status.st_mode & S_ISVTX) != 0) {
        return;
    }
    if (status.st_uid == from.user && ::fchown(directory.value(), to.user, to.group) != 0) {
        return;
    }
    struct Close {
        void operator()(DIR* open) const { ::closedir(open); }
    };
    const std::unique_ptr<DIR, Close> list(::opendir(path.c_str()));
    while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
        const char* name = static_cast<const char*>(entry->d_name);
        if (::fstatat(directory.value(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode) && status.st_uid == from.user && status.st_nlink == 1) {
            // Failures show when the file is opened.
            [[maybe_unused]] const int given =
                ::fchownat(directory.value(), name, to.user, to.group, AT_SYMLINK_NOFOLLOW);
        }
    }
}

void share(const std::string& path, gid_t group) {
    const io::UniqueFd directory(
        ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (directory.is_open() && ::fchown(directory.value(), 0, group) == 0) {
        // On failure the service user cannot write there, which is reported.
        [[maybe_unused]] const int shared = ::fchmod(directory.value(), kSharedMode);
    }
}

// Removes a socket of another user. In a sticky directory only root may do so, and the daemon could
// not listen there.
void remove_left_socket(const std::string& path, const User& user) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode) ||
        status.st_uid == user.user) {
        return;
    }
    const auto answer = unix_connect(path);
    if (!answer && answer.error().sys_errno == ECONNREFUSED) {
        ::unlink(path.c_str());
    }
}

// Creates both directories; returns why root must stay, or nothing.
Result<std::string> prepare(const ServiceFiles& files, const User& user) {
    const std::string directory = directory_of(files.socket);
    const bool is_new = !is_there(directory);
    CTN_TRY(io::make_directories(files.state, kStateMode));
    CTN_TRY(io::make_directories(directory, kDirectoryMode));
    if (is_new) {
        // Owned by root: a later start may have to stay root, and without capabilities it must own
        // it.
        share(directory, command_group().value_or(user.group));
    }
    remove_left_socket(files.socket, user);
    // Created by earlier versions.
    if (const auto shared = user_of(kSharedUser); shared && shared->user != user.user) {
        hand_over(files.state, *shared, kRoot);
    }
    std::string obstacle = CTN_TRY(try_as(user, files));
    if (obstacle.empty()) {
        hand_over(files.state, kRoot, user);
    } else {
        // As above; an earlier start may have given it away.
        hand_over(files.state, user, kRoot);
    }
    return obstacle;
}

// Capabilities stay permitted (but not effective) until keep_capabilities.
Result<void> become(const User& user) {
    const std::vector<gid_t> groups = user.groups();
    if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 ||
        ::setgroups(groups.size(), groups.data()) != 0 ||
        ::setresgid(user.group, user.group, user.group) != 0 ||
        ::setresuid(user.user, user.user, user.user) != 0 ||
        ::prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) != 0) {
        return failed("become the service user");
    }
    // The kernel has set it to fs.suid_dumpable.
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        return failed("keep memory from others");
    }
    return {};
}

// Capabilities that an executed program could get; needs CAP_SETPCAP, without which no_new_privs
// must do.
void empty_bounding_set() {
    for (unsigned number = 0; number < kCapabilityBits; ++number) {
        if (::prctl(PR_CAPBSET_DROP, static_cast<unsigned long>(number), 0, 0, 0) != 0) {
            return;
        }
    }
}

}  // namespace

std::optional<uint32_t> command_group() {
    std::array<char, 4096> buffer{};
    group entry{};
    group* found = nullptr;
    const int error = ::getgrnam_r(kCommandGroup, &entry, buffer.data(), buffer.size(), &found);
    return error == 0 && found != nullptr ? std::optional(entry.gr_gid) : std::nullopt;
}

Result<IdentityChange> reduce_rights(const ServiceFiles& files,
                                     std::span<const io::Capability> for_start) {
    IdentityChange change;
    const auto user = ::geteuid() == 0 ? service_user(files.user) : std::nullopt;
    if (user) {
        change.obstacle = CTN_TRY(prepare(files, *user));
        change.is_service_user = change.obstacle.empty();
    }
    empty_bounding_set();
    if (change.is_service_user) {
        CTN_TRY(become(*user));
    }
    CTN_TRY(io::keep_capabilities(for_start));
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return failed("no_new_privs");
    }
    return change;
}

std::string service_obstacle(const ServiceFiles& files) {
    const auto user = ::geteuid() == 0 ? service_user(files.user) : std::nullopt;
    if (!user || !is_there(files.state) || !is_there(directory_of(files.socket))) {
        return {};
    }
    const Result<std::string> obstacle = try_as(*user, files);
    return obstacle ? *obstacle : "";
}

void match_owner(const std::string& directory) {
    struct stat status {};
    if (::geteuid() == 0 && ::stat(directory.c_str(), &status) == 0 && status.st_uid != 0) {
        hand_over(directory, kRoot, User{status.st_uid, status.st_gid});
    }
}

std::optional<bool> service_user_may_read(const char* user, const std::string& path) {
    const auto service = service_user(user);
    struct stat status {};
    if (!service || ::stat(path.c_str(), &status) != 0) {
        return std::nullopt;
    }
    const std::vector<gid_t> groups = service->groups();
    const bool is_of_group = std::find(groups.begin(), groups.end(), status.st_gid) != groups.end();
    const unsigned bit = status.st_uid == service->user ? S_IRUSR : is_of_group ? S_IRGRP : S_IROTH;
    return (status.st_mode & bit) != 0;
}

void share_with_service(const std::string& path, const char* user) {
    const auto service = ::geteuid() == 0 ? service_user(user) : std::nullopt;
    if (service && ::chown(path.c_str(), 0, service->group) == 0) {
        [[maybe_unused]] const int readable = ::chmod(path.c_str(), S_IRUSR | S_IWUSR | S_IRGRP);
    }
}

ProcessRights process_rights() {
    constexpr int kHex = 16;
    ProcessRights rights;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        const size_t colon = line.find(':');
        const std::string name = line.substr(0, colon);
        const char* value = colon == std::string::npos ? "" : line.c_str() + colon + 1;
        if (name == "Uid") {
            // real, effective, saved, file system
            char* end = nullptr;
            std::strtoul(value, &end, 10);
            const auto user = static_cast<uint32_t>(std::strtoul(end, nullptr, 10));
            rights.user = process::user_name(user);
            rights.user = rights.user.empty() ? std::to_string(user) : rights.user;
        } else if (name == "CapEff") {
            const uint64_t mask = std::strtoull(value, nullptr, kHex);
            for (unsigned bit = 0; bit < kCapabilityBits; ++bit) {
                if ((mask >> bit & 1U) != 0) {
                    rights.capabilities.push_back(bit < kCapabilityNames.size()
                                                      ? kCapabilityNames[bit]
                                                      : std::to_string(bit));
                }
            }
        } else if (name == "NoNewPrivs") {
            rights.no_new_privs = std::strtoul(value, nullptr, 10) == 1;
        } else if (name == "Seccomp") {
            rights.seccomp = std::strtoul(value, nullptr, 10) == 2;  // SECCOMP_MODE_FILTER
        }
    }
    return rights;
}

}  // namespace continuo::host
