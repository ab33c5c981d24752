// Datagrams made by the real code, with every bit flipped and cut to every length: each is dropped,
// counted once under its reason, and leaves the session unchanged.
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::DropReason;
using base::TrafficClass;

using Datagrams = std::vector<std::vector<uint8_t>>;

constexpr size_t kTagBytes = 16;
const base::Endpoint kElsewhere = *base::Endpoint::parse("192.0.2.66:666");

// All state of a session that a datagram could change.
struct State {
    explicit State(SessionEnd& end, base::TimePoint now) {
        const tunnel::Session& session = *end.session;
        const session::SessionCounters& counters = session.counters();
        numbers = {counters.datagrams_received,
                   counters.bytes_received,
                   counters.overhead_received(),
                   counters.acks_received,
                   counters.duplicates,
                   counters.handovers,
                   counters.lost_datagrams,
                   session.flows(),
                   session.queues().bytes(),
                   end.delivered.size(),
                   end.paths_changed.size(),
                   session.epochs().newest().value_or(0),
                   static_cast<uint64_t>(session.heard_at().time_since_epoch().count()),
                   static_cast<uint64_t>(session.next_deadline(now).time_since_epoch().count()),
                   session.paths().active().value_or(UINT8_MAX),
                   session.paths().announcement_number()};
        for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
            const path::Path& path = session.paths().path(index);
            numbers.push_back(static_cast<uint64_t>(path.state()));
            numbers.push_back(path.mtu());
            numbers.push_back(path.traffic().counters().received_datagrams);
            for (const path::Tuple& tuple : path.validation().tuples()) {
                numbers.push_back(tuple.unproven_received_bytes());
                remotes.push_back(tuple.remote());
            }
        }
    }
    bool operator==(const State&) const = default;

    std::vector<uint64_t> numbers;
    std::vector<base::Endpoint> remotes;
};

uint64_t total_drops(const SessionEnd& end) {
    uint64_t total = 0;
    for (size_t i = 0; i < base::kDropReasons; ++i) {
        total += end.session->drops().count(static_cast<DropReason>(i));
    }
    return total;
}

// Datagrams that `end` wants to send now. They are discarded.
Datagrams drained(SessionEnd& end, base::TimePoint now) {
    Datagrams datagrams;
    session::TransmitBatch batch;
    for (bool more = true; more;) {
        batch.clear();
        more = end.session->poll_transmit(batch, now);
        for (const session::TransmitItem& item : batch.items()) {
            const base::ByteView bytes = batch.bytes(item);
            const size_t step = item.segment_bytes == 0 ? bytes.size() : item.segment_bytes;
            for (size_t at = 0; at < bytes.size(); at += step) {
                const auto one = bytes.subspan(at, std::min(step, bytes.size() - at));
                datagrams.emplace_back(one.begin(), one.end());
            }
            tunnel::Session::on_sent(batch, item);
        }
    }
    return datagrams;
}

std::vector<uint8_t> udp_packet(const SessionEnd& end, size_t payload_bytes, bool is_text) {
    packet::HeaderFields fields;
    fields.source = *base::IpAddress::parse("192.0.0.5");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.source_port = 7000;
    fields.destination_port = 80;
    if (end.role == path::Role::Snapt) {
        std::swap(fields.source, fields.destination);
        std::swap(fields.source_port, fields.destination_port);
        fields.destination = *base::IpAddress::parse("100.64.0.2");
    }
    fields.protocol = packet::Protocol::Udp;
    fields.ttl = 64;
    std::vector<uint8_t> payload(payload_bytes);
    constexpr std::string_view kText = "what is said often takes few bytes; ";
    base::SeededRandom(payload_bytes).fill(payload);
    for (size_t i = 0; is_text && i < payload_bytes; ++i) {
        payload[i] = static_cast<uint8_t>(kText[i % kText.size()]);
    }
    return make_packet(fields, payload);
}

