// Cost of a node with the keys: entries cost what they bring, linear in their bytes; a compressed
// section costs what it becomes, for which the expansion budget pays. The host does nothing with
// what it gets: its share is that of a daemon and its kernel.
#include "common/compress/zstd_codec.hpp"
#include "common/elision/encoder.hpp"
#include "common/reception/expansion_budget.hpp"
#include "tests/sim/body_cost.hpp"
#include "tests/support/session_pair.hpp"

#include <array>
#include <functional>

namespace continuo::tests {
namespace {

using base::DropReason;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kFlows = 4096;

struct Flows {
    flow::LiveSlot counters;
    std::vector<flow::Flow> flows = std::vector<flow::Flow>(kFlows);
};

// A SNAPT whose flows give way in turn, the oldest first. The flows outlive the session.
class Taker final : private Flows, public Victim {
  public:
    Taker() : Victim(path::Role::Snapt) {}

    flow::Flow* on_flow_opened(tunnel::Session& session,
                               const session::FlowOpening& opening,
                               base::TimePoint at) override {
        flow::Flow& flow = flows[opened++ % flows.size()];
        if (flow.owner == &session) {
            session.detach(flow, at);
        }
        flow.tuple = opening.tuple;
        flow.traffic_class = opening.traffic_class;
        flow.index = opening.index;
        flow.counters = &counters;
        return session.attach(flow) ? &flow : nullptr;
    }
    flow::Flow* find_flow(tunnel::Session& /*session*/,
                          const packet::FiveTuple& /*tuple*/) override {
        return nullptr;
    }
    void deliver(tunnel::Session& /*session*/,
                 flow::Flow& /*flow*/,
                 const packet::HeaderFields& /*fields*/,
                 base::ByteView /*payload*/,
                 base::TimePoint /*now*/) override {
        ++delivered;
    }
    flow::Flow* deliver_whole(tunnel::Session& /*session*/,
                              base::TrafficClass /*traffic_class*/,
                              base::MutableByteView /*packet*/,
                              base::TimePoint /*now*/) override {
        ++delivered;
        return nullptr;
    }

    void on_flows_closed(tunnel::Session& session, flow::Flow& flow, base::TimePoint at) override {
        session.detach(flow, at, session::EndNotice::None);
        ++closed;
    }

