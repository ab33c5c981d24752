#include "common/process/socket_marker.hpp"

#include "common/process/bpf_program.hpp"

#include <array>
#include <cstddef>

namespace continuo::process {

base::Result<SocketMarker> SocketMarker::attach(const std::string& cgroup, uint32_t mark) {
    const io::UniqueFd directory = CTN_TRY(bpf::open_cgroup(cgroup));
    const std::array program = {
        bpf::set(BPF_REG_2, static_cast<int32_t>(mark)),
        bpf::instruction(BPF_STX | BPF_MEM | BPF_W, BPF_REG_1, BPF_REG_2, offsetof(bpf_sock, mark),
                         0),
        bpf::set(BPF_REG_0, 1),  // the socket is allowed
        bpf::leave(),
    };
    return SocketMarker(CTN_TRY(bpf::at_socket_creation(program, directory.value())));
}

}  // namespace continuo::process