// A pair with some traffic behind it, and datagrams of `from` that its peer has not seen:
// announcements, single packets, aggregates, compressed text, pieces, acknowledgements, keepalives.
struct Recording {
    Recording(path::Role from_role, crypto::Protection protection)
        : pair({}, 1, protection)
        , from(from_role == path::Role::Node ? pair.node : pair.snapt)
        , to(from_role == path::Role::Node ? pair.snapt : pair.node) {
        packet::FiveTuple tuple;
        tuple.local = *base::IpAddress::parse("192.0.0.5");
        tuple.remote = *base::IpAddress::parse("198.51.100.2");
        tuple.local_port = 7000;
        tuple.remote_port = 80;
        tuple.protocol = packet::Protocol::Udp;
        flow::Flow& up = pair.node.flow(tuple, TrafficClass::HtHd);
        for (int i = 0; i < 3; ++i) {
            pair.node.send(up, udp_packet(pair.node, 30, false), {}, pair.now);
            pair.run_for(base::milliseconds(300));
        }
        flow::Flow& flow = from_role == path::Role::Node ? up : *pair.snapt.flows.begin()->second;
        for (const auto& [bytes, is_text] : std::vector<std::pair<size_t, bool>>{
                 {10, false}, {20, false}, {600, true}, {1472, false}}) {
            from.send(flow, udp_packet(from, bytes, is_text), {}, pair.now);
            take();
        }
        from.session->upkeep().request_keepalive(pair.now);
        take();
        if (from_role == path::Role::Node) {
            from.session->paths().node().announce_again(pair.now);
            take();
        }
    }
    void take() {
        pair.now += base::milliseconds(200);
        from.session->on_timeout(pair.now);
        for (auto& datagram : drained(from, pair.now)) {
            datagrams.push_back(std::move(datagram));
        }
    }
    void give(std::vector<uint8_t> datagram, const base::Endpoint& sender) const {
        session::ReceivedDatagram received{datagram, sender,
                                           base::IpAddress::any(base::IpVersion::V4)};
        to.session->on_datagrams(std::span(&received, 1), pair.now);
    }

    SessionPair pair;
    SessionEnd& from;
    SessionEnd& to;
    Datagrams datagrams;
};

struct Case {
    path::Role from;
    crypto::Protection protection;
};

const std::vector<Case> kCases = {
    {path::Role::Node, crypto::Protection::Aes256Gcm},
    {path::Role::Node, crypto::Protection::ChaCha20Poly1305},
    {path::Role::Node, crypto::Protection::HmacSha256},
    {path::Role::Snapt, crypto::Protection::Aes256Gcm},
};

// The first byte is version and epoch; a changed epoch or lane has no key here.
constexpr uint8_t kVersionBits = 0xF0;
constexpr uint8_t kEpochBits = 0x0C;
constexpr size_t kLaneByte = 1;
constexpr uint8_t kLaneBits = 0x07;

bool is_expected(DropReason reason, size_t byte, uint8_t bit) {
    if (byte == 0 && (bit & kVersionBits) != 0) {
        return reason == DropReason::TooShort || reason == DropReason::BadVersion;
    }
    if ((byte == 0 && (bit & kEpochBits) != 0) || (byte == kLaneByte && (bit & kLaneBits) != 0)) {
        return reason == DropReason::UnknownEpoch;
    }
    // The long form takes two bytes more for the header.
    return reason == DropReason::Unauthentic || (byte == 1 && reason == DropReason::TooShort);
}

// Passes a changed datagram in and expects one drop for one of the right reasons, and nothing else.
template <typename IsExpected>
bool leaves_no_trace(const Recording& recording,
                     const std::vector<uint8_t>& changed,
                     const IsExpected& expected) {
    SessionEnd& end = recording.to;
    const State before(end, recording.pair.now);
    const base::DropCounters drops = end.session->drops();
    const uint64_t total = total_drops(end);
    recording.give(changed, kElsewhere);
    bool is_right = false;
    for (size_t i = 0; i < base::kDropReasons; ++i) {
        const auto reason = static_cast<DropReason>(i);
        is_right = is_right || (end.session->drops().count(reason) == drops.count(reason) + 1 &&
                                expected(reason));
    }
    return is_right && total_drops(end) == total + 1 && State(end, recording.pair.now) == before;
}

// The unseen originals are all accepted, so the replay window had not moved.
void expect_originals_taken(const Recording& recording) {
    const uint64_t before = recording.to.session->counters().datagrams_received;
    const uint64_t drops = total_drops(recording.to);
    for (const auto& datagram : recording.datagrams) {
        recording.give(datagram, recording.to.role == path::Role::Snapt
                                     ? recording.pair.node_address
                                     : recording.pair.snapt_address);
    }
    EXPECT_EQ(recording.to.session->counters().datagrams_received,
              before + recording.datagrams.size());
    EXPECT_EQ(total_drops(recording.to), drops);
}

bool has_compressed_section(base::ByteView body) {
    wire::BodyReader reader(body);
    wire::BodyItem item;
    for (auto more = reader.next(item); more && *more; more = reader.next(item)) {
        const auto* section = std::get_if<wire::Section>(&item);
        if (section != nullptr && section->head.mode == wire::SectionMode::Zstd) {
            return true;
        }
    }
    return false;
}

