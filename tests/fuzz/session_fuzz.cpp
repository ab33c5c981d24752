// One end of a session whose peer has the keys and sends anything. Input: the role (bit 0), then
// bodies as `control length content`: control has the class (bits 0 and 1), the path (bits 2 to 5),
// whether the victim sends a packet too (bit 6) and whether time passes (bit 7); the length has two
// bytes.
#include "tests/support/hostile_peer.hpp"

namespace base = continuo::base;
namespace path = continuo::path;
using continuo::tests::Victim;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    constexpr size_t kMaxBodies = 64;
    if (size < 2) {
        return 0;
    }
    Victim victim((data[0] & 1U) != 0 ? path::Role::Snapt : path::Role::Node);
    base::ByteReader reader(base::ByteView(data + 1, size - 1));
    for (size_t i = 0; i < kMaxBodies && !reader.at_end(); ++i) {
        const uint8_t control = reader.u8();
        const size_t length = reader.remaining() < 2 ? 0 : reader.u16();
        const base::ByteView body = reader.bytes(std::min(length, reader.remaining()));
        const auto path = static_cast<uint8_t>(control >> 2 & 0xFU);
        victim.receive_body({base::kAllTrafficClasses[control & 3U], path, 0}, body);
        if ((control & 0x40U) != 0) {
            victim.send_packet(i, 20 + size_t{control} * 5);
        }
        if ((control & 0x80U) != 0) {
            victim.advance(base::milliseconds(200));
            victim.drain();
        }
        CTN_ASSERT(victim.session().flows() <= Victim::kMaxFlows);
    }
    victim.advance(base::seconds(2));
    victim.drain();
    CTN_ASSERT(victim.session().drops().count(base::DropReason::Unauthentic) == 0);
    CTN_ASSERT(victim.session().drops().count(base::DropReason::Replayed) == 0);
    return 0;
}
