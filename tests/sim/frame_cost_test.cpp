// Cost of a peer with the keys: for every kind of frame the time is linear in its bytes, whatever
// the peer has left unacknowledged and however it names it. Processor time of this thread is
// compared with that of padding of the same length.
#include "common/wire/ack_ranges.hpp"
#include "tests/sim/body_cost.hpp"
#include "tests/support/acknowledged.hpp"

namespace continuo::tests {
namespace {

using base::TrafficClass;
using path::Role;

constexpr wire::Space kBulk{TrafficClass::HtHd, 0, 0};
// docs/PROTOCOL.md section 8.
constexpr size_t kMaxFrames = 128;
constexpr size_t kMaxRanges = 512;
constexpr size_t kMaxOuterBytes = 1500;

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

uint64_t drops_in_all(Victim& victim) {
    uint64_t total = 0;
    for (size_t reason = 0; reason < base::kDropReasons; ++reason) {
        total += victim.session().drops().count(static_cast<base::DropReason>(reason));
    }
    return total;
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

// A node that sends, and whose peer names what it has sent.
class Sending {
  public:
    explicit Sending(size_t datagrams) { send(datagrams); }

    void send(size_t datagrams) {
        send_unacknowledged(victim_, datagrams);
        sent_ += static_cast<uint32_t>(datagrams);
    }
    // Cost of bodies that `make(newest number)` gives, each after so many more datagrams.
    template <typename Make>
    Measured cost_of_acks(size_t more, const Make& make) {
        const auto measured = cost_of(victim_, [&](uint32_t /*round*/) {
            send(more);
            return make(sent_ - 1);
        });
        EXPECT_EQ(drops_in_all(victim_), 0U);
        EXPECT_GE(victim_.session().counters().acks_received, kRounds);
        return measured;
    }
    void acknowledge_all() {
        victim_.receive_body(
            kBulk, filled_with([&](base::ByteWriter& writer, uint32_t i) {
                const std::array<wire::AckRange, 1> all{{{0, sent_ - 1, wire::AckKind::Applied}}};
                return i == 0 && wire::write_ack(writer, ack_of(sent_ - 1), all) == 1;
            }));
    }
    Victim& victim() { return victim_; }

  private:
    Victim victim_{Role::Node};
    uint32_t sent_ = 0;
};

// Numbers that no ACK has named yet, each by itself, from `highest` down.
std::vector<uint8_t> acks_of_single_numbers(uint32_t highest) {
    return filled_with([highest](base::ByteWriter& writer, uint32_t i) {
        constexpr size_t kRanges = 255;
        const auto first = highest - i * 2 * static_cast<uint32_t>(kRanges);
        const auto ranges = every_second_number(first, kRanges);
        return i < 2 && wire::write_ack(writer, ack_of(first), ranges) == ranges.size();
    });
}

constexpr size_t kNamedBySingleNumbers = 1100;

TEST(FrameCost, RangesOfWhatIsUnderWayCostFewStepsEach) {
    Sending node(3500);
    expect_linear(node.victim(), node.cost_of_acks(kNamedBySingleNumbers, acks_of_single_numbers),
                  "ranges", kMostTimesNamed);
}

// The path has forgotten them, the encoder has not.
TEST(FrameCost, RangesOfNumbersThatNobodyWaitsForAnyMoreCostNoSearch) {
    Sending node(3500);
    expect_linear(
        node.victim(),
        node.cost_of_acks(kNamedBySingleNumbers,
                          [](uint32_t newest) { return acks_of_single_numbers(newest - 2400); }),
        "old ranges", kMostTimesNamed);
}

TEST(FrameCost, ManyFramesThatNameTheOldestOfWhatIsUnderWayCostNoSearch) {
    Sending node(3500);
    expect_linear(
        node.victim(),
        node.cost_of_acks(
            60,
            [](uint32_t newest) {
                return filled_with([&](base::ByteWriter& writer, uint32_t i) {
                    const uint32_t one = newest - 900 + i;
                    const std::array<wire::AckRange, 1> range{{{one, one, wire::AckKind::Applied}}};
                    return i < 60 && wire::write_ack(writer, ack_of(one), range) == 1;
                });
            }),
        "frames with one old number");
}

// However many sessions do it.
TEST(FrameCost, WhatIsKnownOfWhatIsUnderWayIsInTheMemoryBudget) {
    Sending node(100);
    const size_t before = node.victim().memory.used_bytes();
    constexpr size_t kRuns = 1024;  // of one datagram each
    node.send(2 * kRuns);
    EXPECT_GE(node.victim().memory.used_bytes(), before + kRuns / 2 * sizeof(recovery::SentRun));
}

// Each datagram with a number of its own takes a place in the record of headers, too.
TEST(FrameCost, WhatHeadersReferToIsInTheMemoryBudget) {
    constexpr size_t kRuns = 2048;  // as many as the path's log holds, and more
    constexpr size_t kDatagrams = 500;
    Sending node(1);
    node.acknowledge_all();
    node.send(kRuns);
    const size_t before = node.victim().memory.used_bytes();
    for (size_t i = 0; i < kDatagrams; ++i) {
        node.victim().advance(base::milliseconds(2));  // none joins the one before
        node.send(1);
    }
    constexpr size_t kRecordBytes = 40;
    EXPECT_GE(node.victim().memory.used_bytes(), before + kDatagrams * kRecordBytes);
}

// The encoder remembers more than the path does.
TEST(FrameCost, ARangeOfWhatIsAcknowledgedAlreadyCostsNoWalk) {
    Sending node(4100);
    expect_linear(node.victim(),
                  node.cost_of_acks(
                      100,
                      [](uint32_t newest) {
                          return filled_with([&](base::ByteWriter& writer, uint32_t i) {
                              const std::array<wire::AckRange, 1> range{
                                  {{newest - 4000, newest, wire::AckKind::Applied}}};
                              return i < 60 && wire::write_ack(writer, ack_of(newest), range) == 1;
                          });
                      }),
                  "frames with one long range");
}

// Frames that `make(number)` gives.
template <typename Make>
void expect_linear_frames(Victim& victim, const char* what, const Make& make) {
    constexpr uint32_t kFrames = 60;
    const auto measured = cost_of(victim, [&](uint32_t round) {
        return filled_with([&](base::ByteWriter& writer, uint32_t i) {
            make(round * kFrames + i).serialize(writer);
            return i < kFrames;
        });
    });
    expect_linear(victim, measured, what);
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
    expect_linear_frames(victim, "REFUSE", [](uint32_t i) {
        return wire::Refuse{static_cast<uint16_t>(i), 1, wire::RefuseReason::Hash};
    });
    expect_linear_frames(victim, "GENERATION", [](uint32_t i) {
        wire::Generation generation;
        generation.slot = static_cast<uint16_t>(i + 1);
        generation.generation = 1;
        generation.oldest = 1;
        return generation;
    });
    expect_linear_frames(victim, "CLOSE", [](uint32_t /*i*/) { return wire::Close{}; });
}

// Each names a datagram that never was, so far above the one before that nothing near is known.
TEST(FrameCost, ACopyCostsFewLooksWhateverItNames) {
    Victim victim(Role::Snapt);
    constexpr uint32_t kStep = 5000;
    const auto measured = cost_of(victim, [](uint32_t round) {
        std::vector<uint8_t> body(kBodyBytes);
        base::ByteWriter writer(body);
        wire::Copy{{TrafficClass::LtLd, 1, 0}, round * kStep}.serialize(writer);
        wire::Pad{writer.room()}.serialize(writer);
        return body;
    });
    expect_linear(victim, measured, "COPY and padding");
    EXPECT_EQ(victim.session().counters().copies_dropped, 0U);
}

// --- Moves

// A SNAPT with datagrams under way to a node on two paths that acknowledges nothing.
class TwoPaths {
  public:
    explicit TwoPaths(size_t datagrams) {
        for (const uint8_t path : {uint8_t{0}, uint8_t{1}}) {
            for (const TrafficClass any : base::kAllTrafficClasses) {
                victim.receive_body({any, path, 0}, {});
                victim.session().paths().path(path).snapt().trust(any);
            }
        }
        const std::vector<uint8_t> open{0x40, 0x3F, 0x01, 0x05, 0xC6, 0x33, 0x64, 0x07, 0x9C, 0x40,
                                        0x00, 0x35, 0x01, 0x00, 0x40, 0x00, 0x01, 0x10, 0x00};
        victim.receive_body(kBulk, open);
        send_unacknowledged(victim, datagrams);
    }
    // The cost of datagrams that move the node to the other path, each with `frames` announcements.
    Measured cost_of_moves(uint32_t frames, uint32_t datagrams) {
        Measured least;
        for (uint32_t i = 0; i < datagrams; ++i) {
            active_ = active_ == 0 ? 1 : 0;
            const auto body = filled_with([&](base::ByteWriter& writer, uint32_t frame) {
                wire::Announce announce;
                announce.path = active_;
                announce.active = true;
                announce.number = ++number_;
                announce.serialize(writer);
                return frame < frames;
            });
            measure(victim, {TrafficClass::LtLd, active_, 0}, body, least);
        }
        return least;
    }

    Victim victim{Role::Snapt};

  private:
    uint8_t active_ = 0;
    uint16_t number_ = 0;
};

// While they are followed, each looks for what is under way; beyond that only the path changes.
TEST(FrameCost, MovesAreFollowedOnceADatagramAndNotWithoutEnd) {
    constexpr size_t kUnderWay = 3500;
    constexpr auto kBurst = static_cast<uint32_t>(session::RepeatLimit::kBurst);
    for (const uint32_t frames : {1U, 60U}) {
        TwoPaths moving(kUnderWay);
        const uint64_t before = moving.victim.path_changes;
        const auto followed = moving.cost_of_moves(frames, kBurst - 1);
        EXPECT_EQ(moving.victim.path_changes - before, kBurst - 1);
        record_cost(followed, 1, std::to_string(frames) + " ANNOUNCE followed, all of them");
        // It is paid for eight times, and twice a second.
        EXPECT_LE(followed.cost, cost_of_padding(moving.victim, kBodyBytes).cost * kMostTimes);
        static_cast<void>(moving.cost_of_moves(frames, 2));
        const auto beyond = moving.cost_of_moves(frames, kRounds);
        expect_linear(moving.victim, beyond,
                      frames == 1 ? "one ANNOUNCE beyond" : "ANNOUNCE beyond");
        EXPECT_EQ(moving.victim.path_changes - before, kBurst);
        EXPECT_GE(moving.victim.session().counters().handovers, kBurst + 1 + kRounds);
    }
}

// Each move but the first left some of what was under way repeated on the path that was left: every
// log holds a share of it, as runs of one datagram.
class RepeatedOnAllPaths {
  public:
    static constexpr uint32_t kUnderWay = 3500;
    static constexpr uint8_t kOthers = 14;  // all but the first one and TCP

    RepeatedOnAllPaths() : moved_(kUnderWay) {
        recovery::SentRun run;
        run.space = {kEpoch, wire::space_number(kBulk)};
        run.count = 1;
        run.has_packets = true;
        for (run.first = 0; run.first < kUnderWay; ++run.first) {
            run.bytes = run.last_bytes = static_cast<uint16_t>(1000 + run.first);
            paths().logs().on_sent_again(run, path_of(run.first), moved_.victim.now);
        }
        for (uint8_t path = 1; path <= kOthers; ++path) {
            acknowledge_newest(path);
        }
    }
    Victim& victim() { return moved_.victim; }
    routing::PathSet& paths() { return moved_.victim.session().paths(); }
    uint32_t repeated() {
        uint32_t count = 0;
        for (uint32_t number = 0; number < kUnderWay; ++number) {
            count +=
                paths().logs().is_repeated(kEpoch, wire::space_number(kBulk), number) ? 1U : 0U;
        }
        return count;
    }

  private:
    static constexpr uint32_t kEpoch = 1;
    // So losses are looked for in the whole log.
    void acknowledge_newest(uint8_t path) {
        const Acknowledged told{paths(), kEpoch, {TrafficClass::LtHd, path, 0}};
        told.send(0, 1, 1000, moved_.victim.now);
        told.acknowledge(0, 0, moved_.victim.now);
    }
    static uint8_t path_of(uint32_t number) {
        return static_cast<uint8_t>(1 + number / 2 % kOthers);
    }
    TwoPaths moved_;
};

TEST(FrameCost, RangesOfWhatIsRepeatedOnAllPathsCostFewStepsOnEach) {
    RepeatedOnAllPaths repeated;
    ASSERT_EQ(repeated.repeated(), RepeatedOnAllPaths::kUnderWay);
    constexpr uint32_t kNamed = 1100;
    const auto singles = cost_of(
        repeated.victim(),
        [](uint32_t round) {
            return acks_of_single_numbers(RepeatedOnAllPaths::kUnderWay - 1 - round * kNamed);
        },
        2);
    EXPECT_EQ(repeated.repeated(), RepeatedOnAllPaths::kUnderWay - 2 * 510);
    expect_linear(repeated.victim(), singles, "ranges, repeated on all paths", kMostTimesNamed);
}

// Losses are looked for on each path of which a datagram names something.
TEST(FrameCost, AFrameThatNamesRepeatsOfAllPathsLooksForLossesOnceOnEach) {
    RepeatedOnAllPaths repeated;
    constexpr uint32_t kAll = 2 * RepeatedOnAllPaths::kOthers;
    const auto one_range = [](uint32_t highest) {
        std::vector<uint8_t> body(64);
        base::ByteWriter writer(body);
        const std::array<wire::AckRange, 1> range{
            {{highest - kAll + 1, highest, wire::AckKind::Applied}}};
        EXPECT_EQ(wire::write_ack(writer, ack_of(highest), range), 1U);
        body.resize(writer.size());
        return body;
    };
    const auto measured = cost_of(repeated.victim(), [&](uint32_t round) {
        return one_range(RepeatedOnAllPaths::kUnderWay - 1 - round * kAll);
    });
    EXPECT_EQ(repeated.repeated(), RepeatedOnAllPaths::kUnderWay - kRounds * kAll);
    expect_linear(repeated.victim(), measured, "a frame that names repeats of all paths");
}

// --- Bounds

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

// Void and good bodies in turn: each number is a range of its own.
void receive_ranges(Victim& victim, const wire::Space& space, size_t ranges) {
    const std::array<uint8_t, 1> not_assigned{0xC0};
    for (size_t i = 0; i < ranges; ++i) {
        victim.receive_body(space, base::ByteView(not_assigned).first(i % 2));
    }
}

// The classes of one path have more to tell than fits beside a packet, and wait for another
// datagram. Those of another path need not wait with them.
TEST(FrameBounds, AcksThatDoNotFitTakeNoRoomFromOthers) {
    Victim victim(Role::Snapt);
    const std::vector<uint8_t> open{0x40, 0x3F, 0x01, 0x05, 0xC6, 0x33, 0x64, 0x07, 0x9C, 0x40,
                                    0x00, 0x35, 0x01, 0x00, 0x40, 0x00, 0x01, 0x10, 0x00};
    constexpr wire::Space kOther{TrafficClass::HtHd, 1, 0};
    victim.receive_body(kBulk, open);
    for (const TrafficClass any : base::kAllTrafficClasses) {
        victim.receive_body({any, 0, 0}, {});
        victim.session().paths().path(0).snapt().trust(any);
    }
    victim.receive_body(kOther, {});
    for (size_t i = 0; i < 50; ++i) {
        victim.drain();  // challenges
        victim.advance(base::milliseconds(100));
    }
    for (const TrafficClass any : {TrafficClass::HtHd, TrafficClass::HtLd, TrafficClass::LtHd}) {
        receive_ranges(victim, {any, 0, 0}, 170);
    }
    receive_ranges(victim, kOther, 180);
    const uint64_t before = victim.session().counters().acks_sent;
    victim.send_packet(0, 600);
    victim.drain();
    EXPECT_EQ(victim.session().counters().acks_sent - before, 1U) << "that of the other path";
}

// Whichever way it came: over TCP a path has the same size.
TEST(FrameBounds, ADatagramThatNoPathTakesIsDroppedUnopened) {
    for (const uint8_t path : {uint8_t{0}, wire::kTcpPath}) {
        for (const size_t outer : {kMaxOuterBytes, kMaxOuterBytes + 1}) {
            Victim victim(Role::Snapt);
            if (path == wire::kTcpPath) {
                victim.arrived_on = path;
            }
            std::vector<uint8_t> body(outer - 28 - wire::kLongHeaderBytes - wire::kFullTagBytes);
            body[0] = 0x80;
            victim.receive_body({TrafficClass::HtHd, path, 0}, body);
            const bool is_too_long = outer > kMaxOuterBytes;
            EXPECT_EQ(victim.session().counters().datagrams_received, is_too_long ? 0U : 1U)
                << int{path};
            EXPECT_EQ(victim.session().drops().count(base::DropReason::DatagramTooLong),
                      is_too_long ? 1U : 0U)
                << int{path};
        }
    }
}

}  // namespace
}  // namespace continuo::tests
