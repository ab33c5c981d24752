// UdpThrottle: whether UDP is delivered so badly that TCP may carry more, as behind a box that
// passes only little of it (docs/PROTOCOL.md section 5.8). Heavy loss alone does not distinguish
// such a box from a bad link, on which TCP would do worse: so TCP is tried, and its delivery
// compared with UDP's. Pure; one per SNAPT.
#pragma once

#include "common/base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace continuo::cnapt::node {

// Totals of the session since it began, except for the loss.
struct UdpTraffic {
    // Identity: counts of another session or network say nothing.
    uint16_t session_id = 0;
    uint32_t network = 0;
    uint64_t received_datagrams = 0;
    uint64_t lost_datagrams = 0;        // lost or late, of those that the SNAPT sent
    uint64_t received_inner_bytes = 0;  // outer bytes differ between UDP and TCP
    uint64_t sent_bytes = 0;
    uint64_t sent_datagrams = 0;
    uint64_t lost_up_datagrams = 0;  // of the path in use, by its acknowledgements; less late ones
    double loss_up = 0;              // of that path, over some seconds; 0: unknown
    // With flows spread over several uplinks: when the newest datagram came by another one, or when
    // one was last acknowledged there; zero: never.
    base::TimePoint other_heard_at{};
    bool is_stream_silent = false;  // TCP is in use and owes an answer
};

class UdpThrottle {
  public:
    enum class Step : uint8_t {
        None,
        TryStream,  // move to TCP
        TryUdp,     // UDP may be asked again
    };
    static constexpr base::Duration kTick = base::milliseconds(500);
    static constexpr size_t kWindowTicks = 3;
    static constexpr double kHeavyLoss = 0.2;
    static constexpr int64_t kFewestLost = 50;  // of those coming down, in the window
    // Ticks with heavy loss in the window, and the least losses in each. A sender that has slowed
    // down loses few per tick: then the ticks since the loss count together.
    static constexpr size_t kHeavyTicks = 2;
    static constexpr int64_t kFewestLostInTick = 5;
    // Sent, in the window. Losses in kHeavyTicks are required here, too: those of an outage are
    // found all at once when the path is heard again, and stay in `loss_up` for its seconds.
    static constexpr int64_t kFewestBytesUp = 50000;
    // A thin flow, or one that the loss has made thin, must lose more for longer, and in several
    // ticks: a pause of the link shows as loss in one.
    static constexpr size_t kThinWindowTicks = 20;
    static constexpr double kThinHeavyLoss = 0.25;
    static constexpr int64_t kThinFewestLost = 25;
    static constexpr size_t kThinFewestTicks = 4;
    static constexpr size_t kThinShortest = 10;  // since something came or was lost
    // How long UDP's losses are remembered while it is silent and TCP carries.
    static constexpr base::Duration kLongestSilence = base::seconds(30);
    static constexpr double kThinWorthIt = 1.2;  // a constant-rate flow gets no more
    // TCP must carry this share of the traffic in the other direction, if that exceeds
    // kOtherWayBytes per second.
    static constexpr double kOtherWayBytes = 10000;
    static constexpr double kOtherWayShare = 0.5;
    // TCP starts slowly: bytes count from this point to the end of the trial.
    static constexpr base::Duration kTrialBegins = base::seconds(2);
    static constexpr base::Duration kTrialEnds = base::seconds(6);
    static constexpr double kWorthIt = 1.5;
    // How long TCP is kept, and how long it is not tried again after a trial that was not worth it;
    // both double when it recurs.
    static constexpr base::Duration kFirstStay = base::seconds(60);
    static constexpr base::Duration kLongestStay = base::seconds(600);
    static constexpr base::Duration kFirstRest = base::seconds(60);
    static constexpr base::Duration kLongestRest = base::seconds(3600);
    // Another uplink that carries and was heard this recently is better than TCP, and losses in its
    // own silence say nothing about the one in use.
    static constexpr base::Duration kLatelyHeard = base::seconds(10);
    // Heavy loss this soon after a return to UDP is due to the same box.
    static constexpr base::Duration kAgainWithin = base::seconds(60);

    // Every kTick. `is_on_stream`: data goes over TCP; `may_try`: it could.
    Step on_tick(const UdpTraffic& traffic, bool is_on_stream, bool may_try, base::TimePoint now);
    // TCP is in use because it carries more: UDP is not asked meanwhile.
    bool keeps_stream() const { return phase_ != Phase::Watching; }

  private:
    enum class Phase : uint8_t { Watching, Trying, Staying };
    // The direction in which UDP is bad, and in which TCP must carry more.
    enum class Way : uint8_t { Down, Up };
    struct Tick {
        base::Duration span{};
        int64_t received = 0;
        int64_t lost = 0;  // less late arrivals
        int64_t sent_bytes = 0;
        int64_t sent = 0;
        int64_t lost_up = 0;
        std::array<double, 2> delivered_bytes{};  // by Way
        size_t ticks_with_loss = 0;               // of a sum
        size_t ticks_in_use = 0;                  // of a sum: since the first with a datagram

        bool loses(double share, int64_t fewest) const;
        bool loses_up(double share) const;
        double rate(Way way) const;
        void add(const Tick& other);
    };

    Tick take(const UdpTraffic& traffic, bool is_on_stream, base::TimePoint now);
    void remember(const Tick& tick, base::TimePoint now);
    Tick newest(size_t ticks) const;
    Step watch(const UdpTraffic& traffic, bool may_try, base::TimePoint now);
    bool has_heavy_loss_up(const UdpTraffic& traffic) const;
    std::optional<Tick> heavy_loss_down() const;
    const Tick& remembered(size_t age) const;  // 1: the newest
    void begin_trial(Way way, const Tick& udp, bool is_thin, base::TimePoint now);
    bool is_worth_it() const;
    Step judge(base::TimePoint now);
    void begin_watching(base::TimePoint now);

    Phase phase_ = Phase::Watching;
    UdpTraffic before_;
    bool has_before_ = false;
    std::array<Tick, kThinWindowTicks> window_{};
    size_t filled_ = 0;
    size_t next_ = 0;
    size_t in_row_ = 0;  // remembered without a silence between
    base::TimePoint remembered_at_{};
    base::TimePoint taken_at_{};  // before_
    // State of a trial.
    Way way_ = Way::Down;
    bool is_thin_ = false;
    std::array<double, 2> wanted_bytes_per_s_{};
    Tick carried_;
    bool has_stalled_ = false;
    base::TimePoint began_{};  // of the phase
    base::TimePoint watching_since_{};
    base::TimePoint rest_until_{};
    base::Duration stay_{};
    base::Duration rest_{};
};

}  // namespace continuo::cnapt::node
