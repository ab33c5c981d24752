// The MTU search in virtual time: black holes that open during a transfer, in one direction or
// both, are found within three seconds; loss is not mistaken for one.
#include "tests/support/seeds.hpp"
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TrafficClass;

constexpr uint32_t kOuterOverhead = 28;  // the links see UDP payload
constexpr size_t kPayloadBytes = 1400;   // a datagram fills any of the MTUs below

// A reliable transfer in one direction, with what matters of TCP: a window, an acknowledgement for
// each packet, and after silence one repetition, at intervals that double.
class Transfer {
  public:
    enum class Way : uint8_t { Up, Down };

    Transfer(SessionPair& pair, Way way, uint16_t port) : pair_(pair), way_(way) {
        up_.source = *base::IpAddress::parse("192.0.0.5");
        up_.destination = *base::IpAddress::parse("198.51.100.2");
        up_.protocol = packet::Protocol::Udp;
        up_.source_port = port;
        up_.destination_port = 5001;
        up_.ttl = 64;
        while (down_flow_ == nullptr) {
            send_up(0, 10);  // opens the flow
            pair_.run_for(milliseconds(100));
            for (auto& [name, flow] : pair_.snapt.flows) {
                down_flow_ = flow->tuple.local_port == port ? flow.get() : down_flow_;
            }
        }
        progress_at_ = pair_.now;
    }

    // To be called often.
    void run() {
        take(way_ == Way::Up ? pair_.snapt : pair_.node,
             way_ == Way::Up ? pair_.node : pair_.snapt);
        while (sent_ < acknowledged_ + window_) {
            send_data(++sent_);
        }
        if (pair_.now - progress_at_ >= timeout_ && pair_.now - repeated_at_ >= timeout_) {
            send_data(acknowledged_ + 1);
            sent_ = acknowledged_ + 1;  // what follows is sent again when this one is through
            window_ = 1;
            repeated_at_ = pair_.now;
            timeout_ *= 2;
        }
    }
    uint32_t acknowledged() const { return acknowledged_; }
    uint32_t received() const { return received_; }
    void send_once() { send_data(received_ + 1); }
    void take_data() {
        take(way_ == Way::Up ? pair_.snapt : pair_.node,
             way_ == Way::Up ? pair_.node : pair_.snapt);
    }
    // Something short in both directions that nobody waits for.
    void chat() {
        send_up(0, 20);
        send_down(0, 20);
    }
    Duration longest_stall() const { return std::max(longest_stall_, pair_.now - progress_at_); }
    void forget_stalls() { longest_stall_ = {}; }
    void limit_window(uint32_t packets) { largest_window_ = packets; }

  private:
    void take(const SessionEnd& receiver, const SessionEnd& sender) {
        for (; taken_data_ < receiver.delivered.size(); ++taken_data_) {
            const auto& packet = receiver.delivered[taken_data_];
            if (packet.size() < kPayloadBytes || !is_own(packet)) {
                continue;
            }
            const uint32_t number = base::load_big_endian<uint32_t>(&packet[28]);
            received_ = number == received_ + 1 ? number : received_;
            if (way_ == Way::Up) {
                send_down(received_, 10);
            } else {
                send_up(received_, 10);
            }
        }
        for (; taken_answers_ < sender.delivered.size(); ++taken_answers_) {
            const auto& packet = sender.delivered[taken_answers_];
            if (packet.size() > 100 || !is_own(packet)) {
                continue;
            }
            const uint32_t number = base::load_big_endian<uint32_t>(&packet[28]);
            if (number > acknowledged_) {
                longest_stall_ = std::max(longest_stall_, pair_.now - progress_at_);
                acknowledged_ = number;
                sent_ = std::max(sent_, acknowledged_);
                progress_at_ = pair_.now;
                timeout_ = milliseconds(300);
                window_ = std::min(window_ + 1, largest_window_);
            }
        }
    }
    bool is_own(const std::vector<uint8_t>& packet) const {
        return base::load_big_endian<uint16_t>(&packet[20]) == up_.source_port ||
               base::load_big_endian<uint16_t>(&packet[22]) == up_.source_port;
    }
    void send_data(uint32_t number) {
        if (way_ == Way::Up) {
            send_up(number, kPayloadBytes);
        } else {
            send_down(number, kPayloadBytes);
        }
    }
    std::vector<uint8_t> payload(uint32_t number, size_t bytes) {
        std::vector<uint8_t> content(bytes);
        pair_.random.fill(content);
        base::store_big_endian<uint32_t>(content.data(), number);
        return content;
    }
    void send_up(uint32_t number, size_t bytes) {
        packet::FiveTuple tuple;
        tuple.local = up_.source;
        tuple.remote = up_.destination;
        tuple.local_port = up_.source_port;
        tuple.remote_port = up_.destination_port;
        tuple.protocol = up_.protocol;
        pair_.node.send(pair_.node.flow(tuple, TrafficClass::HtHd),
                        make_packet(up_, payload(number, bytes)), {}, pair_.now);
    }
    void send_down(uint32_t number, size_t bytes) {
        packet::HeaderFields down = up_;
        down.source = up_.destination;
        down.destination = *base::IpAddress::parse("100.64.0.2");
        std::swap(down.source_port, down.destination_port);
        pair_.snapt.send(*down_flow_, make_packet(down, payload(number, bytes)), {}, pair_.now);
    }

