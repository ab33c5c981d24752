#include "common/process/bpf_program.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace continuo::process::bpf {

using base::Errc;
using base::Error;
using base::Result;

int command(bpf_cmd command, bpf_attr& attributes) {
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

bpf_insn leave() {
    return instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

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

}  // namespace

Result<io::UniqueFd> open_cgroup_root() {
    if (const std::string root = cgroup_root(); !root.empty()) {
        io::UniqueFd mounted(::open(root.c_str(), kDirectoryFlags));
        return mounted.is_open() ? Result<io::UniqueFd>(std::move(mounted))
                                 : failed("cgroup v2 tree");
    }
    const io::UniqueFd context(
        static_cast<int>(::syscall(SYS_fsopen, "cgroup2", unsigned{FSOPEN_CLOEXEC})));
    if (!context.is_open() || ::syscall(SYS_fsconfig, context.value(),
                                        unsigned{FSCONFIG_CMD_CREATE}, nullptr, nullptr, 0) != 0) {
        return Error{Errc::Unsupported, "no cgroup v2 tree"};
    }
    const io::UniqueFd mount(static_cast<int>(::syscall(
        SYS_fsmount, context.value(), unsigned{FSMOUNT_CLOEXEC}, unsigned{MOUNT_ATTR_RDONLY})));
    io::UniqueFd root(mount.is_open() ? ::openat(mount.value(), ".", kDirectoryFlags) : -1);
    return root.is_open() ? Result<io::UniqueFd>(std::move(root)) : failed("cgroup v2 tree");
}

Result<io::UniqueFd> open_cgroup(const std::string& path) {
    const io::UniqueFd root = CTN_TRY(open_cgroup_root());
    const size_t begin = std::min(path.find_first_not_of('/'), path.size());
    io::UniqueFd group(::openat(root.value(), path.c_str() + begin, kDirectoryFlags));
    return group.is_open() ? Result<io::UniqueFd>(std::move(group)) : failed("cgroup");
}

Result<io::UniqueFd> at_socket_creation(std::span<const bpf_insn> program, int cgroup) {
    bpf_attr attributes{};
    attributes.prog_type = BPF_PROG_TYPE_CGROUP_SOCK;
    attributes.expected_attach_type = BPF_CGROUP_INET_SOCK_CREATE;
    attributes.insns = pointer(program.data());
    attributes.insn_cnt = static_cast<uint32_t>(program.size());
    attributes.license = pointer("");  // no helper asks for one
    const io::UniqueFd loaded(command(BPF_PROG_LOAD, attributes));
    if (!loaded.is_open()) {
        return failed("eBPF program");
    }
    attributes = {};
    attributes.link_create.prog_fd = static_cast<uint32_t>(loaded.value());
    attributes.link_create.target_fd = static_cast<uint32_t>(cgroup);
    attributes.link_create.attach_type = BPF_CGROUP_INET_SOCK_CREATE;
    io::UniqueFd link(command(BPF_LINK_CREATE, attributes));
    return link.is_open() ? Result<io::UniqueFd>(std::move(link)) : failed("eBPF link");
}

}  // namespace continuo::process::bpf
