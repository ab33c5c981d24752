#include "common/process/socket_recorder.hpp"

#include "common/process/bpf_program.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

namespace continuo::process {

namespace {

using base::Errc;
using base::Error;
using base::Result;

// The program's record of a socket.
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
        bpf::call(BPF_FUNC_get_socket_cookie),
        bpf::store(kCookie, BPF_REG_0),
        bpf::call(BPF_FUNC_get_current_pid_tgid),
        bpf::store(kProcess, BPF_REG_0),
        bpf::call(BPF_FUNC_ktime_get_boot_ns),
        bpf::store(kRecord, BPF_REG_0),
        // NOLINTNEXTLINE(misc-redundant-expression): two of them are zero
        bpf::instruction(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
        bpf::instruction(0, 0, 0, 0, 0),
        bpf::move(BPF_REG_2, BPF_REG_10),
        bpf::add(BPF_REG_2, kCookie),
        bpf::move(BPF_REG_3, BPF_REG_10),
        bpf::add(BPF_REG_3, kRecord),
        bpf::set(BPF_REG_4, BPF_ANY),
        bpf::call(BPF_FUNC_map_update_elem),
        bpf::set(BPF_REG_0, 1),
        bpf::leave(),
    };
}

Result<io::UniqueFd> make_map() {
    bpf_attr attributes{};
    attributes.map_type = BPF_MAP_TYPE_LRU_HASH;
    attributes.key_size = sizeof(uint64_t);
    attributes.value_size = sizeof(Record);
    attributes.max_entries = kMaxRecordedSockets;
    io::UniqueFd map(bpf::command(BPF_MAP_CREATE, attributes));
    return map.is_open() ? Result<io::UniqueFd>(std::move(map)) : bpf::failed("eBPF map");
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
    const io::UniqueFd cgroup = CTN_TRY(bpf::open_cgroup_root());
    io::UniqueFd map = CTN_TRY(make_map());
    const auto program = program_for(map.value());
    io::UniqueFd link = CTN_TRY(bpf::at_socket_creation(program, cgroup.value()));
    SocketRecorder recorder(std::move(map), std::move(link));
    const io::UniqueFd own(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
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
    attributes.key = bpf::pointer(&cookie);
    attributes.value = bpf::pointer(&found);
    if (bpf::command(BPF_MAP_LOOKUP_ELEM, attributes) != 0) {
        return std::nullopt;
    }
    constexpr unsigned kThreadBits = 32;
    return SocketMaker{static_cast<int32_t>(found.process >> kThreadBits), found.made_at_ns};
}

}  // namespace continuo::process
