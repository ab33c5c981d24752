#include "common/session/retransmitter.hpp"
#include "tests/unit/session/path_set_fixture.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::milliseconds;
using base::TimePoint;
using base::TrafficClass;

std::unique_ptr<EpochState> epoch_numbered(uint32_t number, elision::DecodeScratch& scratch) {
    return std::make_unique<EpochState>(number, packet::NodeSide::Destination,
                                        packet::NodeSide::Source, scratch, nullptr);
}

// A SNAPT that has sealed datagrams for a node whose round trip is 30 ms.
class RetransmitterTest : public testing::Test {
  protected:
    RetransmitterTest() {
        snapt_.prove(0, path_tests::kHome);
        epochs_.install(epoch_numbered(1, scratch_));
        epochs_.on_heard(*epochs_.current(), base::kNever);
        now_ = snapt_.now + base::seconds(1);
    }
    static wire::Space space() { return path_tests::space(0, TrafficClass::LtHd); }
    SentEntry entry(uint64_t sequence) const {
        SentEntry entry;
        entry.left_at = now_;
        entry.sent_at = now_;
        entry.first_sequence = sequence;
        entry.epoch = epochs_.current()->number;
        entry.space = wire::space_number(space());
        entry.original = {sequence, entry.epoch, entry.space};
        entry.traffic_class = TrafficClass::LtHd;
        return entry;
    }
    void seal(uint64_t datagrams, size_t bytes = 1000) {
        for (uint64_t i = 0; i < datagrams; ++i) {
            const std::vector<uint8_t> datagram(bytes, static_cast<uint8_t>(i));
            retransmitter_.remember(entry(i), datagram, now_);
        }
    }
    // One run of datagrams, which the path has logged.
    void seal_run(uint8_t datagrams, uint8_t first = 0) {
        constexpr uint16_t kBytes = 1000;
        path::SentRun run;
        run.first = first;
        run.space = {epochs_.current()->number, wire::space_number(space())};
        run.count = datagrams;
        run.bytes = run.last_bytes = kBytes;
        run.has_packets = true;
        snapt_.paths.on_numbered(run, now_);
        std::vector<uint8_t> bytes;
        for (uint8_t i = 0; i < datagrams; ++i) {
            bytes.insert(bytes.end(), kBytes, static_cast<uint8_t>(first + i));
        }
        SentEntry sealed = entry(first);
        sealed.datagrams = datagrams;
        sealed.segment_bytes = kBytes;
        retransmitter_.remember(sealed, bytes, now_);
    }
    void acknowledge(uint32_t first, uint32_t last) {
        wire::Ack ack;
        ack.space = space();
        ack.highest = last;
        const uint32_t epoch = epochs_.current()->number;
        snapt_.paths.on_ack_range(epoch, ack, {first, last, wire::AckKind::Applied}, 0);
        snapt_.paths.on_acks_read(now_);
        auto& highest = epochs_.current()
                            ->send_spaces[space_slot(wire::space_number(space()))]
                            .highest_acknowledged;
        highest = std::max<uint64_t>(highest.value_or(0), last);
    }
    std::vector<uint64_t> repeat_all(base::Duration span) {
        std::vector<uint64_t> sequences;
        for (const TimePoint end = now_ + span; now_ <= end; now_ += milliseconds(1)) {
            while (const auto repeat = retransmitter_.next_repeat(now_)) {
                const uint64_t first = repeat->entry->first_sequence + repeat->entry->repeated;
                for (uint64_t i = 0; i < repeat->datagrams; ++i) {
                    EXPECT_EQ(repeat->bytes[i * repeat->datagram_bytes],
                              static_cast<uint8_t>(first + i));
                    sequences.push_back(first + i);
                }
                retransmitter_.on_repeated(*repeat, now_);
            }
        }
        return sequences;
    }
    SentEntry* next_kept() {
        return retransmitter_.next_kept([this](uint32_t) { return &flow_; }, now_);
    }
    void keep(uint64_t sequence) {
        flow_.traffic_class = TrafficClass::LtHd;
        SentEntry kept = entry(sequence);
        kept.flow_index = 7;
        retransmitter_.keep(kept, std::vector<uint8_t>(100, 1));
        retransmitter_.on_left(mask_of(0), TimePoint{}, now_);
    }

    path_tests::Snapt snapt_;
    elision::DecodeScratch scratch_;
    Epochs epochs_{Role::Snapt};
    Retransmitter retransmitter_{Role::Snapt, snapt_.paths, epochs_, nullptr};
    flow::Flow flow_;
    TimePoint now_;
};

