// What a peer with the keys makes a session compute: for every kind of frame the time is linear in
// its bytes, whatever the peer has left unacknowledged and however it names it. Measured is the
// processor's time of this thread, against that of padding of the same length.
#include "common/wire/ack_ranges.hpp"
#include "common/wire/body.hpp"
#include "tests/support/hostile_peer.hpp"

#include <ctime>
#include <string>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::TrafficClass;
using session::Role;

constexpr size_t kBodyBytes = 1400;
constexpr wire::Space kBulk{TrafficClass::HtHd, 0, 0};
// Of padding, whose datagram is opened and no more.
constexpr int64_t kMostTimes = 60;
// docs/PROTOCOL.md section 8.
constexpr size_t kMaxFrames = 128;
constexpr size_t kMaxRanges = 512;
constexpr size_t kMaxOuterBytes = 1500;

Duration thread_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return base::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Of the least disturbed of some datagrams with that body.
Duration cost_of(Victim& victim, base::ByteView body) {
    Duration least = Duration::max();
    for (int i = 0; i < 20; ++i) {
        const Duration before = thread_time();
        victim.receive_body({TrafficClass::LtLd, 0, 0}, body);
        least = std::min<Duration>(least, thread_time() - before);
    }
    return least;
}

std::vector<uint8_t> padding() {
    std::vector<uint8_t> body(kBodyBytes);
    base::ByteWriter writer(body);
    wire::Pad{kBodyBytes}.serialize(writer);
    return body;
}

// As many frames as fit, each as `write(ByteWriter&, number)` makes it.
template <typename Write>
std::vector<uint8_t> filled_with(const Write& write) {
    std::vector<uint8_t> body(kBodyBytes);
    base::ByteWriter writer(body);
    for (uint32_t i = 0;; ++i) {
        const size_t before = writer.size();
        if (!write(writer, i) || !writer.ok()) {
            writer.rewind(before);
            break;
        }
    }
    body.resize(writer.size());
    return body;
}

// Datagrams of two sizes in turn, so that each of the last ones is a run of its own. The node has
// heard of none of them.
void send_unacknowledged(Victim& victim, size_t datagrams) {
    std::array<session::ClassSettings, base::kTrafficClasses> classes;
    for (session::ClassSettings& settings : classes) {
        settings.hold = {};
    }
    victim.session().set_class_settings(classes);
    size_t sent = 0;
    for (size_t i = 0; i < datagrams; ++i) {
        victim.send_packet(3, i % 2 == 0 ? 100 : 200);
        sent += victim.drain().size();
        victim.advance(base::microseconds(50));
    }
    ASSERT_GE(sent, datagrams);
}

wire::Ack ack_of(uint32_t highest) {
    wire::Ack ack;
    ack.space = kBulk;
    ack.highest = highest;
    return ack;
}

// Single numbers, newest first, each followed by a gap of one.
std::vector<wire::AckRange> every_second_number(uint32_t highest, size_t count) {
    std::vector<wire::AckRange> ranges;
    for (uint32_t number = highest; ranges.size() < count; number -= 2) {
        ranges.push_back({number, number, wire::AckKind::Applied});
    }
    return ranges;
}

void expect_linear(Victim& victim, base::ByteView body, const char* what) {
    const auto of_padding = cost_of(victim, padding());
    const auto of_body = cost_of(victim, body);
    testing::Test::RecordProperty(
        std::string("ps a byte, ") + what,
        static_cast<int>(of_body.count() * 1000 / static_cast<int64_t>(body.size())));
    EXPECT_LE(of_body, of_padding * kMostTimes)
        << what << ": " << of_body.count() << " ns, padding " << of_padding.count() << " ns";
}

TEST(FrameCost, RangesOfNumbersThatNobodyWaitsForAnyMoreCostNoSearch) {
    Victim victim(Role::Node);
    send_unacknowledged(victim, 3500);
    expect_linear(victim, filled_with([](base::ByteWriter& writer, uint32_t /*i*/) {
                      const auto ranges = every_second_number(600, 255);
                      return wire::write_ack(writer, ack_of(600), ranges) == ranges.size();
                  }),
                  "old ranges");
}

TEST(FrameCost, ManyFramesThatNameTheOldestOfWhatIsUnderWayCostNoSearch) {
    Victim victim(Role::Node);
    send_unacknowledged(victim, 3500);
    expect_linear(
        victim, filled_with([](base::ByteWriter& writer, uint32_t i) {
            const std::array<wire::AckRange, 1> one{{{2600, 2600, wire::AckKind::Applied}}};
            return i < 60 && wire::write_ack(writer, ack_of(2600), one) == 1;
        }),
        "frames with one old number");
}

// The encoder remembers more than the path does.
TEST(FrameCost, ARangeOfWhatIsAcknowledgedAlreadyCostsNoWalk) {
    Victim victim(Role::Node);
    send_unacknowledged(victim, 8000);
    expect_linear(
        victim, filled_with([](base::ByteWriter& writer, uint32_t i) {
            const std::array<wire::AckRange, 1> one{{{3900, 7900, wire::AckKind::Applied}}};
            return i < 60 && wire::write_ack(writer, ack_of(7900), one) == 1;
        }),
        "frames with one long range");
}