    SessionPair& pair_;
    Way way_;
    packet::HeaderFields up_;
    flow::Flow* down_flow_ = nullptr;
    uint32_t sent_ = 0;
    uint32_t acknowledged_ = 0;
    uint32_t received_ = 0;
    size_t taken_data_ = 0;
    size_t taken_answers_ = 0;
    Duration timeout_ = milliseconds(300);
    uint32_t window_ = 1;
    uint32_t largest_window_ = 20;
    base::TimePoint progress_at_{};
    base::TimePoint repeated_at_{};
    Duration longest_stall_{};
};

class MtuSim {
  public:
    explicit MtuSim(const SimLink& link = {}, uint64_t seed = 1)
        : pair(link, seed)
        , up(pair, Transfer::Way::Up, 5000)
        , down(pair, Transfer::Way::Down, 6000) {}

    void run_for(Duration span, bool has_up = true, bool has_down = true) {
        for (const base::TimePoint end = pair.now + span; pair.now < end;) {
            if (has_up) {
                up.run();
            }
            if (has_down) {
                down.run();
            }
            pair.run_for(milliseconds(2));
        }
    }
    void keystrokes(Duration span) {
        for (const base::TimePoint end = pair.now + span; pair.now < end;) {
            pair.run_for(milliseconds(100));
            up.chat();
        }
    }
    void cut(LinkModel& way, uint32_t outer_bytes) const {
        LinkSettings settings = way.settings();
        settings.mtu_bytes = outer_bytes == 0 ? 0 : outer_bytes - kOuterOverhead;
        way.change(std::move(settings), pair.now);
    }
    uint16_t mtu_up() const { return pair.node.session->paths().path(0).mtu(); }
    uint16_t mtu_down() const { return pair.snapt.session->paths().path(0).mtu(); }
    uint64_t holes() const {
        return pair.node.session->paths().path(0).mtu_search().black_holes() +
               pair.snapt.session->paths().path(0).mtu_search().black_holes();
    }

    SessionPair pair;
    Transfer up;
    Transfer down;
};

struct Cut {
    bool is_up = false;
    bool is_down = false;
    uint16_t mtu = 1280;
    int64_t delay_ms = 10;
};

class MtuCutSim : public testing::TestWithParam<Cut> {};

TEST_P(MtuCutSim, ATransferGoesOnWithinThreeSeconds) {
    const Cut& how = GetParam();
    for (const uint64_t seed : seeds(5)) {
        SimLink link;
        link.delay = milliseconds(how.delay_ms);
        MtuSim sim(link, seed);
        if (how.delay_ms < 5) {
            // About the rate of the others.
            sim.up.limit_window(4);
            sim.down.limit_window(4);
        }
        sim.run_for(seconds(3) + milliseconds(static_cast<int64_t>(seed % 100) * 37));
        ASSERT_EQ(sim.mtu_up(), 1500);
        ASSERT_EQ(sim.mtu_down(), 1500);
        sim.up.forget_stalls();
        sim.down.forget_stalls();
        const uint64_t challenges = sim.pair.node.challenges;
        if (how.is_up) {
            sim.cut(sim.pair.up, how.mtu);
        }
        if (how.is_down) {
            sim.cut(sim.pair.down, how.mtu);
        }
        sim.run_for(seconds(10));
        EXPECT_LE(base::to_ms(sim.up.longest_stall()), 3000) << "seed " << seed;
        EXPECT_LE(base::to_ms(sim.down.longest_stall()), 3000) << "seed " << seed;
        EXPECT_EQ(sim.mtu_up(), how.is_up ? how.mtu : 1500) << "seed " << seed;
        EXPECT_EQ(sim.mtu_down(), how.is_down ? how.mtu : 1500) << "seed " << seed;
        EXPECT_TRUE(sim.pair.node.silent_paths.empty()) << "it is the size, not the path";
        EXPECT_EQ(sim.pair.node.challenges, challenges) << "a probe looked like a new mapping";
    }
}

