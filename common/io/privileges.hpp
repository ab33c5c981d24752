// The rights of a daemon, reduced in two steps. Before its first thread it becomes a user of its
// own where that user exists, and keeps the capabilities that its start needs; each helper thread
// keeps less. Once all is set up only CAP_NET_ADMIN stays, and a seccomp filter refuses the system
// calls that no later work needs. docs/DECISIONS.md says what was measured.
#pragma once

#include "common/base/result.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace continuo::io {

// Each daemon has a user of its own, with a private group of the same name. Where it is missing,
// the user that both were in earlier versions takes its place.
inline constexpr const char* kNodeUser = "continuo-cnapt";
inline constexpr const char* kRelayUser = "continuo-snapt";
inline constexpr const char* kSharedUser = "continuo";
// The group whose members may use the command sockets. Daemons have it beside their own.
inline constexpr const char* kCommandGroup = "continuo";
std::optional<uint32_t> command_group();

// capabilities(7), with the kernel's numbers.
enum class Capability : uint8_t {
    NetBindService = 10,  // ports below 1024, at start
    NetAdmin = 12,        // TUN, routes, rules, nftables, net.* sysctls, SO_MARK: for life
    SysAdmin = 21,        // SocketRecorder, at start, where no cgroup tree is in sight
    Bpf = 39,             // SocketRecorder, TunQueues, at start
};
inline constexpr Capability kNetworkRights[] = {Capability::NetAdmin};

struct ServiceFiles {
    std::vector<std::string>
        read_again;                  // by reload; empty names and missing files are passed over
    std::string state;               // directory
    std::string socket;              // of the commands
    std::string device;              // opened for reading and writing after the start; empty: none
    const char* user = kSharedUser;  // whom the daemon becomes
};

struct IdentityChange {
    bool is_service_user = false;
    // When not: why root stays, as "continuo may not read FILE"; empty when there is no such user
    // or this is not root.
    std::string obstacle;
};

// Before the first thread. As root: makes the state directory and, if it was not there, that of the
// socket, where the command group may make sockets, too. Gives files of root or the shared user in
// the state directory to the service user, and becomes it if it can reach all of `files`. Otherwise
// it stays root and takes the state directory back. In any case only `for_start` is left of the
// capabilities, and no program that is started gets more (no_new_privs).
base::Result<IdentityChange> reduce_rights(const ServiceFiles& files,
                                           std::span<const Capability> for_start);

// For checks, by root: why the service user could not work with `files`, as above; changes nothing.
// Empty: it could, there is no such user, this is not root, or a folder is yet to be made.
std::string service_obstacle(const ServiceFiles& files);

// For this thread only; capabilities it does not have are not added. Threads made later inherit.
base::Result<void> keep_capabilities(std::span<const Capability> kept);

// Gives the files that root made in `directory` to the directory's owner (also to its group), so
// that a command run by root leaves nothing that the daemon cannot open. Not below it.
void match_owner(const std::string& directory);

// Whether the service user `user` may read the file, by owner, group and mode. Nothing: there is no
// such user here, or no such file.
std::optional<bool> service_user_may_read(const char* user, const std::string& path);

// Lets the private group of `user`, where there is one, read a file that root made.
void share_with_service(const std::string& path, const char* user);

// The seccomp filter, on all threads; for good. Other calls fail with EPERM and are in the kernel's
// log where that has auditing. Error: System (kernel without seccomp).
base::Result<void> filter_system_calls();

// As the kernel tells it now (/proc/self/status): of the thread that began the process.
struct ProcessRights {
    std::string user;                       // name, or number
    std::vector<std::string> capabilities;  // effective: "CAP_NET_ADMIN"
    bool seccomp = false;
    bool no_new_privs = false;
};
ProcessRights process_rights();

}  // namespace continuo::io
