// A network that drops one DSCP, or one mapping of a NAT, in virtual time.
#include "tests/support/session_pair.hpp"

#include <tuple>
#include <utility>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::seconds;
using base::TrafficClass;
using path::ClassWay;
using path::PathState;
using recovery::Delivery;
using session::TransmitItem;

constexpr TrafficClass kDroppedClass = TrafficClass::HtHd;
constexpr TrafficClass kOtherClass = TrafficClass::HtLd;
// T_ask and then an answer, at most (docs/PATHS.md).
constexpr base::Duration kAsk = seconds(1);
constexpr base::Duration kAnswer = seconds(1);
constexpr base::Duration kSoonestAsk = milliseconds(500);
// The own way alone, and as many rounds as decide, by the shortest interval of probes.
constexpr base::Duration kDecision = (path::kProofs + 1) * recovery::Liveness::kProbeInterval;
// Until a sender without a round trip asks for what tells that other classes arrive (RFC
// 9002, 6.2.2).
constexpr base::Duration kFirstProbe = seconds(1);
constexpr base::Duration kRoundTrip = milliseconds(20);
constexpr base::Duration kCallInterval = milliseconds(20);

class ClassWaysSim : public ::testing::Test {
  protected:
    explicit ClassWaysSim(const SimLink& link = SimLink()) : pair_(link) {
        pair_.has_class_sockets = true;
    }
    static SimLink link_of(int round_trip_ms) {
        SimLink link;
        link.delay = milliseconds(round_trip_ms) / 2;
        return link;
    }
    static packet::FiveTuple tuple(TrafficClass traffic_class) {
        packet::FiveTuple tuple;
        tuple.local = *base::IpAddress::parse("192.0.0.5");
        tuple.remote = *base::IpAddress::parse("198.51.100.2");
        tuple.local_port = 5000;
        tuple.remote_port = static_cast<uint16_t>(5001 + base::index_of(traffic_class));
        tuple.protocol = packet::Protocol::Udp;
        return tuple;
    }
    void send(SessionEnd& end, TrafficClass traffic_class = kDroppedClass, size_t bytes = 160) {
        const packet::FiveTuple way = tuple(traffic_class);
        const bool is_up = &end == &pair_.node;
        packet::HeaderFields fields;
        fields.source = is_up ? way.local : way.remote;
        fields.destination = is_up ? way.remote : way.local;
        fields.protocol = way.protocol;
        fields.source_port = is_up ? way.local_port : way.remote_port;
        fields.destination_port = is_up ? way.remote_port : way.local_port;
        fields.ttl = 64;
        std::vector<uint8_t> payload(bytes);
        pair_.random.fill(payload);
        end.send(end.flow(way, traffic_class), make_packet(fields, payload), {}, pair_.now);
    }
    void send_for(SessionEnd& end, base::Duration span) {
        for (const base::TimePoint until = pair_.now + span; pair_.now < until;) {
            send(end);
            pair_.run_for(milliseconds(20));
        }
    }
    // Two classes at both ends. The last datagram of one is under way at the end, with some of the
    // other, which is confirmed more often.
    void talk_for(base::Duration span) {
        constexpr int kOthers = 10;
        for (const base::TimePoint until = pair_.now + span; pair_.now < until;) {
            for (int i = 0; i < kOthers; ++i) {
                pair_.run_for(milliseconds(10));
                for (SessionEnd* const end : {&pair_.node, &pair_.snapt}) {
                    send(*end, kOtherClass);
                }
            }
            pair_.run_for(milliseconds(3));
            for (SessionEnd* const end : {&pair_.node, &pair_.snapt}) {
                send(*end);
            }
        }
    }
    void call_for(base::Duration span, TrafficClass traffic_class = kDroppedClass) {
        constexpr size_t kVoice = 32;
        for (const base::TimePoint until = pair_.now + span; pair_.now < until;) {
            send(pair_.node, traffic_class, kVoice);
            send(pair_.snapt, traffic_class, kVoice);
            pair_.run_for(kCallInterval);
            const base::TimePoint since =
                pair_.node.session->paths().path(0).liveness().silent_since();
            longest_unanswered_ = std::max(
                longest_unanswered_, since == base::kNever ? base::Duration{} : pair_.now - since);
        }
    }
    // Until the SNAPT sends without the mark, or for long.
    base::Duration call_until_unmarked() {
        const base::TimePoint began = pair_.now;
        while (pair_.now < began + seconds(10) && way_at(pair_.snapt) != ClassWay::Unmarked) {
            call_for(kCallInterval);
        }
        return pair_.now - began;
    }
    void drop_mark_down() {
        pair_.is_item_swallowed = [](bool is_up, const TransmitItem& item) {
            return !is_up && item.marked_class == kDroppedClass && !item.is_unmarked;
        };
    }
    static ClassWay way_at(const SessionEnd& end, TrafficClass traffic_class = kDroppedClass) {
        const path::ClassWays* ways = end.session->paths().path(0).feedback().class_ways();
        return ways == nullptr ? ClassWay::Own : ways->way(traffic_class);
    }
    // Until `span` has passed nothing gets through, or nothing in one direction.
    void silence(base::Duration span, bool is_up_silent = true, bool is_down_silent = true) {
        pair_.is_item_swallowed = [=](bool is_up, const TransmitItem&) {
            return is_up ? is_up_silent : is_down_silent;
        };
        talk_for(span);
        pair_.is_item_swallowed = {};
    }
    void expect_own_ways(const std::string& when) const {
        for (const SessionEnd* const end : {&pair_.node, &pair_.snapt}) {
            for (const TrafficClass traffic_class : {kDroppedClass, kOtherClass}) {
                EXPECT_EQ(way_at(*end, traffic_class), ClassWay::Own)
                    << when << ", " << base::token(traffic_class) << " at "
                    << (end == &pair_.node ? "the node" : "the SNAPT");
            }
        }
    }
    size_t arrived_in(SessionEnd& sender, SessionEnd& receiver, base::Duration span) {
        const size_t before = receiver.delivered.size();
        send_for(sender, span);
        return receiver.delivered.size() - before;
    }
    // How often each end sends in the two classes; zero: never.
    struct Rhythm {
        base::Duration thin_up{};  // kOtherClass
        base::Duration thin_down{};
        base::Duration other_up{};  // kDroppedClass
        base::Duration other_down{};
    };
    void talk_in(const Rhythm& rhythm, base::Duration span, base::Duration step) {
        for (base::Duration at{}; at < span; at += step, talked_ += step) {
            const auto is_due = [&](base::Duration every) {
                return every != base::Duration{} && talked_ % every == base::Duration{};
            };
            // The thin one first, so that others that leave later tell of it.
            if (is_due(rhythm.thin_up)) {
                send(pair_.node, kOtherClass);
            }
            if (is_due(rhythm.thin_down)) {
                send(pair_.snapt, kOtherClass);
            }
            if (is_due(rhythm.other_up)) {
                send(pair_.node);
            }
            if (is_due(rhythm.other_down)) {
                send(pair_.snapt);
            }
            pair_.run_for(step);
        }
    }
    // Bytes without packets: questions of the class and their answers.
    uint64_t asked_bytes(TrafficClass traffic_class) const {
        const size_t slot = base::index_of(traffic_class);
        return pair_.node.session->counters().overhead[slot].sent +
               pair_.snapt.session->counters().overhead[slot].sent;
    }
    SessionPair pair_;
    base::Duration talked_{};
    base::Duration longest_unanswered_{};
};