INSTANTIATE_TEST_SUITE_P(Cuts,
                         MtuCutSim,
                         testing::Values(Cut{true, false, 1280, 10},
                                         Cut{false, true, 1280, 10},
                                         Cut{true, true, 1280, 10},
                                         Cut{true, false, 1000, 10},
                                         Cut{false, true, 1000, 10},
                                         Cut{true, true, 1000, 10},
                                         Cut{true, true, 1400, 10},
                                         Cut{true, true, 1280, 100},
                                         Cut{true, true, 1000, 1}),
                         [](const auto& instance) {
                             const Cut& cut = instance.param;
                             return std::string(cut.is_up ? "Up" : "") +
                                    (cut.is_down ? "Down" : "") + std::to_string(cut.mtu) + "At" +
                                    std::to_string(cut.delay_ms) + "ms";
                         });

TEST(MtuSim, ALoneTransferIsHelpedToo) {
    for (const bool is_up : {true, false}) {
        MtuSim sim;
        sim.run_for(seconds(3), is_up, !is_up);
        sim.cut(sim.pair.up, 1000);
        sim.cut(sim.pair.down, 1000);
        Transfer& transfer = is_up ? sim.up : sim.down;
        transfer.forget_stalls();
        sim.run_for(seconds(8), is_up, !is_up);
        EXPECT_LE(base::to_ms(transfer.longest_stall()), 3000) << (is_up ? "up" : "down");
    }
}

TEST(MtuSim, OneCutAfterAnotherIsFollowed) {
    MtuSim sim;
    sim.run_for(seconds(3));
    for (const uint16_t mtu : std::initializer_list<uint16_t>{1400, 1280, 1000, 576}) {
        sim.up.forget_stalls();
        sim.down.forget_stalls();
        sim.cut(sim.pair.up, mtu);
        sim.cut(sim.pair.down, mtu);
        sim.run_for(seconds(4));
        EXPECT_EQ(sim.mtu_up(), mtu);
        EXPECT_EQ(sim.mtu_down(), mtu);
        EXPECT_LE(base::to_ms(sim.up.longest_stall()), 3000) << mtu;
        EXPECT_LE(base::to_ms(sim.down.longest_stall()), 3000) << mtu;
    }
}

TEST(MtuSim, TenPercentOfLossDoesNotShrinkTheMtu) {
    for (const uint64_t seed : seeds(20)) {
        SimLink link;
        link.loss_ppm = 100'000;
        MtuSim sim(link, seed);
        sim.run_for(seconds(30));
        EXPECT_EQ(sim.holes(), 0U) << "seed " << seed;
        EXPECT_EQ(sim.mtu_up(), 1500) << "seed " << seed;
        EXPECT_EQ(sim.mtu_down(), 1500) << "seed " << seed;
    }
}

TEST(MtuSim, APathThatIsCutOffKeepsItsMtu) {
    MtuSim sim;
    sim.run_for(seconds(2));
    sim.pair.lose(sim.pair.up, kCertain);
    sim.pair.lose(sim.pair.down, kCertain);
    sim.run_for(seconds(30));
    sim.pair.lose(sim.pair.up, 0);
    sim.pair.lose(sim.pair.down, 0);
    sim.run_for(seconds(5));
    EXPECT_EQ(sim.holes(), 0U);
    EXPECT_EQ(sim.mtu_up(), 1500);
    EXPECT_EQ(sim.mtu_down(), 1500);
}

TEST(MtuSim, TheMtuIsRaisedWhenTheHoleIsGone) {
    MtuSim sim;
    sim.run_for(seconds(2));
    sim.cut(sim.pair.up, 1280);
    sim.cut(sim.pair.down, 1280);
    sim.run_for(seconds(5));
    ASSERT_EQ(sim.mtu_up(), 1280);
    ASSERT_EQ(sim.mtu_down(), 1280);
    sim.cut(sim.pair.up, 0);
    sim.cut(sim.pair.down, 0);
    sim.pair.run_for(seconds(600));
    EXPECT_EQ(sim.mtu_up(), 1280) << "an idle path is not searched";
    sim.run_for(seconds(2));
    EXPECT_EQ(sim.mtu_up(), 1500);
    EXPECT_EQ(sim.mtu_down(), 1500);
}

