// The default mark of the tunnel's own datagrams (SO_MARK), the first of four
// (cnapt/capture/routes.hpp).
#pragma once

#include <cstdint>

namespace continuo::cnapt::uplinks {

// Other software sets and tests single bits of the mark: kube-proxy 0x4000 and 0x8000 (which it
// drops), CNI's portmap and netavark 0x2000, Cilium 0x0F00, AWS' CNI 0x80, Tailscale and Calico
// those from 0x10000 on. These four marks have none of them.
inline constexpr uint32_t kDefaultFwmark = 0x1034;

}  // namespace continuo::cnapt::uplinks
