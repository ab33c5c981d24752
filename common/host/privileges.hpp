// The rights of a daemon, reduced in two steps. Before its first thread it becomes its own user, if
// that exists, and keeps the capabilities for its start; each helper thread keeps fewer. After the
// start only CAP_NET_ADMIN remains, and a seccomp filter refuses system calls that are not needed
// any more. docs/DECISIONS.md says what was measured.
#pragma once

#include "common/base/result.hpp"
#include "common/io/capabilities.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace continuo::host {

// Each daemon has its own user, with a private group of the same name. If it is missing, the user
// that both shared in earlier versions is used.
inline constexpr const char* kNodeUser = "continuo-cnapt";
inline constexpr const char* kRelayUser = "continuo-snapt";
inline constexpr const char* kSharedUser = "continuo";
// The group whose members may use the command sockets. Daemons have it beside their own.
inline constexpr const char* kCommandGroup = "continuo";
std::optional<uint32_t> command_group();

struct ServiceFiles {
    std::vector<std::string> read_again;  // by reload; empty names and missing files are skipped
    std::string state;                    // directory
    std::string socket;                   // the command socket
    std::string device;              // opened for reading and writing after the start; empty: none
    const char* user = kSharedUser;  // whom the daemon becomes
};

struct IdentityChange {
    bool is_service_user = false;
    // If not: why root stays, as "continuo may not read FILE"; empty when there is no such user or
    // this is not root.
    std::string obstacle;
};

// Call before the first thread. As root: creates the state directory and, if missing, that of the
// socket, in which the command group may create sockets too. Gives files of root or the shared user
// in the state directory to the service user, and becomes it if it can access all of `files`;
// otherwise stays root and takes the state directory back. In any case keeps only the capabilities
// `for_start`, and programs that it starts get no more (no_new_privs).
base::Result<IdentityChange> reduce_rights(const ServiceFiles& files,
                                           std::span<const io::Capability> for_start);

// For checks, as root: why the service user could not work with `files`, as above; changes nothing.
// Empty: it could, there is no such user, this is not root, or a folder is still missing.
std::string service_obstacle(const ServiceFiles& files);

// Gives root's files in `directory` (not below it) to the directory's owner and group, so that the
// daemon can open what a command run as root has written.
void match_owner(const std::string& directory);

// Whether the service user `user` may read the file, by owner, group and mode. Nothing: there is no
// such user here, or no such file.
std::optional<bool> service_user_may_read(const char* user, const std::string& path);

// Lets the private group of `user`, if there is one, read a file of root.
void share_with_service(const std::string& path, const char* user);

// Installs the seccomp filter on all threads, permanently. Other calls fail with EPERM and are
// logged by the kernel if it audits. Error: System (kernel without seccomp).
base::Result<void> filter_system_calls();

// From the kernel (/proc/self/status), for the initial thread.
struct ProcessRights {
    std::string user;                       // name, or number
    std::vector<std::string> capabilities;  // effective: "CAP_NET_ADMIN"
    bool seccomp = false;
    bool no_new_privs = false;
};
ProcessRights process_rights();

}  // namespace continuo::host
