// UdpThrottle: whether UDP gets through so badly that TCP may carry more, as behind a box that lets
// only little of it pass (docs/PROTOCOL.md section 5.8). Heavy loss alone does not tell such a box
// from a bad link, on which TCP would do worse: so TCP is tried, and what it carries is compared
// with what UDP did. Pure; one for each SNAPT.
#pragma once

#include "common/base/backoff.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace continuo::policy {

// Counters of the session since it began; those of one path say so.
struct UdpTraffic {
    // Whose: what was counted before another session or on another network tells nothing.
    uint16_t session_id = 0;
    uint32_t network = 0;
    uint64_t received_datagrams = 0;
    uint64_t lost_datagrams = 0;        // or late, of those that the SNAPT sent
    uint64_t received_inner_bytes = 0;  // the outer ones differ between UDP and TCP
    uint64_t sent_bytes = 0;
    // Datagrams with packets that left by the path in use, as its acknowledgements tell.
    uint8_t path = 0;
    uint64_t arrived_up_datagrams = 0;
    uint64_t lost_up_datagrams = 0;  // less what came late
    // Where flows are spread over several uplinks: when the newest datagram came by another one, or
    // it was told last that something had arrived by it; zero: never.
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
    static constexpr int64_t kFewestLost = 50;  // in the window
    // Heavy ticks of the window, and the fewest losses in each. A sender that has slowed down loses
    // few in a tick: then the ticks since the loss count together.
    static constexpr size_t kHeavyTicks = 2;
    static constexpr int64_t kFewestLostInTick = 5;
    // A thin flow, or one that the loss has made thin, has to lose more for longer, and in several
    // ticks: what a pause of the link took is missed in one.
    static constexpr size_t kThinWindowTicks = 20;
    static constexpr double kThinHeavyLoss = 0.25;
    static constexpr int64_t kThinFewestLost = 25;
    static constexpr size_t kThinFewestTicks = 4;
    static constexpr size_t kThinShortest = 10;  // since something came or was lost
    // What UDP lost is remembered while it is silent and TCP carries, for so long.
    static constexpr base::Duration kLongestSilence = base::seconds(30);
    static constexpr double kThinWorthIt = 1.2;  // a flow that keeps its rate gets no more
    // Of what went the other way, where that is so much a second, TCP has to carry so much.
    static constexpr double kOtherWayBytes = 10000;
    static constexpr double kOtherWayShare = 0.5;
    // TCP begins slowly: what it carries is counted from then on, to the end of the trial.
    static constexpr base::Duration kTrialBegins = base::seconds(2);
    static constexpr base::Duration kTrialEnds = base::seconds(6);
    static constexpr double kWorthIt = 1.5;
    // How long TCP is kept, and how long it is not tried again after a trial that was not worth it;
    // both double when it happens again.
    static constexpr base::Duration kFirstStay = base::seconds(60);
    static constexpr base::Duration kLongestStay = base::seconds(600);
    static constexpr base::Duration kFirstRest = base::seconds(60);
    static constexpr base::Duration kLongestRest = base::seconds(3600);
    // An uplink that carries, too, and brought something so lately is better than TCP, and what it
    // lost in a silence of its own tells nothing of the one in use.
    static constexpr base::Duration kLatelyHeard = base::seconds(10);
    // A finding is a reason for so long: a sender slows down, and loses less then.
    static constexpr base::Duration kFindingLasts = base::seconds(3);
    // Heavy loss so soon after UDP was taken back is the same box.
    static constexpr base::Duration kAgainWithin = base::seconds(60);

    // Every kTick. `is_on_stream`: data goes over TCP; `may_try`: it could.
    Step on_tick(const UdpTraffic& traffic, bool is_on_stream, bool may_try, base::TimePoint now);
    // There is reason to try TCP, but it could not be tried.
    bool wants_stream() const { return finding_.has_value(); }
    // TCP is in use for what it carries: UDP is not asked meanwhile.
    bool keeps_stream() const { return phase_ != Phase::Watching; }

  private:
    enum class Phase : uint8_t { Watching, Trying, Staying };
    // Which way UDP is bad, and so which TCP has to carry better.
    enum class Way : uint8_t { Down, Up };
    // Counters of one direction. Lost: less what came late.
    struct Datagrams {
        int64_t arrived = 0;
        int64_t lost = 0;
        int64_t bytes = 0;           // that arrived; on the way up, that were sent
        size_t ticks_with_loss = 0;  // of a sum

        bool loses(double share, int64_t fewest) const;
        void add(const Datagrams& other);
    };
    struct Tick {
        base::Duration span{};
        Datagrams down;
        Datagrams up;
        size_t ticks_in_use = 0;  // of a sum: since the first with a datagram

        const Datagrams& by(Way way) const { return way == Way::Down ? down : up; }
        // Bytes a second that arrive.
        double rate(Way way) const;
        void add(const Tick& other);
    };

    // Loss of UDP for which TCP is to be tried.
    struct Finding {
        Way way = Way::Down;
        Tick udp;
        bool is_thin = false;
        base::TimePoint at{};
    };

    static Tick growth(const UdpTraffic& traffic, const UdpTraffic& before, bool is_on_stream);
    Tick take(const UdpTraffic& traffic, bool is_on_stream, base::TimePoint now);
    void remember(const Tick& tick, base::TimePoint now);
    Tick newest(size_t ticks) const;
    Step watch(const UdpTraffic& traffic, bool may_try, base::TimePoint now);
    std::optional<Finding> find(base::TimePoint now) const;
    std::optional<Tick> heavy_loss(Way way) const;
    std::optional<Tick> thin_loss_down() const;
    const Tick& remembered(size_t age) const;  // 1: the newest
    void begin_trial(const Finding& finding, base::TimePoint now);
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
    base::TimePoint taken_at_{};      // before_
    std::optional<Finding> finding_;  // until TCP can be tried
    // Of a trial.
    Way way_ = Way::Down;
    bool is_thin_ = false;
    std::array<double, 2> wanted_bytes_per_s_{};
    Tick carried_;
    bool has_stalled_ = false;
    base::TimePoint began_{};  // of the phase
    base::TimePoint watching_since_{};
    base::TimePoint rest_until_{};
    base::Backoff stay_;
    base::Backoff rest_;
};

}  // namespace continuo::policy
