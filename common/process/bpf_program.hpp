// Small eBPF programs that run when a member of a cgroup makes a socket (bpf(2),
// BPF_CGROUP_INET_SOCK_CREATE), put together instruction by instruction: no compiler, no library.
#pragma once

#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <cstdint>
#include <span>
#include <string>

#include <linux/bpf.h>

namespace continuo::process::bpf {

// The system call; -1 and errno.
int command(bpf_cmd command, bpf_attr& attributes);
uint64_t pointer(const void* to);
// System, with errno.
base::Error failed(const char* what);

bpf_insn instruction(uint8_t code, uint8_t to, uint8_t from, int16_t offset, int32_t value);
bpf_insn move(uint8_t to, uint8_t from);
bpf_insn set(uint8_t to, int32_t value);
bpf_insn add(uint8_t to, int32_t value);
bpf_insn store(int16_t offset, uint8_t from);  // 64 bits, on the stack
bpf_insn call(int32_t helper);
bpf_insn leave();

// The root of the cgroup v2 tree: where it is mounted, or a private mount (with CAP_SYS_ADMIN: `ip
// netns exec` hides the host's).
base::Result<io::UniqueFd> open_cgroup_root();
// Below it; `path` as in /proc/PID/cgroup, with or without the first slash. Errors: System;
// Unsupported (no such tree).
base::Result<io::UniqueFd> open_cgroup(const std::string& path);

// Loads the program and attaches it to the directory of a cgroup; it ends with the returned object.
// Needs CAP_BPF and CAP_NET_ADMIN. Errors: System (not allowed; kernel before 5.7).
base::Result<io::UniqueFd> at_socket_creation(std::span<const bpf_insn> program, int cgroup);

}  // namespace continuo::process::bpf