bool is_marked_bulk(const TransmitItem& item) {
    return item.marked_class == kDroppedClass && !item.is_unmarked;
}

struct HealthyForm {
    const char* name;
    base::Duration thin_up;
    base::Duration thin_down;
    base::Duration other_up;
    base::Duration other_down;
};

class HealthyClassSim : public ClassWaysSim,
                        public ::testing::WithParamInterface<std::tuple<HealthyForm, int>> {
  protected:
    HealthyClassSim() : ClassWaysSim(link_of(std::get<1>(GetParam()))) {}
};

TEST_P(HealthyClassSim, AThinClassThatArrivesIsNotAsked) {
    const HealthyForm& form = std::get<0>(GetParam());
    const Rhythm rhythm{form.thin_up, form.thin_down, form.other_up, form.other_down};
    constexpr base::Duration kStep = milliseconds(10);
    talk_in(rhythm, seconds(15), kStep);
    const uint64_t before = asked_bytes(kOtherClass) + asked_bytes(kDroppedClass);
    talk_in(rhythm, seconds(120), kStep);
    EXPECT_EQ(asked_bytes(kOtherClass) + asked_bytes(kDroppedClass), before);
    expect_own_ways("at the end");
}

INSTANTIATE_TEST_SUITE_P(
    RoundTrips,
    HealthyClassSim,
    testing::Combine(
        testing::Values(
            HealthyForm{"Both", seconds(3), seconds(3), milliseconds(200), milliseconds(200)},
            HealthyForm{"BesideAStreamDown", seconds(2), {}, {}, milliseconds(50)},
            HealthyForm{"BesideAStreamUp", {}, seconds(2), milliseconds(50), {}},
            HealthyForm{"Busy", milliseconds(20), milliseconds(20), seconds(1), seconds(1)},
            HealthyForm{"AllThin", seconds(3), seconds(5), seconds(2), seconds(4)}),
        testing::Values(20, 600, 1500)),
    [](const auto& test) {
        return std::string(std::get<0>(test.param).name) + std::to_string(std::get<1>(test.param));
    });

