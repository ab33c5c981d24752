// LinkSettings: what one direction of an emulated link does to packets, and its form in words, as
// tests/support/link/link_relay takes them ("rate 2M delay 20ms loss 0.01"). Probabilities are in
// parts per million, so that the same seed gives the same run everywhere. Pure.
#pragma once

#include "common/base/time.hpp"
#include "tests/support/link/capacity_trace.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace continuo::tests {

inline constexpr uint32_t kCertain = 1'000'000;  // parts per million
inline constexpr uint32_t kMaxQueuePackets = 100'000;
inline constexpr uint64_t kMaxBitsPerSecond = 1'000'000'000'000;
inline constexpr base::Duration kMaxLinkTime = base::seconds(3600);

// Neighbour: ARP and IPv6 neighbour discovery. Only the blocking of a protocol and random
// impairments tell them apart.
enum class LinkProtocol : uint8_t { Other, Tcp, Udp, Icmp, Neighbour };

using LinkProtocols = uint8_t;  // a set, one bit each
constexpr LinkProtocols bit_of(LinkProtocol protocol) {
    return static_cast<LinkProtocols>(1U << static_cast<unsigned>(protocol));
}
inline constexpr LinkProtocols kEveryProtocol = 0x1F;
// A lost ARP request costs a second and tells nothing about what is tested.
inline constexpr LinkProtocols kImpairedByDefault =
    kEveryProtocol & static_cast<LinkProtocols>(~bit_of(LinkProtocol::Neighbour));

// The extra delay of a packet. Uniform: 0 to `jitter`. Normal: the absolute value of a normal
// variable with standard deviation `jitter`, at most 4 of them. Exponential: mean `jitter`, at most
// 10 of it.
enum class JitterShape : uint8_t { Uniform, Normal, Exponential };

// Gilbert-Elliott: two states, stepped at each packet; in the literature's letters p, r, 1-h, 1-k
// (E. N. Gilbert 1960, E. O. Elliott 1963). The mean burst is 1/r packets.
struct BurstLoss {
    uint32_t good_to_bad_ppm = 0;  // 0: no burst loss at all
    uint32_t bad_to_good_ppm = kCertain;
    uint32_t loss_in_bad_ppm = kCertain;
    uint32_t loss_in_good_ppm = 0;
};

struct LinkSettings {
    bool is_up = true;          // down: all is dropped, also what is under way
    LinkProtocols blocked = 0;  // dropped on entry
    uint32_t mtu_bytes = 0;     // larger packets vanish, without an ICMP error; 0: any size passes
    uint32_t queue_packets = 1000;  // before the transmitter, drop-tail, the one in it included
    uint64_t queue_bytes = 0;       // as well; 0: only packets count
    uint64_t bits_per_s = 0;        // 0: unlimited
    std::shared_ptr<const CapacityTrace> trace{};  // in place of bits_per_s
    base::Duration trace_from{};                   // where in it to begin
    base::Duration delay{};
    // From here on only for `impaired` protocols.
    base::Duration jitter{};
    JitterShape jitter_shape = JitterShape::Uniform;
    bool keeps_order = true;  // jitter makes a packet wait for the one before it
    uint32_t loss_ppm = 0;
    BurstLoss burst{};
    uint32_t reorder_ppm = 0;  // held back by reorder_by, without regard to keeps_order
    base::Duration reorder_by = base::milliseconds(30);
    uint32_t duplicate_ppm = 0;
    uint32_t corrupt_ppm = 0;  // one bit of the payload is flipped
    LinkProtocols impaired = kImpairedByDefault;
};

// Reads one key and its value, or a key without value; `words` loses what was read. False: not for
// this direction or wrong, `fault` says what; `settings` may then be half changed. Reads the file
// after "trace".
bool read_setting(LinkSettings& settings,
                  std::span<const std::string_view>& words,
                  std::string& fault);

// The keys, a line each, for the usage text.
std::string_view setting_words();

}  // namespace continuo::tests