TEST_F(RetransmitterTest, NothingIsRepeatedBeforeTheNodeMoves) {
    seal(5);
    EXPECT_FALSE(retransmitter_.has_repeats());
    EXPECT_FALSE(retransmitter_.next_repeat(now_));
}

TEST_F(RetransmitterTest, WhatNoAcknowledgementHasPassedIsRepeatedOnce) {
    seal(5);
    epochs_.current()->send_spaces[space_slot(wire::space_number(space()))].highest_acknowledged =
        1;
    retransmitter_.on_moved(0, kAllPaths, now_);
    EXPECT_EQ(repeat_all({}), (std::vector<uint64_t>{2, 3, 4}));
    EXPECT_FALSE(retransmitter_.has_repeats());
}

// The number 1 of five is lost, and the path falls silent before anything repairs it.
TEST_F(RetransmitterTest, AGapOfTheLastRoundTripsIsRepeatedToo) {
    seal_run(5);
    now_ += milliseconds(20);
    acknowledge(0, 0);
    acknowledge(2, 3);
    retransmitter_.on_moved(0, kAllPaths, now_);
    EXPECT_EQ(repeat_all({}), (std::vector<uint64_t>{1, 4}));
    EXPECT_FALSE(retransmitter_.has_repeats());
}

TEST_F(RetransmitterTest, WhatCameMeanwhileIsNotRepeated) {
    seal_run(5);
    acknowledge(2, 3);
    retransmitter_.on_moved(0, kAllPaths, now_);
    acknowledge(0, 0);
    acknowledge(4, 4);
    EXPECT_EQ(repeat_all({}), (std::vector<uint64_t>{1}));
}

TEST_F(RetransmitterTest, AnOldGapIsLeftToTheSender) {
    seal_run(5);
    now_ += milliseconds(90);  // three round trips
    seal_run(3, 5);
    acknowledge(0, 0);
    acknowledge(2, 5);
    seal_run(1, 8);
    retransmitter_.on_moved(0, kAllPaths, now_);
    EXPECT_EQ(repeat_all({}), (std::vector<uint64_t>{6, 7, 8}));
}

// In a silence time does not make a gap old: what left last is as old.
TEST_F(RetransmitterTest, AGapBeforeALongSilenceIsRepeated) {
    seal_run(5);
    acknowledge(0, 0);
    now_ += base::seconds(5);
    seal_run(1, 5);
    acknowledge(2, 3);
    retransmitter_.on_moved(0, kAllPaths, now_);
    EXPECT_EQ(repeat_all({}), (std::vector<uint64_t>{1, 4, 5}));
}

// Repeats may be lost in their turn: they leave once more when nothing more comes.
TEST_F(RetransmitterTest, WhatIsLostAgainIsRepeatedWhenNoMoreOfItComes) {
    for (uint8_t number = 0; number < 6; ++number) {
        seal_run(1, number);
    }
    retransmitter_.on_moved(0, kAllPaths, now_);
    EXPECT_EQ(repeat_all({}).size(), 6U);
    const base::Duration patience = retransmitter_.next_at() - now_;
    const auto comes = [&](uint32_t first, uint32_t last) {
        acknowledge(first, last);
        retransmitter_.on_acks_read(now_);
    };
    comes(0, 1);
    EXPECT_EQ(repeat_all(patience - milliseconds(2)), (std::vector<uint64_t>{}));
    comes(3, 3);
    EXPECT_EQ(repeat_all(patience - milliseconds(2)), (std::vector<uint64_t>{}));
    EXPECT_EQ(repeat_all(patience), (std::vector<uint64_t>{2, 4, 5}));
    comes(2, 5);
    EXPECT_EQ(retransmitter_.next_at(), base::kNever);
    EXPECT_EQ(repeat_all(base::seconds(5)), (std::vector<uint64_t>{}));
}

TEST_F(RetransmitterTest, WhatLeftBeforeSomethingThatCameIsRepeatedAtOnce) {
    constexpr uint8_t kDatagrams = 40;  // more than leave at once
    for (uint8_t number = 0; number < kDatagrams; ++number) {
        seal_run(1, number);
    }
    retransmitter_.on_moved(0, kAllPaths, now_);
    EXPECT_EQ(repeat_all(milliseconds(100)).size(), kDatagrams);
    acknowledge(2, kDatagrams - 2);
    retransmitter_.on_acks_read(now_);
    EXPECT_EQ(repeat_all({}), (std::vector<uint64_t>{0, 1}));
}

