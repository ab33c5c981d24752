#include "common/io/socket_recorder.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace continuo::io {

namespace {

using base::Errc;
using base::Error;
using base::Result;

int bpf(bpf_cmd command, bpf_attr& attributes) {
    return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

uint64_t pointer(const void* to) {
    return reinterpret_cast<uintptr_t>(to);
}

Error failed(const char* what) {
    return Error{Errc::System, what, errno};
}

bpf_insn instruction(uint8_t code, uint8_t to, uint8_t from, int16_t offset, int32_t value) {
    bpf_insn made{};
    made.code = code;
    made.dst_reg = to & 0xFU;
    made.src_reg = from & 0xFU;
    made.off = offset;
    made.imm = value;
    return made;
}
bpf_insn move(uint8_t to, uint8_t from) {
    return instruction(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
bpf_insn set(uint8_t to, int32_t value) {
    return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}
bpf_insn add(uint8_t to, int32_t value) {
    // NOLINTNEXTLINE(misc-redundant-expression): two of them are zero
    return instruction(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value);
}
bpf_insn store(int16_t offset, uint8_t from) {
    return instruction(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, from, offset, 0);
}
bpf_insn call(int32_t helper) {
    return instruction(BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

// What the program records of a socket.
struct Record {
    uint64_t made_at_ns;  // since boot
    uint64_t process;     // number << 32 | thread number
};

// map[cookie of the socket] = Record; the socket is allowed.
auto program_for(int map) {
    constexpr int16_t kCookie = -8;
    constexpr int16_t kProcess = -16;
    constexpr int16_t kRecord = -24;
    return std::array{
        call(BPF_FUNC_get_socket_cookie),
        store(kCookie, BPF_REG_0),
        call(BPF_FUNC_get_current_pid_tgid),
        store(kProcess, BPF_REG_0),
        call(BPF_FUNC_ktime_get_boot_ns),
        store(kRecord, BPF_REG_0),
        // NOLINTNEXTLINE(misc-redundant-expression): two of them are zero
        instruction(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
        instruction(0, 0, 0, 0, 0),
        move(BPF_REG_2, BPF_REG_10),
        add(BPF_REG_2, kCookie),
        move(BPF_REG_3, BPF_REG_10),
        add(BPF_REG_3, kRecord),
        set(BPF_REG_4, BPF_ANY),
        call(BPF_FUNC_map_update_elem),
        set(BPF_REG_0, 1),
        instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
}

Result<UniqueFd> make_map() {
    bpf_attr attributes{};
    attributes.map_type = BPF_MAP_TYPE_LRU_HASH;
    attributes.key_size = sizeof(uint64_t);
    attributes.value_size = sizeof(Record);
    attributes.max_entries = kMaxRecordedSockets;
    UniqueFd map(bpf(BPF_MAP_CREATE, attributes));
    return map.is_open() ? Result<UniqueFd>(std::move(map)) : failed("eBPF map");
}

Result<UniqueFd> load(int map) {
    const auto program = program_for(map);
    bpf_attr attributes{};
    attributes.prog_type = BPF_PROG_TYPE_CGROUP_SOCK;
    attributes.expected_attach_type = BPF_CGROUP_INET_SOCK_CREATE;
    attributes.insns = pointer(program.data());
    attributes.insn_cnt = static_cast<uint32_t>(program.size());
    attributes.license = pointer("");  // no helper asks for one
    UniqueFd loaded(bpf(BPF_PROG_LOAD, attributes));
    return loaded.is_open() ? Result<UniqueFd>(std::move(loaded)) : failed("eBPF program");
}

// Where the cgroup v2 tree is mounted from its root (proc_pid_mountinfo(5): the fifth field, and
// the type behind the dash); empty when it is not.
std::string cgroup_root() {
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream fields(line);
        std::string skipped;
        std::string root;
        std::string place;
        fields >> skipped >> skipped >> skipped >> root >> place;
        if (root == "/" && line.find(" - cgroup2 ") != std::string::npos) {
            return place;
        }
    }
    return {};
}

// The root of the tree: where it is mounted, or a mount of our own that nobody else sees (with
// CAP_SYS_ADMIN: `ip netns exec` hides the host's).
Result<UniqueFd> open_cgroup_root() {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    if (const std::string root = cgroup_root(); !root.empty()) {
        UniqueFd mounted(::open(root.c_str(), kFlags));
        return mounted.is_open() ? Result<UniqueFd>(std::move(mounted)) : failed("cgroup v2 tree");
    }
    const UniqueFd context(
        static_cast<int>(::syscall(SYS_fsopen, "cgroup2", unsigned{FSOPEN_CLOEXEC})));
    if (!context.is_open() || ::syscall(SYS_fsconfig, context.value(),
                                        unsigned{FSCONFIG_CMD_CREATE}, nullptr, nullptr, 0) != 0) {
        return Error{Errc::Unsupported, "no cgroup v2 tree"};
    }
    const UniqueFd mount(static_cast<int>(::syscall(
        SYS_fsmount, context.value(), unsigned{FSMOUNT_CLOEXEC}, unsigned{MOUNT_ATTR_RDONLY})));
    UniqueFd root(mount.is_open() ? ::openat(mount.value(), ".", kFlags) : -1);
    return root.is_open() ? Result<UniqueFd>(std::move(root)) : failed("cgroup v2 tree");
}

std::optional<uint64_t> cookie_of(int socket) {
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    return ::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0
               ? std::optional(cookie)
               : std::nullopt;
}

}  // namespace

Result<SocketRecorder> SocketRecorder::attach() {
    const UniqueFd cgroup = CTN_TRY(open_cgroup_root());
    UniqueFd map = CTN_TRY(make_map());
    const UniqueFd program = CTN_TRY(load(map.value()));
    bpf_attr attributes{};
    attributes.link_create.prog_fd = static_cast<uint32_t>(program.value());
    attributes.link_create.target_fd = static_cast<uint32_t>(cgroup.value());
    attributes.link_create.attach_type = BPF_CGROUP_INET_SOCK_CREATE;
    UniqueFd link(bpf(BPF_LINK_CREATE, attributes));
    if (!link.is_open()) {
        return failed("eBPF link");
    }
    SocketRecorder recorder(std::move(map), std::move(link));
    const UniqueFd own(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto cookie = own.is_open() ? cookie_of(own.value()) : std::nullopt;
    const auto maker = cookie ? recorder.maker_of(*cookie) : std::nullopt;
    if (!maker || maker->process_id != ::getpid()) {
        return Error{Errc::Unsupported, "process numbers are not the kernel's"};
    }
    return recorder;
}

std::optional<SocketMaker> SocketRecorder::maker_of(uint64_t cookie) const {
    Record found{};
    bpf_attr attributes{};
    attributes.map_fd = static_cast<uint32_t>(map_.value());
    attributes.key = pointer(&cookie);
    attributes.value = pointer(&found);
    if (bpf(BPF_MAP_LOOKUP_ELEM, attributes) != 0) {
        return std::nullopt;
    }
    constexpr unsigned kThreadBits = 32;
    return SocketMaker{static_cast<int32_t>(found.process >> kThreadBits), found.made_at_ns};
}

}  // namespace continuo::io