TEST(MtuSim, AnIdlePathIsNotAsked) {
    MtuSim sim;
    sim.run_for(seconds(3));
    sim.cut(sim.pair.up, 1280);
    sim.run_for(seconds(5));
    sim.pair.run_for(seconds(5));
    sim.pair.record = true;
    sim.pair.recorded_up.clear();
    sim.pair.run_for(seconds(2500));
    EXPECT_LE(sim.pair.recorded_up.size(), 101U) << "keepalives, one in 25 s";
}

// A transfer in which one segment leaves, and nothing until it is acknowledged: its own timer has
// grown to ten seconds in an outage.
TEST(MtuSim, WhatAHoleSwallowedComesInPiecesBeforeItsSenderTriesAgain) {
    for (const bool is_up : {true, false}) {
        for (const bool moves : {false, true}) {
            MtuSim sim;
            sim.run_for(seconds(3));
            sim.pair.run_for(seconds(1));
            sim.cut(sim.pair.up, 1000);
            sim.cut(sim.pair.down, 1000);
            if (moves) {
                sim.pair.move_node(*base::Endpoint::parse("198.51.100.77:41000"), 3);
            }
            Transfer& transfer = is_up ? sim.up : sim.down;
            transfer.take_data();
            const uint32_t before = transfer.received();
            transfer.send_once();
            sim.keystrokes(seconds(3));
            transfer.take_data();
            EXPECT_EQ(transfer.received(), before + 1)
                << (is_up ? "up" : "down") << (moves ? ", on a new path" : "");
        }
    }
}

// Twice: the path that it left by is gone before its loss is told.
TEST(MtuSim, WhatIsLostInAMoveIntoAHoleComesToo) {
    for (const bool is_up : {true, false}) {
        MtuSim sim;
        sim.run_for(seconds(3));
        sim.pair.run_for(seconds(1));
        Transfer& transfer = is_up ? sim.up : sim.down;
        transfer.take_data();
        const uint32_t before = transfer.received();
        sim.pair.lose(sim.pair.up, kCertain);
        sim.pair.lose(sim.pair.down, kCertain);
        transfer.send_once();
        sim.pair.run_for(milliseconds(30));
        sim.pair.lose(sim.pair.up, 0);
        sim.pair.lose(sim.pair.down, 0);
        sim.cut(sim.pair.up, 1000);
        sim.cut(sim.pair.down, 1000);
        sim.pair.move_node(*base::Endpoint::parse("198.51.100.77:41000"), 3);
        sim.keystrokes(seconds(3));
        transfer.take_data();
        EXPECT_EQ(transfer.received(), before + 1) << (is_up ? "up" : "down");
    }
}

TEST(MtuSim, ANewPathThatTakesLessCarriesLargePacketsSoon) {
    for (const uint16_t mtu : std::initializer_list<uint16_t>{1280, 1000}) {
        MtuSim sim;
        sim.run_for(seconds(2));
        sim.cut(sim.pair.up, mtu);
        sim.cut(sim.pair.down, mtu);
        sim.pair.move_node(*base::Endpoint::parse("198.51.100.77:41000"), 3);
        sim.up.forget_stalls();
        sim.down.forget_stalls();
        sim.run_for(seconds(5));
        EXPECT_LE(base::to_ms(sim.up.longest_stall()), 1500) << mtu;
        EXPECT_LE(base::to_ms(sim.down.longest_stall()), 1500) << mtu;
        EXPECT_EQ(sim.pair.node.session->paths().path(3).mtu(), mtu);
        EXPECT_EQ(sim.pair.snapt.session->paths().path(3).mtu(), mtu);
    }
}

TEST(MtuSim, QuestionsCostLessThanAHundredthOfWhatIsSent) {
    MtuSim sim;
    sim.run_for(seconds(20));
    const session::SessionCounters& counters = sim.pair.node.session->counters();
    const uint64_t wire = sim.pair.node.session->queues().counters(TrafficClass::HtHd).wire_bytes;
    EXPECT_LE(counters.overhead_sent(), wire / 100);
}

}  // namespace
}  // namespace continuo::tests