// Frames that `make(number)` gives.
template <typename Make>
void expect_linear_frames(Victim& victim, const char* what, const Make& make) {
    constexpr uint32_t kFrames = 60;
    const auto body = filled_with([&](base::ByteWriter& writer, uint32_t i) {
        make(i).serialize(writer);
        return i < kFrames;
    });
    expect_linear(victim, body, what);
    EXPECT_EQ(victim.session().drops().count(base::DropReason::BadBody), 0U) << what;
}

TEST(FrameCost, OtherFramesCostNoMoreThanTheirBytes) {
    Victim victim(Role::Snapt);
    const std::array<uint8_t, 1> byte{1};
    expect_linear_frames(victim, "FRAGMENT", [&](uint32_t i) {
        wire::Fragment piece;
        piece.id = static_cast<uint16_t>(i);
        piece.piece = byte;
        piece.to_end = false;
        return piece;
    });
    expect_linear_frames(victim, "FLOOR", [](uint32_t i) {
        return wire::Floor{{TrafficClass::HtHd, static_cast<uint8_t>(i % 16), 0}, i};
    });
    expect_linear_frames(victim, "CHALLENGE", [](uint32_t i) {
        wire::Challenge challenge;
        base::store_big_endian(challenge.token.data(), i);
        return challenge;
    });
    expect_linear_frames(victim, "RESPONSE", [](uint32_t i) {
        wire::Response response;
        base::store_big_endian(response.token.data(), i);
        return response;
    });
    expect_linear_frames(victim, "CLOSED", [](uint32_t i) {
        wire::Closed closed;
        for (uint32_t index = 0; index < wire::kMaxClosedFlows; ++index) {
            static_cast<void>(closed.add(i * 32 + index));
        }
        return closed;
    });
    expect_linear_frames(victim, "ANNOUNCE", [](uint32_t i) {
        wire::Announce announce;
        announce.active = true;
        announce.number = static_cast<uint16_t>(i);
        return announce;
    });
    expect_linear_frames(victim, "ORDER", [](uint32_t i) {
        wire::Order order;
        order.paths = 3;
        for (uint32_t place = 0; place < wire::kMaxOrderedFlows; ++place) {
            static_cast<void>(order.add(place, static_cast<uint16_t>(i)));
        }
        return order;
    });
    expect_linear_frames(victim, "PING", [](uint32_t /*i*/) { return wire::Ping{}; });
    expect_linear_frames(victim, "CAPS", [](uint32_t /*i*/) { return wire::Caps{1, 1}; });
    expect_linear_frames(victim, "CONFIRM", [](uint32_t /*i*/) { return wire::Confirm{1, 1}; });
}

// --- What is bounded

uint64_t bad_bodies(Victim& victim) {
    return victim.session().drops().count(base::DropReason::BadBody);
}

TEST(FrameBounds, ABodyWithMoreFramesThanAllowedIsVoid) {
    for (const auto count : {kMaxFrames, kMaxFrames + 1}) {
        Victim victim(Role::Snapt);
        const auto pings = std::vector<uint8_t>(count, 0x8C);
        victim.receive_body(kBulk, pings);
        EXPECT_EQ(bad_bodies(victim), count > kMaxFrames ? 1U : 0U) << count;
    }
}

TEST(FrameBounds, ABodyWithMoreRangesThanAllowedIsVoid) {
    Victim victim(Role::Node);
    send_unacknowledged(victim, 600);
    const auto frames = [](size_t ranges) {
        return filled_with([&](base::ByteWriter& writer, uint32_t i) {
            const size_t left = ranges - std::min<size_t>(ranges, i * 85);
            const auto some = every_second_number(590, std::min<size_t>(left, 85));
            return left > 0 && wire::write_ack(writer, ack_of(590), some) == some.size();
        });
    };
    victim.receive_body(kBulk, frames(kMaxRanges));
    EXPECT_EQ(bad_bodies(victim), 0U);
    victim.receive_body(kBulk, frames(kMaxRanges + 1));
    EXPECT_EQ(bad_bodies(victim), 1U);
}

TEST(FrameBounds, ADatagramThatNoPathTakesIsDroppedUnopened) {
    for (const size_t outer : {kMaxOuterBytes, kMaxOuterBytes + 1}) {
        Victim victim(Role::Snapt);
        std::vector<uint8_t> body(outer - 28 - wire::kLongHeaderBytes - wire::kFullTagBytes);
        body[0] = 0x80;
        victim.receive_body(kBulk, body);
        const bool is_too_long = outer > kMaxOuterBytes;
        EXPECT_EQ(victim.session().counters().datagrams_received, is_too_long ? 0U : 1U);
        EXPECT_EQ(victim.session().drops().count(base::DropReason::DatagramTooLong),
                  is_too_long ? 1U : 0U);
    }
}

}  // namespace
}  // namespace continuo::tests