TEST_F(RetransmitterTest, WhatNeverComesIsRepeatedThreeTimesMore) {
    seal_run(2);
    retransmitter_.on_moved(0, kAllPaths, now_);
    EXPECT_EQ(repeat_all(base::seconds(9)), (std::vector<uint64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
    EXPECT_EQ(retransmitter_.next_at(), base::kNever);
}

// A node sends packets, in their segments, as copies.
class NodeRetransmitterTest : public RetransmitterTest {
  protected:
    SentEntry super(uint64_t sequence) const {
        SentEntry super = entry(sequence);
        super.is_packet = true;
        super.flow_index = 7;
        super.datagrams = 3;
        super.segment_bytes = 1000;
        super.offload.gso = packet::GsoType::Tcp4;
        return super;
    }
    void remember(const SentEntry& entry) {
        node_.remember(entry, std::vector<uint8_t>(3040, 1), now_);
    }
    // Names of the copies, which leave by path 1 with numbers from `first` on, two of each.
    std::vector<uint64_t> repeated(uint64_t first) {
        std::vector<uint64_t> names;
        for (; node_.has_repeats(); now_ += milliseconds(1)) {
            if (const auto repeat = node_.next_repeat(now_)) {
                SentEntry original = *repeat->entry;
                original.original.sequence += original.repeated;
                names.push_back(original.original.sequence);
                node_.on_repeated(*repeat, now_);
                const uint16_t space = wire::space_number(path_tests::space(1, TrafficClass::LtHd));
                remember(original.copy_in(original.epoch, space, first, 2, now_));
                first += 2;
            }
        }
        return names;
    }
    void move(PathMask lost) { node_.on_moved(0, lost, now_); }

    Retransmitter node_{Role::Node, snapt_.paths, epochs_, nullptr};
};

TEST_F(NodeRetransmitterTest, PacketsAreRepeatedSegmentBySegmentAndTheirCopiesInTheirPlace) {
    remember(super(0));
    const std::vector<uint64_t> all{0, 1, 2};
    move(mask_of(1));
    EXPECT_FALSE(node_.has_repeats()) << "it left by another path";
    move(mask_of(0));
    EXPECT_EQ(repeated(40), all);
    move(mask_of(0));
    EXPECT_FALSE(node_.has_repeats()) << "the copies are under way by path 1";
    epochs_.current()
        ->send_spaces[space_slot(wire::space_number(path_tests::space(1, TrafficClass::LtHd)))]
        .highest_acknowledged = 41;
    move(mask_of(1));
    EXPECT_EQ(repeated(50), (std::vector<uint64_t>{1, 2})) << "by the name of the original";
}

// Its segments have entries of their own: it is no proof that something came.
TEST_F(NodeRetransmitterTest, AnOriginalThatLeftAsCopiesTellsNothingOfThem) {
    remember(super(0));
    move(mask_of(0));
    EXPECT_EQ(repeated(40).size(), 3U);
    now_ += milliseconds(40);
    node_.on_acks_read(now_);
    EXPECT_FALSE(node_.has_repeats());
    now_ = node_.next_at();
    EXPECT_TRUE(node_.next_repeat(now_)) << "nothing came";
}

TEST_F(NodeRetransmitterTest, WhatHasNoFlowIsNeverTakenForASealedDatagram) {
    remember(super(0));
    move(mask_of(0));
    EXPECT_TRUE(node_.has_repeats());
    node_.forget_flow(7);
    move(mask_of(0));
    EXPECT_FALSE(node_.next_repeat(now_ + base::seconds(1)));
}

TEST_F(RetransmitterTest, BeyondTheInitialWindowItLeavesOverARoundTrip) {
    seal(100);
    retransmitter_.on_moved(0, kAllPaths, now_);
    const size_t at_once = repeat_all({}).size();
    EXPECT_GE(at_once, 14U);  // 14 720 bytes
    EXPECT_LE(at_once, 26U);  // and a burst of 2 ms of 24
    EXPECT_LE(at_once + repeat_all(milliseconds(10)).size(), 75U);
    repeat_all(milliseconds(20));
    EXPECT_FALSE(retransmitter_.has_repeats());
}

TEST_F(RetransmitterTest, WhatCanNotBeOpenedAnyMoreIsNotRepeated) {
    seal(5);
    epochs_.install(epoch_numbered(5, scratch_));
    retransmitter_.on_moved(0, kAllPaths, now_);
    EXPECT_FALSE(retransmitter_.next_repeat(now_));
}

TEST_F(RetransmitterTest, AKeptPacketIsCopiedOnceToAnotherPath) {
    keep(3);
    SentEntry* const entry = next_kept();
    ASSERT_NE(entry, nullptr);
    Destination to;
    to.path = 0;
    EXPECT_FALSE(retransmitter_.may_copy_to(*entry, to)) << "its original may arrive there";
    to.path = 1;
    EXPECT_TRUE(retransmitter_.may_copy_to(*entry, to));
    retransmitter_.on_copied(*entry, true);
    EXPECT_EQ(next_kept(), nullptr);
    now_ += kRepeatableFor;
    retransmitter_.on_left(mask_of(0), TimePoint{}, now_);
    EXPECT_EQ(next_kept(), nullptr) << "too old";
}

TEST_F(RetransmitterTest, PacketsOfAnotherClassThanTheirFlowsAreNotCopied) {
    keep(3);
    flow_.traffic_class = TrafficClass::HtHd;
    EXPECT_EQ(next_kept(), nullptr);
}

TEST_F(RetransmitterTest, PacketsOutliveTheNextEpochButNotTheirNumbersGivenAnew) {
    keep(3);
    retransmitter_.on_epoch(2);
    epochs_.install(epoch_numbered(2, scratch_));
    EXPECT_NE(next_kept(), nullptr);
    epochs_.on_heard(*epochs_.current(), now_ + base::seconds(10));
    retransmitter_.on_epoch(2);
    EXPECT_EQ(next_kept(), nullptr) << "another datagram has that number now";
}

TEST_F(RetransmitterTest, WhatNoKeysWereHeardForGoesAsNewOnce) {
    retransmitter_.on_epoch(2);
    epochs_.install(epoch_numbered(2, scratch_));
    keep(3);
    retransmitter_.on_epoch(2);
    epochs_.install(epoch_numbered(2, scratch_));
    SentEntry* const entry = next_kept();
    ASSERT_NE(entry, nullptr);
    EXPECT_TRUE(entry->is_unnamed);
    retransmitter_.on_copied(*entry, true);
    retransmitter_.on_left(mask_of(0), TimePoint{}, now_);
    EXPECT_EQ(next_kept(), nullptr) << "the peer could not tell that it came twice";
}

TEST(Epochs, TheOneBeforeLivesUntilItsTimeIsOver) {
    elision::DecodeScratch scratch;
    Epochs epochs(Role::Snapt);
    EXPECT_TRUE(epochs.may_grant(1));
    epochs.install(epoch_numbered(1, scratch));
    EXPECT_TRUE(epochs.may_grant(1)) << "it was never heard";
    epochs.on_heard(*epochs.current(), base::kNever);
    EXPECT_FALSE(epochs.may_grant(1));
    EXPECT_TRUE(epochs.may_grant(2));
    EXPECT_FALSE(epochs.may_grant(3));
    epochs.install(epoch_numbered(2, scratch));
    EXPECT_EQ(epochs.sending()->number, 1U) << "SNAPT waits until the node is heard in it";
    const TimePoint end{base::seconds(20)};
    epochs.on_heard(*epochs.current(), end);
    EXPECT_EQ(epochs.sending()->number, 2U);
    EXPECT_EQ(epochs.of_header(1)->number, 1U);
    EXPECT_FALSE(epochs.is_newest_heard(*epochs.previous()));
    epochs.retire(end - milliseconds(1));
    EXPECT_NE(epochs.numbered(1), nullptr);
    epochs.retire(end);
    EXPECT_EQ(epochs.numbered(1), nullptr);
}

TEST(Epochs, ANodeSendsInTheNewestAtOnceAndAStrangeNumberEndsTheOthers) {
    elision::DecodeScratch scratch;
    Epochs epochs(Role::Node);
    epochs.install(epoch_numbered(1, scratch));
    epochs.install(epoch_numbered(2, scratch));
    EXPECT_EQ(epochs.sending()->number, 2U);
    EXPECT_NE(epochs.previous(), nullptr);
    epochs.install(epoch_numbered(9, scratch));
    EXPECT_EQ(epochs.previous(), nullptr);
}

}  // namespace
}  // namespace continuo::session
