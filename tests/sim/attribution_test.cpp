// Attribution of the outer bytes of received datagrams: those that carried a flow's packets belong
// to it, once each, and the rest is the session's overhead.
#include "common/elision/encoder.hpp"
#include "common/wire/body.hpp"
#include "tests/support/hostile_peer.hpp"
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::TrafficClass;
using path::Role;

using Bytes = std::vector<uint8_t>;

constexpr wire::Space kBulk{TrafficClass::HtHd, 0, 0};
constexpr size_t kOuterHeaders = 28;

packet::HeaderFields udp_fields() {
    packet::HeaderFields fields;
    fields.protocol = packet::Protocol::Udp;
    fields.source = *base::IpAddress::parse("0.0.0.0");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.source_port = 40000;
    fields.destination_port = 53;
    fields.ttl = 64;
    return fields;
}

class Attribution : public ::testing::Test {
  protected:
    static constexpr uint32_t kFlow = 5;

    Attribution() {
        encoder_.add_flow(kFlow, {});
        opening_ = send(section_of({}));
    }
    // A raw section to the end of a body with one packet of the flow.
    Bytes section_of(const Bytes& payload) {
        Bytes content(payload.size() + 64);
        base::ByteWriter writer(content);
        wire::SectionHead{}.serialize_last(writer);
        encoder_.begin_datagram(wire::space_number(kBulk), sequence_++, victim_.now,
                                elision::Setting::Forbidden);
        encoder_.begin_section();
        EXPECT_TRUE(encoder_.append(kFlow, udp_fields(), payload, elision::Extent::ToEnd, writer));
        encoder_.end_datagram();
        content.resize(writer.size());
        return content;
    }
    // A piece of a packet of the flow that stands as a whole entry.
    struct Piece {
        uint16_t id = 0;
        uint8_t index = 0;
        size_t from = 0;
        size_t bytes = 0;
    };
    void add(Bytes& body, const Piece& piece, bool is_to_end) const {
        wire::Fragment fragment;
        fragment.id = piece.id;
        fragment.index = piece.index;
        fragment.last = piece.from + piece.bytes == whole_.size();
        fragment.to_end = is_to_end;
        fragment.piece = base::ByteView(whole_).subspan(piece.from, piece.bytes);
        Bytes frame(piece.bytes + wire::Fragment::kHeadBytes + 8);
        base::ByteWriter writer(frame);
        fragment.serialize(writer);
        body.insert(body.end(), frame.begin(),
                    frame.begin() + static_cast<ptrdiff_t>(writer.size()));
    }
    // Gives its outer bytes.
    uint64_t send(const Bytes& body) {
        const uint64_t before = victim_.received_bytes;
        victim_.receive_body(kBulk, body);
        return victim_.received_bytes - before + kOuterHeaders;
    }
    uint64_t post() const {
        return flow::value(victim_.known().front()->counters->counters.post_up);
    }
    uint64_t overhead() { return victim_.session().counters().overhead_received(); }

    static Bytes whole_entry() {
        const Bytes packet = make_packet(udp_fields(), Bytes(1000, 7));
        Bytes entry(packet.size() + 5);
        base::ByteWriter writer(entry);
        elision::write_whole_entry(packet, writer);
        entry.resize(writer.size());
        return entry;
    }

    Victim victim_{Role::Snapt};
    elision::Encoder encoder_{packet::NodeSide::Source};
    uint64_t sequence_ = 0;
    Bytes whole_ = whole_entry();
    uint64_t opening_ = 0;
};

TEST_F(Attribution, PiecesOfOnePacketInOneDatagramCostItOnce) {
    Bytes body;
    for (uint8_t index = 0; index < 3; ++index) {
        add(body, {7, index, index * size_t{300}, 300}, false);
    }
    uint64_t outer = send(body);
    EXPECT_EQ(overhead(), outer) << "until the packet is whole";
    Bytes rest;
    add(rest, {7, 3, 900, whole_.size() - 900}, true);
    outer += send(rest);
    EXPECT_EQ(post(), opening_ + outer);
    EXPECT_EQ(overhead(), 0U);
}

TEST_F(Attribution, PiecesOfManyPacketsShareTheirDatagram) {
    Bytes body;
    for (uint16_t id = 0; id < 8; ++id) {
        add(body, {id, 0, 0, 100}, false);
    }
    uint64_t outer = send(body);
    for (uint16_t id = 0; id < 8; ++id) {
        Bytes rest;
        add(rest, {id, 1, 100, whole_.size() - 100}, true);
        outer += send(rest);
    }
    EXPECT_EQ(post(), opening_ + outer);
    EXPECT_EQ(overhead(), 0U);
}

// A datagram that completes a packet, brings one as it is and begins another.
TEST_F(Attribution, WhatStaysInPiecesIsNotTheOthers) {
    Bytes first;
    add(first, {1, 0, 0, 500}, true);
    uint64_t outer = send(first);
    Bytes second;
    add(second, {1, 1, 500, whole_.size() - 500}, false);
    add(second, {2, 0, 0, 500}, false);
    const Bytes section = section_of(Bytes(100, 9));
    second.insert(second.end(), section.begin(), section.end());
    outer += send(second);
    EXPECT_EQ(post() + overhead(), opening_ + outer);
    EXPECT_GT(overhead(), 500U);
    EXPECT_LT(overhead(), 600U);
}

}  // namespace
}  // namespace continuo::tests
