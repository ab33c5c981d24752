// How often a path is doubted that works: by one probe time-out and by recovery::Liveness, in the
// same run, and how often a SNAPT asks for a sign of life. On recorded cellular traces
// (CONTRIBUTING.md) it prints the table of docs/PATHS.md.
#include "tests/sim/tunnel_tcp.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using recovery::Health;

// A doubt is false unless the link paused this long in the last second, in either direction.
constexpr Duration kPause = milliseconds(250);
constexpr Duration kRecent = seconds(1);

using Trace = std::shared_ptr<const CapacityTrace>;

struct Count {
    uint32_t all = 0;
    uint32_t wrong = 0;
    void add(bool is_wrong) {
        ++all;
        wrong += is_wrong ? 1U : 0U;
    }
};

// Doubts of one end.
struct Counts {
    Count requests;  // of a SNAPT, for a sign of life
    Count one_timeout;
    Count doubtful;
    Count dead;
};

enum class Load : uint8_t { Call, Download, Upload };
constexpr std::array<const char*, 3> kLoads{"call", "download", "upload"};

// A session over one link that never goes away, and pauses as its traces do.
class Drive {
  public:
    Drive(Trace up, Trace down, Load load)
        : pair_(link_of(milliseconds(30))), up_(std::move(up)), down_(std::move(down)) {
        pair_.has_control = true;
        pair_.snapt.when_silent = [this](uint8_t /*path*/) { snapt.requests.add(is_false()); };
        if (load == Load::Call) {
            packet::FiveTuple tuple = tuple_of(fields_);
            node_flow_ = &pair_.node.flow(tuple, base::TrafficClass::HtLd);
            send(true);
            pair_.run_for(seconds(1));
            tuple.local = kLease;
            snapt_flow_ = pair_.snapt.find(tuple);
        } else {
            tcp_.emplace(pair_, 8000, load == Load::Upload);
            pair_.run_for(seconds(1));
        }
        take_delivered();
        follow(pair_.up, up_);
        follow(pair_.down, down_);
        began_ = pair_.now;
    }

    void run_for(Duration span) {
        constexpr int kTalkEvery = 20;
        for (int step = 0; pair_.now < began_ + span; ++step) {
            if (tcp_) {
                tcp_->step();
            } else if (step % kTalkEvery == 0) {
                send(true);
                send(false);
            }
            pair_.run_for(milliseconds(1));
            take_delivered();
            watch(pair_.node, node_seen_, node);
            watch(pair_.snapt, snapt_seen_, snapt);
        }
    }

    Counts node;
    Counts snapt;

  private:
    struct Seen {
        bool has_timed_out = false;
        Health health = Health::Usable;
    };

    void follow(LinkModel& direction, const Trace& trace) const {
        LinkSettings settings = direction.settings();
        settings.trace = trace;
        settings.queue_packets = 64;
        direction.change(std::move(settings), pair_.now);
    }

    void watch(const SessionEnd& end, Seen& seen, Counts& counts) {
        const routing::PathSet& paths = end.session->paths();
        const recovery::Liveness& liveness = paths.path(0).liveness();
        const Health health = liveness.health();
        if (liveness.timeouts() > 0 && !seen.has_timed_out) {
            counts.one_timeout.add(is_false());
        }
        if (health != Health::Usable && seen.health == Health::Usable) {
            counts.doubtful.add(is_false());
        }
        if (health == Health::Dead && seen.health != Health::Dead) {
            counts.dead.add(is_false());
        }
        seen = {liveness.timeouts() > 0, health};
    }

    bool is_false() const { return !has_paused(*up_) && !has_paused(*down_); }
    bool has_paused(const CapacityTrace& trace) const {
        const Duration at = pair_.now - began_;
        Duration last = std::max<Duration>(at - kRecent, {});
        for (uint64_t next = trace.first_after(last); last < at; ++next) {
            const Duration here = std::min<Duration>(trace.time_of(next), at);
            if (here - last >= kPause) {
                return true;
            }
            last = here;
        }
        return false;
    }

    void send(bool is_up) {
        std::vector<uint8_t> payload(160);
        pair_.random.fill(payload);
        ++fields_.ip_id;
        if (is_up) {
            pair_.node.send(*node_flow_, make_packet(fields_, payload), {}, pair_.now);
        } else {
            pair_.snapt.send(*snapt_flow_, make_packet(to_lease(fields_), payload), {}, pair_.now);
        }
    }

