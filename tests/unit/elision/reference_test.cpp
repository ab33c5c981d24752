// Rules of docs/PROTOCOL.md section 6.5 at the sender.
#include "tests/unit/elision/elision_link.hpp"

namespace continuo::elision {
namespace {

using base::milliseconds;

constexpr Duration kSkew = milliseconds(300);

// UDP packets whose identifiers are far apart want a SET each.
HeaderFields far(unsigned step) {
    HeaderFields fields = udp4();
    fields.ip_id = static_cast<uint16_t>(fields.ip_id + 1000 * step);
    return fields;
}

bool is_open_entry(const std::string& header) {
    return header.substr(0, 2) == "3F";
}
bool has_set(const std::string& header) {
    return is_open_entry(header) ? (from_hex(header)[1] & 0x02) != 0
                                 : header[0] >= '8' && (from_hex(header)[1] & 0x80) != 0;
}

TEST(References, FirstEntriesAreOpensUntilOneWithSetIsAcknowledged) {
    ElisionLink link;
    link.encoder.add_flow(3, {});
    EXPECT_FALSE(link.encoder.is_opening(3));
    EXPECT_TRUE(has_set(link.lose(3, udp4())));
    EXPECT_TRUE(link.encoder.is_opening(3));
    const std::string second = link.lose(3, udp4());
    EXPECT_TRUE(is_open_entry(second));
    EXPECT_FALSE(has_set(second));
    // The acknowledgement of an OPEN without SET changes nothing.
    EXPECT_TRUE(link.encoder.on_acknowledged(link.space, 1, 1, link.now));
    EXPECT_TRUE(is_open_entry(link.lose(3, udp4())));
    EXPECT_TRUE(link.encoder.on_acknowledged(link.space, 0, 0, link.now));
    EXPECT_FALSE(is_open_entry(link.lose(3, udp4())));
}

TEST(References, OneSetIsPendingAtATime) {
    ElisionLink link;
    link.open(3, udp4());
    EXPECT_TRUE(has_set(link.lose(3, far(1))));
    EXPECT_FALSE(has_set(link.lose(3, far(2))));
    link.encoder.on_acknowledged(link.space, 1, 1, link.now);
    const std::string third = link.lose(3, far(3));
    EXPECT_EQ(third.substr(0, 1), "C");  // reference 1 is current
}

TEST(References, AreNotSetWhileADatagramInFlightUsesThem) {
    ElisionLink link;
    link.open(3, udp4());
    link.lose(3, udp4());  // 1 uses reference 0
    link.send(3, far(1));  // 2 sets reference 1
    EXPECT_FALSE(has_set(link.lose(3, far(2))));
    link.encoder.on_acknowledged(link.space, 1, 1, link.now);
    EXPECT_TRUE(has_set(link.lose(3, far(3))));
}

TEST(References, DieOnlyByAnAcknowledgementOfADatagramSentASkewLater) {
    ElisionLink link;
    link.open(3, udp4());
    link.lose(3, udp4());  // 1 uses reference 0
    link.send(3, far(1));  // 2 sets reference 1
    link.now += kSkew - milliseconds(4);
    link.send(3, far(1));
    EXPECT_EQ(link.encoder.dead_datagrams(), 0U);
    link.now += milliseconds(10);
    EXPECT_EQ(link.encoder.dead_datagrams(), 0U);
    link.send(3, far(1));
    EXPECT_EQ(link.encoder.dead_datagrams(), 1U);
}

// It is sent again after what was sent later has come.
TEST(References, DoNotDieWhileTheirDatagramsMayBeSentAgain) {
    ElisionLink link;
    link.open(3, udp4());
    const base::TimePoint lost_at = link.now;
    link.lose(3, udp4());
    link.now += 2 * kSkew;
    link.encoder.spare(link.now + milliseconds(50));
    link.send(3, far(1));
    link.now += milliseconds(40);
    link.send(3, far(1));
    EXPECT_EQ(link.encoder.dead_datagrams(), 0U);
    EXPECT_FALSE(link.encoder.has_given_up(lost_at, link.now));
    link.now += milliseconds(20);
    EXPECT_TRUE(link.encoder.has_given_up(lost_at, link.now));
    EXPECT_FALSE(link.encoder.has_given_up(link.now, link.now));
    link.send(3, far(1));
    EXPECT_EQ(link.encoder.dead_datagrams(), 1U);
}

TEST(References, WithADeadUserAreOverwrittenOnlyWithItsFloor) {
    ElisionLink link;
    link.open(3, udp4());
    link.lose(3, udp4());  // 1
    link.send(3, far(1));  // 2
    link.now += kSkew;
    link.send(3, far(1));  // 3: 1 is dead
    EXPECT_FALSE(link.encoder.wants_floor());
    EXPECT_FALSE(has_set(link.send(3, far(2))));  // 4
    EXPECT_TRUE(link.encoder.wants_floor());
    link.encoder.begin_datagram(link.space, link.next, link.now);
    ASSERT_EQ(link.encoder.floors().size(), 1U);
    EXPECT_EQ(link.encoder.floors()[0], (Floor{link.space, 2}));
    link.encoder.abort_datagram();
    EXPECT_TRUE(link.encoder.wants_floor());
    EXPECT_TRUE(has_set(link.send(3, far(2))));  // 5
    EXPECT_FALSE(link.encoder.wants_floor());
    // The late datagram is refused.
    link.decoder.begin(link.space, 1);
    EXPECT_TRUE(link.decoder.is_below_floor());
    link.decoder.begin(link.space, 2);
    EXPECT_FALSE(link.decoder.is_below_floor());
}

// Else the FLOOR would count as acknowledged, and a late datagram be read with a newer reference.
TEST(References, ARetryTakesNoFloorThatWasNotWritten) {
    ElisionLink link;
    link.open(3, udp4());
    link.lose(3, udp4());  // 1
    link.send(3, far(1));  // 2
    link.now += kSkew;
    link.send(3, far(1));  // 3: 1 is dead
    Bytes section(100);
    ByteWriter writer(section);
    link.encoder.begin_datagram(link.space, link.next, link.now);
    ASSERT_TRUE(link.encoder.floors().empty());
    ASSERT_TRUE(link.encoder.append(3, far(2), {}, Extent::Counted, writer));
    ASSERT_TRUE(link.encoder.wants_floor());
    link.encoder.retry_datagram();
    EXPECT_TRUE(link.encoder.floors().empty());
    writer.rewind(0);
    ASSERT_TRUE(link.encoder.append(3, far(2), {}, Extent::Counted, writer));
    link.encoder.end_datagram();
    link.encoder.on_acknowledged(link.space, link.next, link.next, link.now);
    ++link.next;
    // The next one has it.
    link.encoder.begin_datagram(link.space, link.next, link.now);
    ASSERT_EQ(link.encoder.floors().size(), 1U);
    EXPECT_EQ(link.encoder.floors()[0], (Floor{link.space, 2}));
    link.encoder.retry_datagram();
    EXPECT_EQ(link.encoder.floors().size(), 1U);
    writer.rewind(0);
    ASSERT_TRUE(link.encoder.append(3, far(2), {}, Extent::Counted, writer));
    EXPECT_TRUE(link.encoder.end_datagram().has_set);
}

TEST(References, NeedNoFloorThatIsAcknowledged) {
    ElisionLink link;
    link.open(3, udp4());
    link.open(4, udp4());
    link.lose(3, udp4());
    link.send(3, far(1));
    link.now += kSkew;
    link.send(3, far(1));
    link.send(3, far(2));  // wants a FLOOR
    link.send(4, udp4());  // carries it, and is acknowledged
    EXPECT_FALSE(link.encoder.wants_floor());
    link.encoder.begin_datagram(link.space, link.next, link.now);
    EXPECT_TRUE(link.encoder.floors().empty());
    link.encoder.abort_datagram();
    EXPECT_TRUE(has_set(link.send(3, far(2))));
}

TEST(References, ADatagramWithFloorsIsAcknowledgedThoughItHasNoEntries) {
    ElisionLink link;
    link.open(3, udp4());
    link.lose(3, udp4());
    link.send(3, far(1));
    link.now += kSkew;
    link.send(3, far(1));
    link.send(3, far(2));
    link.encoder.begin_datagram(link.space, link.next++, link.now);
    EXPECT_EQ(link.encoder.floors().size(), 1U);
    EXPECT_TRUE(link.encoder.end_datagram().is_stateful);
    EXPECT_FALSE(has_set(link.send(3, far(2))));  // and none is sent twice
    EXPECT_FALSE(link.encoder.wants_floor());
    link.encoder.on_acknowledged(link.space, link.next - 2, link.next - 2, link.now);
    EXPECT_TRUE(has_set(link.send(3, far(2))));
}

TEST(References, AnOpenThatWasLostIsSetAgain) {
    ElisionLink link;
    link.encoder.add_flow(3, {});
    EXPECT_TRUE(has_set(link.lose(3, udp4())));
    link.now += kSkew + milliseconds(1);
    EXPECT_FALSE(
        has_set(link.send(3, udp4())));  // its acknowledgement shows that the first is dead
    link.send(3, udp4());                // asks for the FLOOR
    EXPECT_TRUE(has_set(link.send(3, udp4())));
    EXPECT_EQ(link.send(3, udp4()), "0300");
}

TEST(References, AnIndexIsOpenedAgainOnlyWhenItsOldUsersAreSettled) {
    ElisionLink link;
    link.open(3, udp4());
    link.lose(3, udp4());  // 1
    link.encoder.remove_flow(3);
    EXPECT_FALSE(link.encoder.has_flow(3));
    link.encoder.add_flow(3, {});
    const std::string fresh = link.send(3, echo4());
    EXPECT_TRUE(is_open_entry(fresh));
    EXPECT_FALSE(has_set(fresh));
    link.encoder.on_acknowledged(link.space, 1, 1, link.now);
    EXPECT_TRUE(has_set(link.send(3, echo4())));
    EXPECT_FALSE(is_open_entry(link.send(3, echo4())));
}

TEST(References, ALateAcknowledgementOfAnOldFlowDoesNotOpenTheNewOne) {
    ElisionLink link;
    link.encoder.add_flow(3, {});
    link.lose(3, udp4());  // 0: OPEN with SET
    link.encoder.add_flow(3, {});
    link.encoder.on_acknowledged(link.space, 0, 0, link.now);
    EXPECT_FALSE(link.encoder.is_opening(3));
    EXPECT_TRUE(has_set(link.lose(3, echo4())));
}

TEST(References, CountedUsersHoldAnIndexBack) {
    for (const bool is_retried : {false, true}) {
        ElisionLink link;
        link.open(3, udp4());
        link.encoder.begin_datagram(link.space, link.next++, link.now);
        link.encoder.count_user(3);
        if (is_retried) {
            link.encoder.retry_datagram();
        }
        link.encoder.end_datagram();
        link.encoder.remove_flow(3);
        link.encoder.add_flow(3, {});
        EXPECT_FALSE(has_set(link.send(3, udp4())));
        link.encoder.on_acknowledged(link.space, 1, 1, link.now);
        EXPECT_TRUE(has_set(link.send(3, udp4())));
    }
}

TEST(References, FollowALastingChangeOfWhatIsStatic) {
    ElisionLink link;
    link.open(3, udp4());
    HeaderFields changed = udp4();
    changed.dont_fragment = false;
    EXPECT_FALSE(has_set(link.send(3, changed)));  // once may be chance
    EXPECT_EQ(link.send(3, udp4()), "0300");
    EXPECT_FALSE(has_set(link.send(3, changed)));
    EXPECT_TRUE(has_set(link.send(3, changed)));
    EXPECT_EQ(link.send(3, changed), "0300");
}

TEST(References, ForbiddenSettingsAreNotMade) {
    ElisionLink link;
    link.open(3, udp4());
    Bytes section(100);
    ByteWriter writer(section);
    link.encoder.begin_datagram(link.space, link.next, link.now, Setting::Forbidden);
    ASSERT_TRUE(link.encoder.append(3, far(1), {}, Extent::Counted, writer));
    EXPECT_FALSE(link.encoder.end_datagram(3).has_set);
    EXPECT_EQ(to_hex(writer.written()), "830413E8");
    // The reference is used until all three pieces are acknowledged.
    link.next += 3;
    link.send(3, far(2));
    link.encoder.on_acknowledged(link.space, 1, 2, link.now);
    EXPECT_FALSE(has_set(link.send(3, far(4))));
    link.encoder.on_acknowledged(link.space, 3, 3, link.now);
    EXPECT_TRUE(has_set(link.send(3, far(4))));
}

TEST(References, AbortUndoesWhatAppendDid) {
    ElisionLink link;
    link.encoder.add_flow(3, {});
    Bytes section(200);
    ByteWriter writer(section);
    link.encoder.begin_datagram(link.space, link.next, link.now);
    ASSERT_TRUE(link.encoder.append(3, udp4(), {}, Extent::Counted, writer));
    link.encoder.abort_datagram();
    EXPECT_FALSE(link.encoder.is_opening(3));
    EXPECT_EQ(link.encoder.records_in_flight(), 0U);
    EXPECT_TRUE(has_set(link.send(3, udp4())));
    EXPECT_TRUE(has_set(link.send(3, far(1))));
}

TEST(References, WhatDoesNotFitIsNotWritten) {
    ElisionLink link;
    link.encoder.add_flow(3, {});
    Bytes section(30);
    ByteWriter writer(section);
    link.encoder.begin_datagram(link.space, link.next, link.now);
    EXPECT_FALSE(link.encoder.append(3, udp4(), Bytes(20), Extent::Counted, writer));
    EXPECT_FALSE(link.encoder.append_whole(Bytes(28), writer));
    EXPECT_EQ(writer.size(), 0U);
    EXPECT_TRUE(writer.ok());
    EXPECT_TRUE(link.encoder.append(3, udp4(), Bytes(4), Extent::Counted, writer));
    EXPECT_EQ(link.encoder.end_datagram().entries, 1U);
}

TEST(Acknowledgements, OfNumbersNeverSentAreRefused) {
    ElisionLink link;
    link.open(3, udp4());
    EXPECT_FALSE(link.encoder.on_acknowledged(link.space, 0, 1, link.now));
    EXPECT_FALSE(link.encoder.on_acknowledged(link.space, 1, 0, link.now));
    EXPECT_FALSE(link.encoder.on_acknowledged(0x0100, 0, 0, link.now));
    EXPECT_FALSE(link.encoder.on_acknowledged(link.space, 0, UINT64_MAX, link.now));
    EXPECT_TRUE(link.encoder.on_acknowledged(link.space, 0, 0, link.now));  // again: harmless
}

TEST(Acknowledgements, ThatStayAwayMakeTheEncoderStateless) {
    ElisionLink link;
    link.open(3, udp4());
    bool was_stateless = false;
    for (int i = 0; i < 30; ++i) {
        link.now += milliseconds(100);
        was_stateless = is_open_entry(link.lose(3, udp4()));
    }
    EXPECT_TRUE(was_stateless);
    link.send(3, udp4());  // an OPEN is acknowledged
    EXPECT_EQ(link.send(3, udp4()), "0300");
}

TEST(Records, AreSharedByDatagramsOfOneFlow) {
    ElisionLink link;
    link.open(3, udp6());
    for (int i = 0; i < 10; ++i) {
        link.lose(3, udp6());
    }
    EXPECT_LE(link.encoder.records_in_flight(),
              4U);  // a millisecond apart, two milliseconds a record
    EXPECT_TRUE(link.encoder.on_acknowledged(link.space, 1, 10, link.now));
    EXPECT_EQ(link.encoder.records_in_flight(), 0U);
}

TEST(Records, AreBoundedAndThenNoReferenceIsUsed) {
    ElisionLink link;
    link.open(3, udp4());
    link.open(4, udp4());
    Bytes section(100);
    uint32_t opens = 0;
    for (size_t i = 0; i < kMaxRecords + 10; ++i) {
        ByteWriter writer(section);
        link.encoder.begin_datagram(link.space, link.next++, link.now);
        ASSERT_TRUE(link.encoder.append(3 + i % 2, udp4(), {}, Extent::Counted, writer));
        link.encoder.end_datagram();
        opens += writer.written()[0] == 0x3F ? 1U : 0U;
    }
    EXPECT_GT(opens, 0U);
    EXPECT_LE(link.encoder.records_in_flight(), kMaxRecords);
    EXPECT_GT(link.encoder.counters().unrecorded, 0U);
    link.encoder.on_acknowledged(link.space, 2, link.next - 1, link.now);
    EXPECT_EQ(link.encoder.records_in_flight(), 0U);
    EXPECT_EQ(link.send(3, udp4()), "0300");
}

// One datagram of each flow, in turn. Returns how many are coded against a reference.
size_t send_in_turn(Encoder& encoder, uint16_t space, uint64_t first, size_t count, TimePoint now) {
    Bytes section(100);
    size_t against_references = 0;
    for (size_t i = 0; i < count; ++i) {
        ByteWriter writer(section);
        encoder.begin_datagram(space, first + i, now);
        EXPECT_TRUE(encoder.append(3 + i % 2, udp4(), {}, Extent::Counted, writer));
        encoder.end_datagram();
        against_references += writer.written()[0] == 0x3F ? 0U : 1U;
    }
    return against_references;
}

constexpr uint16_t kSpace = 8;
constexpr size_t kLeastRecordBytes = 40;

// Opens its two flows.
void open_both(Encoder& encoder, TimePoint now) {
    for (const uint32_t index : {3U, 4U}) {
        ASSERT_TRUE(encoder.add_flow(index, {}));
    }
    send_in_turn(encoder, kSpace, 0, 2, now);
    ASSERT_TRUE(encoder.on_acknowledged(kSpace, 0, 1, now));
}

TEST(Records, OfAllEncodersTakeNoMoreThanTheirBudget) {
    constexpr size_t kLimit = 128 * 1024;
    constexpr size_t kDatagrams = 3000;
    base::MemoryBudget budget(kLimit);
    const TimePoint now{base::seconds(1)};
    {
        Encoder first(packet::NodeSide::Source, kMinimumSkew, &budget);
        Encoder second(packet::NodeSide::Source, kMinimumSkew, &budget);
        for (Encoder* encoder : {&first, &second}) {
            open_both(*encoder, now);
        }
        size_t referring = 0;
        for (Encoder* encoder : {&first, &second}) {
            referring += send_in_turn(*encoder, kSpace, 2, kDatagrams, now);
            EXPECT_GT(encoder->counters().unrecorded, 0U) << "headers go whole";
        }
        EXPECT_EQ(referring, first.records_in_flight() + second.records_in_flight());
        EXPECT_LE(budget.used_bytes(), kLimit);
        EXPECT_GE(budget.used_bytes(), referring * kLeastRecordBytes);
        EXPECT_GT(referring, kLimit / 128);
        EXPECT_TRUE(first.on_acknowledged(kSpace, 2, kDatagrams + 1, now));
        EXPECT_EQ(send_in_turn(second, kSpace, 2 + kDatagrams, 100, now), 100U)
            << "the memory is another's now";
    }
    EXPECT_EQ(budget.used_bytes(), 0U);
}

// A record of many uses, and many spaces in turn: none keeps what it once needed.
TEST(Records, GiveMemoryBackThatTheyDoNotNeed) {
    base::MemoryBudget budget(size_t{64} << 20);
    Encoder encoder(packet::NodeSide::Source, kMinimumSkew, &budget);
    TimePoint now{base::seconds(1)};
    open_both(encoder, now);
    constexpr size_t kDatagrams = 5000;
    size_t most = 0;
    for (uint16_t space = 16; space < 16 + 30; ++space) {
        EXPECT_EQ(send_in_turn(encoder, space, 0, kDatagrams, now), kDatagrams);
        most = std::max(most, budget.used_bytes());
        EXPECT_TRUE(encoder.on_acknowledged(space, 0, kDatagrams - 1, now));
    }
    EXPECT_GE(most, kDatagrams * kLeastRecordBytes);
    EXPECT_LE(most, 2 * kDatagrams * 64);
    EXPECT_LE(budget.used_bytes(), size_t{64} * 1024);
    Bytes section(2000);
    ByteWriter writer(section);
    for (uint32_t index = 100; index < 200; ++index) {
        ASSERT_TRUE(encoder.add_flow(index, {}));
    }
    encoder.begin_datagram(kSpace, 2, now);
    for (uint32_t index = 100; index < 200; ++index) {
        ASSERT_TRUE(encoder.append(index, udp4(), {}, Extent::Counted, writer));
    }
    EXPECT_TRUE(encoder.end_datagram().has_set);
    EXPECT_GE(budget.used_bytes(), 100 * sizeof(Use));
    EXPECT_TRUE(encoder.on_acknowledged(kSpace, 2, 2, now));
    now += base::seconds(20);
    encoder.on_time(now);
    EXPECT_EQ(budget.used_bytes(), 0U);
    EXPECT_EQ(budget.refusals(), 0U);
}

TEST(Records, OfManyFlowsInOneDatagramAreSettledTogether) {
    ElisionLink link;
    for (uint32_t index = 0; index < 40; ++index) {
        link.open(index, udp6());
    }
    Bytes section(1000);
    for (int i = 0; i < 3; ++i) {
        ByteWriter writer(section);
        link.encoder.begin_datagram(link.space, link.next++, link.now);
        for (uint32_t index = 0; index < 40; ++index) {
            ASSERT_TRUE(link.encoder.append(index, udp6(), {}, Extent::Counted, writer));
        }
        link.encoder.end_datagram();
        EXPECT_EQ(writer.size(), 40U);
    }
    EXPECT_EQ(link.encoder.records_in_flight(), 3U);
    link.encoder.on_acknowledged(link.space, 40, 42, link.now);
    for (uint32_t index = 0; index < 40; ++index) {
        HeaderFields fields = udp6();
        fields.tos = 2;
        EXPECT_TRUE(has_set(link.send(index, fields)));  // reference 1 is free
        fields.tos = 4;
        EXPECT_TRUE(has_set(link.send(index, fields)));  // reference 0 too
    }
}

TEST(Spaces, AboveTheLimitUseNoReferences) {
    ElisionLink link;
    link.open(3, udp4());
    for (size_t i = 0; i < kMaxSpaces + 2; ++i) {
        link.space = static_cast<uint16_t>(16 + i);
        link.lose(3, udp4());
    }
    EXPECT_TRUE(is_open_entry(link.lose(3, udp4())));
}

}  // namespace
}  // namespace continuo::elision