// Not encrypted, so that the test can read the contents.
TEST(RecordedDatagrams, HoldPacketsInAllFormsAndFramesOfPaths) {
    const Recording recording(path::Role::Node, crypto::Protection::HmacSha256);
    bool has_keepalive = false;
    bool has_zstd = false;
    uint32_t frames = 0;
    size_t sections = 0;
    for (const auto& datagram : recording.datagrams) {
        base::ByteReader reader(datagram);
        ASSERT_TRUE(wire::TunnelHeader::parse(reader));
        const base::ByteView body = reader.rest().first(reader.remaining() - kTagBytes);
        const auto summary = wire::check_body(body);
        ASSERT_TRUE(summary);
        has_keepalive = has_keepalive || summary->is_keepalive();
        has_zstd = has_zstd || has_compressed_section(body);
        frames |= summary->frame_types;
        sections += summary->sections;
    }
    const wire::BodySummary all{frames, 0, 0};
    EXPECT_TRUE(has_keepalive);
    EXPECT_TRUE(has_zstd);
    EXPECT_GE(sections, 2U);
    EXPECT_TRUE(all.has(wire::FrameType::Fragment));
    EXPECT_TRUE(all.has(wire::FrameType::Announce));
    EXPECT_TRUE(all.has(wire::FrameType::Challenge));
}

TEST(RecordedDatagrams, EveryFlippedBitIsDroppedCountedAndLeavesNoTrace) {
    for (const Case& entry : kCases) {
        const Recording recording(entry.from, entry.protection);
        ASSERT_GE(recording.datagrams.size(), 5U);
        for (size_t which = 0; which < recording.datagrams.size(); ++which) {
            std::vector<uint8_t> datagram = recording.datagrams[which];
            for (size_t bit = 0; bit < datagram.size() * 8; ++bit) {
                const auto mask = static_cast<uint8_t>(1U << (bit % 8));
                datagram[bit / 8] ^= mask;
                ASSERT_TRUE(leaves_no_trace(
                    recording, datagram,
                    [&](DropReason reason) { return is_expected(reason, bit / 8, mask); }))
                    << "datagram " << which << " bit " << bit;
                datagram[bit / 8] ^= mask;
            }
        }
        expect_originals_taken(recording);
    }
}

TEST(RecordedDatagrams, EveryCutLengthIsDroppedCountedAndLeavesNoTrace) {
    for (const Case& entry : kCases) {
        const Recording recording(entry.from, entry.protection);
        for (size_t which = 0; which < recording.datagrams.size(); ++which) {
            std::vector<uint8_t> datagram = recording.datagrams[which];
            base::ByteReader reader(datagram);
            const size_t shortest = wire::TunnelHeader::parse(reader)->size() + kTagBytes;
            datagram.push_back(0);
            for (size_t length = 0; length <= datagram.size(); ++length) {
                if (length == recording.datagrams[which].size()) {
                    continue;
                }
                const std::vector<uint8_t> cut(datagram.begin(),
                                               datagram.begin() + static_cast<ptrdiff_t>(length));
                const DropReason expected = length < shortest ? DropReason::TooShort
                                            : length + session::outer_overhead(kElsewhere.address) >
                                                    recovery::MtuSearch::kLargest
                                                ? DropReason::DatagramTooLong
                                                : DropReason::Unauthentic;
                ASSERT_TRUE(leaves_no_trace(recording, cut,
                                            [&](DropReason reason) { return reason == expected; }))
                    << "datagram " << which << " length " << length;
            }
        }
        expect_originals_taken(recording);
    }
}

TEST(RecordedDatagrams, OneOfTheOtherDirectionIsDropped) {
    for (const path::Role role : {path::Role::Node, path::Role::Snapt}) {
        const Recording recording(role, crypto::Protection::Aes256Gcm);
        session::ReceivedDatagram received;
        for (std::vector<uint8_t> datagram : recording.datagrams) {
            const State before(recording.from, recording.pair.now);
            const uint64_t unauthentic =
                recording.from.session->drops().count(DropReason::Unauthentic);
            received = {datagram, kElsewhere, base::IpAddress::any(base::IpVersion::V4)};
            recording.from.session->on_datagrams(std::span(&received, 1), recording.pair.now);
            EXPECT_EQ(recording.from.session->drops().count(DropReason::Unauthentic),
                      unauthentic + 1);
            EXPECT_EQ(State(recording.from, recording.pair.now), before);
        }
    }
}

}  // namespace
}  // namespace continuo::tests