struct DroppedForm {
    const char* name;
    bool is_dropped_up;
    bool is_dropped_down;
};

// A call in one class, and nothing else.
class DroppedMarkSim
    : public ClassWaysSim,
      public ::testing::WithParamInterface<std::tuple<DroppedForm, TrafficClass, int>> {
  protected:
    DroppedMarkSim() : ClassWaysSim(link_of(std::get<2>(GetParam()))) {}
    void drop_marks() {
        const auto [form, traffic_class, round_trip] = GetParam();
        const base::Duration timeout =
            pair_.node.session->paths().path(0).feedback().rtt().probe_timeout();
        ask_ = std::max<base::Duration>(timeout, recovery::Liveness::kAskAfter);
        if (traffic_class == TrafficClass::LtLd) {
            ask_ += timeout + kUnmarkedTwice;
        } else if (form.is_dropped_down) {
            ask_ += timeout;
        }
        pair_.is_item_swallowed =
            [form = form, traffic_class = traffic_class](bool is_up, const TransmitItem& item) {
                return (is_up ? form.is_dropped_up : form.is_dropped_down) &&
                       item.marked_class == traffic_class && !item.is_unmarked;
            };
    }
    void expect_mended() {
        const auto [form, traffic_class, round_trip] = GetParam();
        const auto way = [](bool is_dropped) {
            return is_dropped ? ClassWay::Unmarked : ClassWay::Own;
        };
        EXPECT_EQ(way_at(pair_.node, traffic_class), way(form.is_dropped_up));
        EXPECT_EQ(way_at(pair_.snapt, traffic_class), way(form.is_dropped_down));
        // The path itself works meanwhile: its question, and a round trip.
        EXPECT_LE(longest_unanswered_, ask_ + milliseconds(std::get<2>(GetParam())) +
                                           Delivery::kAskedAckDelay + kCallInterval);
        const size_t up = pair_.snapt.delivered.size();
        const size_t down = pair_.node.delivered.size();
        call_for(seconds(5), traffic_class);
        EXPECT_GT(pair_.snapt.delivered.size() - up, 150U);
        EXPECT_GT(pair_.node.delivered.size() - down, 150U);
        EXPECT_EQ(pair_.node.session->paths().path(0).state(), PathState::Usable);
        for (const TrafficClass other : base::kAllTrafficClasses) {
            if (other != traffic_class) {
                EXPECT_EQ(way_at(pair_.node, other), ClassWay::Own) << base::token(other);
                EXPECT_EQ(way_at(pair_.snapt, other), ClassWay::Own) << base::token(other);
            }
        }
    }
    // Both ends, one after the other: the question of the path, the own way alone, rounds at most
    // 250 ms apart, and round trips for the evidence, the first answer and the last.
    base::Duration most() const {
        const auto round_trip = milliseconds(std::get<2>(GetParam()));
        return 2 * (ask_ + path::kProofs * milliseconds(250) + 4 * round_trip);
    }
    // From the first sending of a CHALLENGE to the second without the mark: the answer to the first
    // of these has it.
    static constexpr base::Duration kUnmarkedTwice =
        (1 + 2 + 4) * recovery::Liveness::kProbeInterval;
    // A PING after max(PTO, 500 ms). Where it is dropped itself, or its ACK with the packets that
    // carry it, a CHALLENGE follows after a PTO.
    base::Duration ask_{};
};

TEST_P(DroppedMarkSim, IsLeftOutWhereACallBegins) {
    pair_.run_for(seconds(5));
    drop_marks();
    call_for(most(), std::get<1>(GetParam()));
    expect_mended();
}

TEST_P(DroppedMarkSim, IsLeftOutInTheMiddleOfACall) {
    call_for(seconds(10), std::get<1>(GetParam()));
    drop_marks();
    call_for(most(), std::get<1>(GetParam()));
    expect_mended();
}

