// LinkModel: one direction of an emulated link. Packets go in with the time and come out when they
// are due. Pure: time is given, chance comes from a seeded generator, so that one seed is one run;
// tests/sim drives it in virtual time, tests/support/link/link_relay in real time.
//
//   send ─ up? blocked? mtu ─ queue (drop-tail) ─ transmitter (rate or trace) ─ loss ─ duplicate,
//   corrupt ─ delay, jitter, reorder ─ receive
//
// Loss comes after the transmitter, as on the air: a lost packet has used capacity. After each call
// with a time, ask next_due() again.
#pragma once

#include "common/base/random.hpp"
#include "tests/support/link/link_settings.hpp"

#include <array>
#include <deque>
#include <optional>
#include <vector>

namespace continuo::tests {

// Most packets waiting and under way together; beyond it packets are dropped as LinkDrop::Full.
inline constexpr size_t kMaxHeldPackets = 131'072;
inline constexpr size_t kMaxHeldBytes = size_t{256} << 20;

struct LinkPacket {
    std::vector<uint8_t> bytes;   // opaque to the model, but for the bit that corruption flips
    uint32_t wire_bytes = 0;      // layer 3, of all segments together: what rate and queue count
    uint32_t segments = 1;        // more for a super-packet, which has one fate
    uint32_t segment_bytes = 0;   // the largest segment, for the MTU
    uint32_t corruptible_at = 0;  // where the payload begins; at the end of bytes: never corrupted
    LinkProtocol protocol = LinkProtocol::Other;

    // A datagram without headers, for virtual time.
    static LinkPacket of_datagram(std::vector<uint8_t> datagram);
};

enum class LinkDrop : uint8_t { Down, Blocked, Mtu, Queue, Loss, Burst, Full, kCount };
inline constexpr std::array<std::string_view, static_cast<size_t>(LinkDrop::kCount)> kLinkDropNames{
    "down", "blocked", "mtu", "queue", "loss", "burst", "full"};

// Packets are segments, bytes are wire_bytes. At any time
// offered + duplicated = delivered + all dropped + queued + in flight.
struct LinkCounters {
    uint64_t offered_packets = 0;
    uint64_t offered_bytes = 0;
    uint64_t delivered_packets = 0;
    uint64_t delivered_bytes = 0;
    std::array<uint64_t, static_cast<size_t>(LinkDrop::kCount)> dropped{};
    uint64_t duplicated = 0;
    uint64_t reordered = 0;
    uint64_t corrupted = 0;
    uint64_t most_queued_packets = 0;

    [[nodiscard]] uint64_t dropped_by(LinkDrop cause) const {
        return dropped[static_cast<size_t>(cause)];
    }
    [[nodiscard]] uint64_t all_dropped() const;
};

class LinkModel {
  public:
    // `random` must outlive the model.
    LinkModel(LinkSettings settings, base::Random& random);

    void send(LinkPacket packet, base::TimePoint now);
    // The next packet that is due at `now`.
    std::optional<LinkPacket> receive(base::TimePoint now);
    // When to call receive() again; nothing may be due then, as only the transmitter goes on.
    [[nodiscard]] base::TimePoint next_due() const;

    // Takes effect at once: what waits goes on at the new rate, what is under way keeps its
    // arrival. A trace begins at its trace_from when it or trace_from changes.
    void change(LinkSettings settings, base::TimePoint now);
    [[nodiscard]] const LinkSettings& settings() const { return settings_; }
    [[nodiscard]] const LinkCounters& counters() const { return counters_; }
    [[nodiscard]] uint64_t queued_packets() const { return queued_packets_; }
    [[nodiscard]] uint64_t queued_bytes() const { return queued_bytes_; }
    [[nodiscard]] uint64_t in_flight_packets() const { return flying_packets_; }

  private:
    struct Flight {
        base::TimePoint due;
        uint64_t order = 0;
        LinkPacket packet;
    };
    static bool is_later(const Flight& left, const Flight& right);

    std::optional<LinkDrop> refusal(const LinkPacket& packet) const;
    bool is_full(const LinkPacket& packet) const;
    void drop(const LinkPacket& packet, LinkDrop cause);
    void drop_everything();
    // The transmitter, up to `now`.
    void advance(base::TimePoint now);
    void begin_head(base::TimePoint at);
    base::TimePoint head_end() const;
    void use_opportunity(base::TimePoint at);
    void seek_trace(base::TimePoint now);
    void launch_head(base::TimePoint at);
    // Faults on the air.
    bool chance(uint32_t ppm) { return ppm != 0 && random_.below(kCertain) < ppm; }
    double fraction();  // in (0, 1]
    bool burst_loses();
    void corrupt(LinkPacket& packet);
    base::Duration draw_jitter();
    void fly(LinkPacket packet, base::TimePoint at);

    LinkSettings settings_;
    base::Random& random_;
    LinkCounters counters_;
    std::deque<LinkPacket> queue_;  // the first one is in the transmitter
    uint64_t queued_packets_ = 0;
    uint64_t queued_bytes_ = 0;
    uint64_t head_left_bits_ = 0;
    base::TimePoint head_since_{};
    uint64_t carried_ = 0;  // remainder of the division by the rate: no time is lost to rounding
    base::TimePoint trace_began_{};
    uint64_t opportunity_ = 0;
    bool is_burst_ = false;        // the bad state
    std::vector<Flight> flights_;  // a heap, the next one first
    uint64_t flying_packets_ = 0;
    uint64_t order_ = 0;
    base::TimePoint last_due_{};
    size_t held_bytes_ = 0;
};

}  // namespace continuo::tests