    void take_delivered() {
        for (SessionEnd* end : {&pair_.node, &pair_.snapt}) {
            for (size_t i = 0; tcp_ && i < end->delivered.size(); ++i) {
                tcp_->take(end->delivered[i], end->delivered_at[i], end == &pair_.snapt);
            }
            end->delivered.clear();
            end->delivered_at.clear();
        }
    }

    SessionPair pair_;
    Trace up_;
    Trace down_;
    base::TimePoint began_{};
    packet::HeaderFields fields_ = node_fields(packet::Protocol::Udp, 7000, 80);
    flow::Flow* node_flow_ = nullptr;
    flow::Flow* snapt_flow_ = nullptr;
    std::optional<TunnelTcp> tcp_;
    Seen node_seen_;
    Seen snapt_seen_;
};

// 12 Mbit/s, but nothing for `pause` in every three seconds.
Trace scanning(Duration pause) {
    constexpr int64_t kPeriodMs = 3000;
    std::string text;
    for (int64_t ms = base::to_ms(pause) + 1; ms <= kPeriodMs; ++ms) {
        text += std::to_string(ms) + "\n";
    }
    std::string fault;
    auto trace = CapacityTrace::parse(text, "scanning", fault);
    return trace ? std::make_shared<CapacityTrace>(std::move(*trace)) : nullptr;
}

TEST(DoubtsSim, AScanOfWifiIsAReasonToProbeAndNoDoubt) {
    for (const Load load : {Load::Call, Load::Download, Load::Upload}) {
        SCOPED_TRACE(kLoads[static_cast<size_t>(load)]);
        const Trace trace = scanning(milliseconds(180));
        ASSERT_NE(trace, nullptr);
        Drive drive(trace, trace, load);
        drive.run_for(seconds(60));
        EXPECT_EQ(drive.node.doubtful.all + drive.snapt.doubtful.all, 0U);
        EXPECT_EQ(drive.node.dead.all + drive.snapt.dead.all, 0U);
        if (load != Load::Call) {
            EXPECT_GT(drive.node.one_timeout.all + drive.snapt.one_timeout.all, 10U)
                << "a probe time-out passes in a scan";
        }
    }
}

TEST(DoubtsSim, OnRecordedTraces) {
    constexpr Duration kSpan = seconds(300);
    const char* const data = std::getenv("CONTINUO_BENCH_DATA");
    const std::filesystem::path folder =
        std::filesystem::path(data != nullptr ? data : CONTINUO_SOURCE_DIR "/../shared/data") /
        "traces";
    if (!std::filesystem::is_directory(folder)) {
        GTEST_SKIP() << "no " << folder;
    }
    Count doubtful;
    std::printf("wrong/all\n%-22s %-9s %-6s %11s %11s %11s %11s\n", "trace", "load", "end",
                "requests", "one PTO", "doubtful", "dead");
    for (const std::string name :
         {"Verizon-EVDO-driving", "TMobile-UMTS-driving", "Verizon-LTE-short"}) {
        std::array<Trace, 2> traces;
        for (size_t way = 0; way < traces.size(); ++way) {
            std::string fault;
            auto trace = CapacityTrace::load(folder / (name + (way == 0 ? ".up" : ".down")), fault);
            ASSERT_TRUE(trace) << fault;
            traces[way] = std::make_shared<CapacityTrace>(std::move(*trace));
        }
        for (const Load load : {Load::Call, Load::Download, Load::Upload}) {
            Drive drive(traces[0], traces[1], load);
            drive.run_for(kSpan);
            for (const Counts* end : {&drive.node, &drive.snapt}) {
                std::printf("%-22s %-9s %-6s", name.c_str(), kLoads[static_cast<size_t>(load)],
                            end == &drive.node ? "node" : "SNAPT");
                for (const Count& any :
                     {end->requests, end->one_timeout, end->doubtful, end->dead}) {
                    std::printf(" %5u/%5u", any.wrong, any.all);
                }
                std::printf("\n");
                doubtful.wrong += end->doubtful.wrong;
            }
        }
    }
    EXPECT_LE(doubtful.wrong, 2U) << "as many as by the rules of silence before";
}

}  // namespace
}  // namespace continuo::tests
