// Questions by class where paths and tuples change, in virtual time.
#include "tests/sim/two_paths.hpp"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;
using base::TrafficClass;
using path::ClassWay;
using session::TransmitItem;

constexpr TrafficClass kBusyClass = TrafficClass::HtHd;
constexpr TrafficClass kThinClass = TrafficClass::HtLd;
constexpr size_t kPayload = 160;  // a question is shorter

class ClassMovesSim : public ::testing::Test {
  protected:
    ClassMovesSim() {
        pair_.has_class_sockets = true;
        pair_.path_addresses[0] = pair_.node_address;
    }
    void send(SessionEnd& end, TrafficClass traffic_class) {
        packet::HeaderFields fields =
            node_fields(packet::Protocol::Udp, 5000,
                        static_cast<uint16_t>(5001 + base::index_of(traffic_class)));
        const packet::FiveTuple tuple = tuple_of(fields);
        if (&end == &pair_.snapt) {
            std::swap(fields.source, fields.destination);
            std::swap(fields.source_port, fields.destination_port);
        }
        std::vector<uint8_t> payload(kPayload);
        pair_.random.fill(payload);
        end.send(end.flow(tuple, traffic_class), make_packet(fields, payload), {}, pair_.now);
    }
    // The thin class first, so that what leaves later tells of it.
    void talk_for(base::Duration span, base::Duration thin, bool is_down = true) {
        for (const TimePoint until = pair_.now + span; pair_.now < until;
             pair_.run_for(milliseconds(10)), talked_ += milliseconds(10)) {
            for (SessionEnd* const end : {&pair_.node, &pair_.snapt}) {
                if (end == &pair_.snapt && !is_down) {
                    continue;
                }
                if (talked_ % thin == base::Duration{}) {
                    send(*end, kThinClass);
                }
                send(*end, kBusyClass);
            }
        }
    }

    SessionPair pair_{SimLink()};
    base::Duration talked_{};
};

// Datagrams under way are sent again on the other path, and named by their number on the first.
TEST_F(ClassMovesSim, APathThatIsLeftDeadIsNotAskedByClass) {
    for (base::Duration after = milliseconds(100); after <= seconds(1);
         after += milliseconds(150)) {
        pair_.is_item_swallowed = {};
        pair_.restart(static_cast<uint8_t>(base::to_ms(after) / 50));
        pair_.path_addresses[0] = pair_.node_address;
        pair_.add_path(1, kOther, SimLink());
        pair_.node.session->paths().path(1).node().probe(pair_.now);
        talk_for(seconds(3), milliseconds(100));
        size_t by_class = 0;
        size_t unmarked = 0;
        bool has_moved = false;
        pair_.is_item_swallowed = [&](bool is_up, const TransmitItem& item) {
            if (item.path == 0 && !is_up && has_moved) {
                by_class +=
                    item.marked_class != TrafficClass::LtLd && item.length < kPayload ? 1 : 0;
                unmarked += item.is_unmarked ? 1 : 0;
            }
            return item.path == 0;
        };
        talk_for(after, milliseconds(100));
        const uint64_t repeated = pair_.snapt.session->counters().repeated_datagrams;
        pair_.node.session->paths().node().activate(1, pair_.now);
        talk_for(milliseconds(50), milliseconds(100));
        has_moved = true;
        talk_for(seconds(20), milliseconds(100));
        EXPECT_GT(pair_.snapt.session->counters().repeated_datagrams, repeated);
        EXPECT_EQ(by_class, 0U) << base::to_ms(after);
        EXPECT_EQ(unmarked, 0U) << base::to_ms(after);
    }
}

// The three ways of a round arrive at once, and the last one moves the tuple. The SNAPT's numbers
// are not acknowledged, so that its headers are long.
TEST_F(ClassMovesSim, ARoundOfThreeIsAnsweredWhole) {
    talk_for(seconds(3), milliseconds(20), false);
    bool has_detour = false;
    pair_.is_item_swallowed = [&](bool is_up, const TransmitItem& item) {
        const bool is_of_class = is_up && item.marked_class == kBusyClass;
        has_detour = has_detour || (is_of_class && item.traffic_class == TrafficClass::LtLd);
        return is_of_class;
    };
    for (int i = 0; i < 500 && !has_detour; ++i) {
        talk_for(milliseconds(10), milliseconds(20), false);
    }
    ASSERT_TRUE(has_detour);
    std::map<TimePoint, size_t> answered;
    pair_.is_item_swallowed = [&](bool is_up, const TransmitItem& item) {
        if (!is_up && item.marked_class == kBusyClass) {
            ++answered[pair_.now];
        }
        return !is_up && item.marked_class == TrafficClass::LtLd;
    };
    talk_for(milliseconds(500), milliseconds(20), false);
    size_t most = 0;
    for (const auto& [at, count] : answered) {
        most = std::max(most, count);
    }
    EXPECT_EQ(most, path::kClassWays);
    const path::ClassWays* const ways = pair_.node.session->paths().path(0).feedback().class_ways();
    ASSERT_NE(ways, nullptr);
    EXPECT_EQ(ways->way(kBusyClass), ClassWay::Own);
}

}  // namespace
}  // namespace continuo::tests