INSTANTIATE_TEST_SUITE_P(Classes,
                         DroppedMarkSim,
                         testing::Combine(testing::Values(DroppedForm{"Up", true, false},
                                                          DroppedForm{"Down", false, true},
                                                          DroppedForm{"Both", true, true}),
                                          testing::ValuesIn(base::kAllTrafficClasses),
                                          testing::Values(20, 600)),
                         [](const auto& test) {
                             std::string name = std::get<0>(test.param).name;
                             for (const char c : base::token(std::get<1>(test.param))) {
                                 name += c == '-' ? std::string() : std::string(1, c);
                             }
                             return name + std::to_string(std::get<2>(test.param));
                         });

TEST_F(ClassWaysSim, ADroppedMarkIsLeftOutAtBothEnds) {
    send_for(pair_.node, seconds(2));
    pair_.is_item_swallowed = [](bool, const TransmitItem& item) { return is_marked_bulk(item); };
    send_for(pair_.node, kAsk + kAnswer + 5 * kRoundTrip);
    EXPECT_EQ(way_at(pair_.node), ClassWay::Unmarked);
    EXPECT_GT(arrived_in(pair_.node, pair_.snapt, seconds(2)), 95U);
    send_for(pair_.snapt, 3 * kFirstProbe + kAsk + kAnswer);
    EXPECT_EQ(way_at(pair_.snapt), ClassWay::Unmarked);
    EXPECT_GT(arrived_in(pair_.snapt, pair_.node, seconds(2)), 95U);
    EXPECT_EQ(pair_.node.session->paths().path(0).state(), PathState::Usable);
}

TEST_F(ClassWaysSim, ADeadMappingOfTheClassIsLeftForThatOfLtLd) {
    send_for(pair_.node, seconds(2));
    pair_.is_item_swallowed = [](bool is_up, const TransmitItem& item) {
        return is_up && item.traffic_class == kDroppedClass;  // by the socket of the class
    };
    send_for(pair_.node, kAsk + 2 * kAnswer + 5 * kRoundTrip);
    EXPECT_EQ(way_at(pair_.node), ClassWay::Detour);
    EXPECT_GT(arrived_in(pair_.node, pair_.snapt, seconds(2)), 95U);
    EXPECT_GT(arrived_in(pair_.snapt, pair_.node, seconds(2)), 95U);
}

// The control link need not be probed for that.
TEST_F(ClassWaysSim, ANodeThatTakesAnotherSocketKnowsThatNothingHasMoved) {
    send_for(pair_.node, seconds(2));
    const uint64_t before = pair_.node.challenges;
    pair_.is_item_swallowed = [](bool is_up, const TransmitItem& item) {
        return is_up && item.traffic_class == kDroppedClass;
    };
    send_for(pair_.node, kAsk + 2 * kAnswer + 5 * kRoundTrip);
    ASSERT_EQ(way_at(pair_.node), ClassWay::Detour);
    EXPECT_EQ(pair_.node.challenges, before);
    pair_.is_item_swallowed = {};
    send_for(pair_.node, path::kOwnWayAgainAfter + seconds(2));
    ASSERT_EQ(way_at(pair_.node), ClassWay::Own);
    EXPECT_EQ(pair_.node.challenges, before);
    pair_.node_address.port += 100;
    send_for(pair_.node, seconds(1));
    EXPECT_GT(pair_.node.challenges, before) << "that was a NAT";
}

// A call is thin: the SNAPT waits long for an acknowledgement that is owed.
TEST_F(ClassWaysSim, AMarkDroppedDownIsNoticedAsSoonAsTheNodeHearsNothing) {
    pair_.run_for(seconds(3));
    drop_mark_down();
    EXPECT_LE(call_until_unmarked(), kSoonestAsk + kDecision + 5 * kRoundTrip);
    EXPECT_EQ(way_at(pair_.node), ClassWay::Own);
}

// Datagrams that arrived before are acknowledged after the drop, and the node hears that
// meanwhile: each begins a silence anew, but none makes the next question wait.
TEST_F(ClassWaysSim, AMarkDroppedDownInTheMiddleOfACallIsNoticedInThreeSilences) {
    constexpr base::Duration kSilence = kSoonestAsk + kCallInterval + kRoundTrip;
    for (int i = 0; i < 10; ++i) {
        call_for(seconds(2) + i * milliseconds(60));
        drop_mark_down();
        EXPECT_LE(call_until_unmarked(), 3 * kSilence + kDecision + 3 * kRoundTrip) << i;
        pair_.is_item_swallowed = {};
        pair_.restart(static_cast<uint8_t>(i + 1));
        pair_.run_for(seconds(1));
    }
}

