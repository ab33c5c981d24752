// PathManager: by which path one SNAPT is reached. It says which uplink carries and which is asked,
// when TCP carries in UDP's place and when UDP is tried again, and when another port is. Pure:
// facts and the time go in, steps come out, which their owner carries out in order. The rules are
// in docs/PATHS.md.
//
//   choose()     something changed: the better uplink that answers carries
//   on_silent()  a path fell silent: others are asked, or one takes over
//   consider_stream() at stream_due(), and on_tick() each kTick: what depends on time
#pragma once

#include "common/path/path_state.hpp"
#include "common/wire/constants.hpp"
#include "policy/tcp_fallback.hpp"
#include "policy/udp_throttle.hpp"

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace continuo::policy {

// A set of uplinks: bit n is the one whose path index is n.
using WaySet = uint16_t;
constexpr WaySet way_bit(uint8_t slot) {
    return static_cast<WaySet>(1U << slot);
}

// One uplink as a way to the SNAPT.
struct WayFacts {
    uint8_t slot = 0;      // its path index, below wire::kTcpPath
    uint32_t network = 0;  // the interface: ways of one share what it carries
    uint64_t rank = 0;     // by the host's routes; the smallest is preferred
    WaySet behind = 0;     // not used while one of these can be
    bool has_route = false;
    bool can_carry = true;  // carrier, and an access point where one is needed
    // Asked and used. Else another address of the interface stands in for it.
    bool is_wanted = true;
    // The path of the session. Unknown: it has none there.
    path::PathState state = path::PathState::Unknown;
    bool is_known = false;  // the session has it
    base::TimePoint heard_at{};
    base::TimePoint arrived_at{};       // the newest proof that something sent arrived
    base::TimePoint packets_sent_at{};  // the newest of them
    base::TimePoint unanswered_since = base::kNever;
    uint64_t received_datagrams = 0;
};

// The path over TCP.
struct StreamFacts {
    bool is_open = false;
    std::optional<uint8_t> slot;  // of the uplink that the connection was made by, if known
    base::TimePoint unanswered_since = base::kNever;
    base::Duration smoothed_rtt{};
};

struct PathFacts {
    std::vector<WayFacts> ways;
    StreamFacts stream;
    bool has_control = false;   // a control connection is open
    bool is_spread = false;     // flows use several paths
    UdpTraffic traffic;         // but for what the ways tell
    uint64_t sent_packets = 0;  // changes when there was traffic
    size_t udp_ports = 1;       // of the SNAPT

    const WayFacts* find(std::optional<uint8_t> slot) const;
    // The one that the host prefers among those with a path; null: there is none.
    const WayFacts* best(WaySet left_out) const;
    template <typename Predicate>
    WaySet set_of(const Predicate& is_in) const {
        WaySet set = 0;
        for (const WayFacts& way : ways) {
            set |= is_in(way) ? way_bit(way.slot) : WaySet{0};
        }
        return set;
    }
    WaySet cut() const;      // cannot carry
    WaySet failing() const;  // doubtful or dead
    // With the other addresses of its interface.
    WaySet beside(uint8_t slot) const;
};

struct PathStep {
    enum class Kind : uint8_t {
        Activate,     // data goes by the uplink in `slot`, over UDP
        UseStream,    // UDP paths are given up, data goes over TCP
        MoveStream,   // TCP is silent: `slot` makes the next connection
        RenewStream,  // TCP is silent: another connection
        Probe,        // asks whether that path works; wire::kTcpPath is TCP
        Retry,        // asks a path that was given up, at the port in use
        Bury,         // it was given up for TCP and is dead now as one that fell silent
        NextPort,     // of the SNAPT, in the addresses of both versions
        Redirect,     // the next port in the address in use, and the active path goes there
        Moved,        // the way changed: control may be dead
        Lost,         // nothing carries
    };
    Kind kind = Kind::Activate;
    uint8_t slot = 0;
    // The slot that carried before Activate or UseStream.
    std::optional<uint8_t> former{};
    bool was_on_stream = false;
    const char* reason = "";  // of those two, for people; empty: none is worth a word
};
using PathSteps = std::vector<PathStep>;

class PathManager {
  public:
    static constexpr base::Duration kTick = UdpThrottle::kTick;

    // The uplink that carries, also below TCP; none: nothing does.
    std::optional<uint8_t> active() const { return active_; }
    bool is_on_stream() const { return is_on_stream_; }

    // The session is another one.
    void begin();
    // The uplink has gone, or leads to another network.
    void forget(uint8_t slot);
    // Some uplink, or what is known of it, is another. While the active one carries, or may do so
    // again, another one has to answer before it takes its place.
    void choose(const PathFacts& facts, base::TimePoint now, PathSteps& steps);
    // Control has reached the SNAPT by that uplink.
    void take(const PathFacts& facts, uint8_t slot, base::TimePoint now, PathSteps& steps);
    // The path is doubtful or dead.
    void on_silent(const PathFacts& facts,
                   uint8_t path,
                   path::PathState state,
                   base::TimePoint now,
                   PathSteps& steps);
    // Asks all uplinks but that one.
    static void probe_others(const PathFacts& facts, uint8_t slot, PathSteps& steps);

    // --- TCP
    void on_stream_opened() {
        fallback_.reset_answer();
        stream_answered_at_ = base::kNever;
    }
    void on_stream_closed(const PathFacts& facts, base::TimePoint now, PathSteps& steps);
    void on_stream_answered(base::TimePoint now) {
        fallback_.on_stream_answered(now);
        stream_answered_at_ = now;
    }
    // Looks whether data should go over TCP. stream_due() tells when to look again.
    void consider_stream(const PathFacts& facts, base::TimePoint now, PathSteps& steps);
    base::TimePoint stream_due() const { return stream_due_; }
    // While data goes over TCP: whether UDP is asked there.
    bool may_ask_udp(const WayFacts& way) const;

    // Each kTick.
    void on_tick(const PathFacts& facts, base::TimePoint now, PathSteps& steps);

  private:
    // An uplink that has fallen silent while it was in use is not taken back for so long, twice as
    // long each time it does so again, while there is another.
    static constexpr base::Duration kFirstBar = base::seconds(1);
    static constexpr base::Duration kLongestBar = base::seconds(60);
    struct Bar {
        base::TimePoint until{};
        base::Duration span{};
        base::Duration longest{};  // tells for which of two reasons
    };

    const WayFacts* better_than_active(const PathFacts& facts, WaySet left_out) const;
    WaySet unproven(const PathFacts& facts, base::TimePoint now) const;
    WaySet barred(base::TimePoint now) const;
    const WayFacts* other_way(const PathFacts& facts, base::TimePoint now) const;
    bool is_stream_silent(const PathFacts& facts, base::TimePoint now) const;

    void activate(const PathFacts& facts, uint8_t slot, base::TimePoint now, PathSteps& steps);
    void leave_stream(const PathFacts& facts, uint8_t slot, base::TimePoint now, PathSteps& steps);
    void
    use_stream(const PathFacts& facts, const char* reason, base::TimePoint now, PathSteps& steps);
    void bar_if_failing(const PathFacts& facts, uint8_t slot, uint8_t next, base::TimePoint now);
    void bar(uint8_t slot, base::Duration first, base::Duration longest, base::TimePoint now);
    void end_bars(const PathFacts& facts, base::TimePoint now, PathSteps& steps);
    bool asks_udp(const PathFacts& facts, const WayFacts& way, base::TimePoint now) const;
    void ask_udp(const PathFacts& facts, base::TimePoint now, PathSteps& steps) const;
    void ask_next_port(const PathFacts& facts, base::TimePoint now, PathSteps& steps) const;
    void watch_throttle(const PathFacts& facts, base::TimePoint now, PathSteps& steps);
    void retry_udp(const PathFacts& facts, base::TimePoint now, PathSteps& steps);
    bool move_stream(const PathFacts& facts, base::TimePoint now, PathSteps& steps);
    void mend_stream(const PathFacts& facts, base::TimePoint now, PathSteps& steps);
    void try_next_port(const PathFacts& facts, base::TimePoint now, PathSteps& steps);

    std::optional<uint8_t> active_;
    bool is_on_stream_ = false;
    std::array<Bar, wire::kTcpPath> bars_{};
    base::TimePoint bar_ends_at_ = base::kNever;  // the next
    TcpFallback fallback_;
    UdpThrottle throttle_;
    WaySet throttled_ = 0;              // where UDP loses too much
    base::TimePoint other_heard_at_{};  // UdpTraffic has it, also when flows are spread no more
    base::TimePoint stream_due_ = base::kNever;
    base::TimePoint stream_answered_at_ = base::kNever;
    base::TimePoint stream_mended_at_{};
    base::TimePoint port_taken_at_{};
};

}  // namespace continuo::policy