    size_t opened = 0;
    size_t closed = 0;
};

// An OPEN of UDP to 198.51.100.7, port 53, without payload.
void write_open(base::ByteWriter& writer, uint32_t index, uint16_t source_port, bool sets) {
    writer.u8(0x3F);
    writer.u8(sets ? 0x03 : 0x01);
    writer.varint(index);
    writer.u32(0xC6336407);
    writer.u16(source_port);
    writer.u16(53);
    constexpr std::array<uint8_t, 7> kRest{0x01, 0x00, 0x40, 0x00, 0x01, 0x10, 0x00};
    writer.bytes(kRest);
}

// Behind the head of a raw section to the end.
Bytes entries(const std::function<bool(base::ByteWriter&, uint32_t)>& write) {
    return filled_with([&](base::ByteWriter& writer, uint32_t i) {
        if (i == 0) {
            wire::SectionHead{}.serialize_last(writer);
            return true;
        }
        return write(writer, i - 1);
    });
}

TEST(SectionCost, PacketsOfOneByteCostNoMoreThanTheirBytes) {
    Taker taker;
    const auto measured = cost_of(taker, [](uint32_t /*round*/) {
        return entries([](base::ByteWriter& writer, uint32_t i) {
            if (i == 0) {
                write_open(writer, 5, 40000, false);
            } else {
                writer.u8(0x05);
            }
            return i < elision::kMaxEntries;
        });
    });
    EXPECT_EQ(taker.delivered, kRounds * elision::kMaxEntries);
    expect_linear(taker, measured, "entries of one byte", kMostTimesNamed);
}

// Each makes a flow, for which an older one gives way; or also sets a context, in a place of its
// own.
TEST(SectionCost, EntriesThatOpenFlowsCostNoMoreThanTheirBytes) {
    for (const bool sets : {false, true}) {
        Taker taker;
        constexpr uint32_t kApart = 16;
        constexpr uint32_t kInABody = 60;
        constexpr uint32_t kBodiesWithoutDisplacing = kFlows / kInABody + 1;
        uint32_t flow = 0;
        const auto bodies = [&](uint32_t /*round*/) {
            return entries([&](base::ByteWriter& writer, uint32_t i) {
                if (i == kInABody) {
                    return false;
                }
                write_open(writer, (flow * kApart + flow / kFlows) % (elision::kMaxFlowIndex + 1),
                           static_cast<uint16_t>(1024 + flow), sets);
                ++flow;
                return true;
            });
        };
        const auto fresh = cost_of(taker, bodies);
        record_cost(fresh, fresh.bytes,
                    sets ? "first entries that set" : "first entries that open");
        static_cast<void>(cost_of(taker, bodies, kBodiesWithoutDisplacing));
        const auto displacing = cost_of(taker, bodies);
        EXPECT_EQ(taker.delivered, (2 * kRounds + kBodiesWithoutDisplacing) * kInABody);
        EXPECT_EQ(taker.opened, taker.delivered);
        for (const auto& measured : {fresh, displacing}) {
            expect_linear(taker, measured, sets ? "entries that set" : "entries that open",
                          kMostTimesNamed);
        }
    }
}

// Each of their indexes ends a flow, which the node has opened before; this is not measured.
TEST(SectionCost, ClosedThatEndHundredsOfFlowsCostNoMoreThanTheirBytes) {
    Taker taker;
    constexpr uint32_t kInABody = 60;
    constexpr uint32_t kBodies = 9;
    const wire::Space space{base::TrafficClass::LtLd, 0, 0};
    uint32_t flow = 0;
    Measured measured;
    for (uint32_t round = 0; round < kRounds; ++round) {
        uint32_t next = flow;
        for (uint32_t body = 0; body < kBodies; ++body) {
            taker.receive_body(space, entries([&](base::ByteWriter& writer, uint32_t i) {
                                   if (i == kInABody) {
                                       return false;
                                   }
                                   write_open(writer, flow, static_cast<uint16_t>(1024 + flow),
                                              false);
                                   ++flow;
                                   return true;
                               }));
        }
        const auto ends = filled_with([&](base::ByteWriter& writer, uint32_t /*i*/) {
            wire::Closed closed;
            while (next < flow && closed.add(next)) {
                ++next;
            }
            if (closed.count > 0) {
                closed.serialize(writer);
            }
            return closed.count > 0;
        });
        measure(taker, space, ends, measured);
        EXPECT_EQ(next, flow) << "they fit";
    }
    EXPECT_EQ(taker.opened, flow);
    EXPECT_EQ(taker.closed, flow);
    expect_linear(taker, measured, "CLOSED that end flows", kMostTimesNamed);
}

Bytes compressed(const Bytes& content, size_t sections) {
    compress::ZstdCodec codec;
    Bytes packed(wire::kDefaultSectionOutputBytes);
    packed.resize(codec.compress(content, packed).value());
    Bytes body(sections * (packed.size() + 8));
    base::ByteWriter writer(body);
    for (size_t i = 0; i < sections; ++i) {
        wire::SectionHead head;
        head.mode = wire::SectionMode::Zstd;
        head.serialize_sized(writer, packed.size());
        writer.bytes(packed);
    }
    body.resize(writer.size());
    return body;
}

// UDP packets of zeros that fill a section.
Bytes packets_of_zeros(size_t packet_bytes) {
    packet::HeaderFields fields;
    fields.protocol = packet::Protocol::Udp;
    fields.source = *base::IpAddress::parse("0.0.0.0");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.source_port = 40000;
    fields.destination_port = 53;
    fields.ttl = 64;
    constexpr size_t kHeaderBytes = 28;
    constexpr size_t kEntryHeadBytes = 5;
    const Bytes packet = make_packet(fields, Bytes(packet_bytes - kHeaderBytes));
    const size_t count = wire::kDefaultSectionOutputBytes / (packet_bytes + kEntryHeadBytes);
    Bytes content(count * (packet_bytes + kEntryHeadBytes));
    base::ByteWriter writer(content);
    for (size_t i = 0; i < count; ++i) {
        elision::write_whole_entry(packet, writer);
    }
    content.resize(writer.size());
    return content;
}

// While the budget lasts it costs no more than as many bytes of padding would; then it is not
// looked at.
TEST(SectionCost, ACompressedSectionCostsWhatItBecomesWhileTheBudgetPays) {
    constexpr size_t kSections = 3;
    for (const size_t packet_bytes : {size_t{1400}, size_t{65'500}}) {
        Taker taker;
        const Bytes content = packets_of_zeros(packet_bytes);
        const Bytes body = compressed(content, kSections);
        const size_t plain_bytes = kSections * content.size();
        EXPECT_GT(plain_bytes, 1000 * body.size());
        const auto same = [&](uint32_t /*round*/) { return body; };
        const auto within =
            static_cast<uint32_t>(reception::ExpansionBudget::kFreeBytes / plain_bytes);
        const auto paid = cost_of(taker, same, within);
        EXPECT_EQ(taker.session().drops().count(DropReason::InflationLimit), 0U);
        record_cost(paid, body.size(), std::to_string(packet_bytes) + " in a section");
        record_cost(paid, plain_bytes,
                    std::to_string(packet_bytes) + " in a section, of plaintext");
        const base::Duration of_padding = cost_of_padding(taker, kBodyBytes).cost;
        EXPECT_LE(paid.cost, of_padding * static_cast<int64_t>(plain_bytes / kBodyBytes));
        static_cast<void>(cost_of(taker, same, 4 * within));
        const uint64_t dropped = taker.session().drops().count(DropReason::InflationLimit);
        const auto unpaid = cost_of(taker, same);
        EXPECT_GE(taker.session().drops().count(DropReason::InflationLimit), dropped + kRounds / 2);
        expect_linear(taker, unpaid, "sections beyond the budget");
    }
}

}  // namespace
}  // namespace continuo::tests