TEST_F(ClassWaysSim, AMarkThatPassesAgainIsTakenBack) {
    send_for(pair_.node, seconds(2));
    pair_.is_item_swallowed = [](bool, const TransmitItem& item) { return is_marked_bulk(item); };
    send_for(pair_.node, seconds(2));
    ASSERT_EQ(way_at(pair_.node), ClassWay::Unmarked);
    pair_.is_item_swallowed = {};
    send_for(pair_.node, path::kOwnWayAgainAfter + seconds(2));
    EXPECT_EQ(way_at(pair_.node), ClassWay::Own);
}

TEST_F(ClassWaysSim, ASilentPathIsNoMatterOfClasses) {
    send_for(pair_.node, seconds(2));
    pair_.is_item_swallowed = [](bool, const TransmitItem&) { return true; };
    send_for(pair_.node, seconds(5));
    EXPECT_EQ(pair_.node.session->paths().path(0).state(), PathState::Dead);
    EXPECT_EQ(way_at(pair_.node), ClassWay::Own);
}

// Whatever part of a question it falls into.
TEST_F(ClassWaysSim, AnOutageChangesNoWay) {
    talk_for(seconds(2));
    for (base::Duration span = milliseconds(300); span <= seconds(3); span += milliseconds(90)) {
        const std::string length = std::to_string(base::to_ms(span)) + " ms of silence";
        silence(span);
        talk_for(seconds(5));
        expect_own_ways(length);
        silence(span, true, false);
        talk_for(seconds(5));
        expect_own_ways(length + " up");
        silence(span, false, true);
        talk_for(seconds(5));
        expect_own_ways(length + " down");
    }
    silence(seconds(15));  // the path was dead
    talk_for(seconds(5));
    expect_own_ways("after death");
    silence(milliseconds(850));
    pair_.node.session->paths().node().on_pause(pair_.now);
    talk_for(seconds(5));
    expect_own_ways("after a sleep");
}

TEST_F(ClassWaysSim, ANodeThatIsGoneIsNotAskedForEver) {
    talk_for(seconds(2));
    // The last of one class is lost while the other is still confirmed.
    pair_.is_item_swallowed = [](bool, const TransmitItem& item) {
        return item.marked_class == kDroppedClass;
    };
    talk_for(kSoonestAsk - milliseconds(100));
    size_t questions = 0;
    size_t items = 0;
    pair_.is_item_swallowed = [&](bool is_up, const TransmitItem& item) {
        items += is_up ? 0 : 1;
        questions += !is_up && item.is_unmarked ? 1 : 0;
        return true;
    };
    talk_for(kAsk + 3 * kAnswer);
    EXPECT_GT(std::exchange(questions, 0), 0U);
    items = 0;
    pair_.run_for(seconds(600));
    EXPECT_EQ(questions, 0U);
    EXPECT_LT(items, 60U) << "what the SNAPT sends to it";
}

// A question and its answer are lost as all else. What is asked for stays a small part of what is
// sent, and decides nothing wrongly.
class LossyClassSim : public ClassWaysSim, public ::testing::WithParamInterface<int> {
  protected:
    LossyClassSim() : ClassWaysSim(link_of(GetParam())) {}
    uint64_t sent_bytes() const {
        return pair_.node.session->paths().path(0).traffic().counters().sent_bytes +
               pair_.snapt.session->paths().path(0).traffic().counters().sent_bytes;
    }
};

TEST_P(LossyClassSim, LossAloneChangesNoWay) {
    constexpr uint32_t kTenPercent = 100'000;
    constexpr base::Duration kStep = milliseconds(100);
    constexpr Rhythm kThin{seconds(1), seconds(1), kStep, kStep};
    talk_in(kThin, seconds(5), kStep);
    pair_.lose(pair_.up, kTenPercent);
    pair_.lose(pair_.down, kTenPercent);
    const uint64_t before = asked_bytes(kOtherClass);
    const uint64_t sent_before = sent_bytes();
    size_t changed = 0;
    for (int i = 0; i < 30'000; ++i) {
        talk_in(kThin, kStep, kStep);
        for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
            changed += way_at(pair_.node, traffic_class) != ClassWay::Own ? 1U : 0U;
            changed += way_at(pair_.snapt, traffic_class) != ClassWay::Own ? 1U : 0U;
        }
    }
    const uint64_t asked = asked_bytes(kOtherClass) - before;
    EXPECT_GT(asked, 0U) << "nothing was asked, so that nothing is shown";
    EXPECT_LT(asked * 100, sent_bytes() - sent_before) << asked;
    EXPECT_EQ(changed, 0U);
}

INSTANTIATE_TEST_SUITE_P(RoundTrips, LossyClassSim, testing::Values(20, 600, 1500));

}  // namespace
}  // namespace continuo::tests
