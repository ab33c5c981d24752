#include "common/sending/body_encoder.hpp"

#include "common/packet/context_fields.hpp"

namespace continuo::sending {

using base::ByteView;
using base::ByteWriter;
using base::MutableByteView;
using routing::Way;
using session::Draft;
using session::kMaxGroups;
using session::PendingPacket;

namespace {

constexpr double kRatioGain = 1.0 / 16;

}  // namespace

void BodyEncoder::write_order(const Way& way, size_t count, ByteWriter& body) {
    wire::Order& order = scratch_.order;
    order.count = 0;
    if (!way.is_striped) {
        return;
    }
    order.paths = way.paths;
    for (size_t i = 0; i < count; ++i) {
        const flow::Flow& flow = *scratch_.packets[i].item.flow;
        if (scratch_.packets[i].regular && order.find(flow.index) == nullptr) {
            order.add(flow.index, flow.paths.next_number);
        }
    }
    if (order.count > 0) {
        order.serialize(body);
    }
}

bool BodyEncoder::write_packets(Draft& draft, SendClass& state, size_t count, ByteWriter& body) {
    std::array<size_t, kMaxGroups + 1> members{};
    for (size_t i = 0; i < count; ++i) {
        ++members[scratch_.packets[i].group];
    }
    size_t last_group = 0;
    for (size_t group = 1; group <= kMaxGroups && members[0] == 0; ++group) {
        last_group = members[group] > 0 ? group : last_group;
    }
    for (size_t group = 1; group <= kMaxGroups; ++group) {
        if (members[group] > 0 && !write_group(draft, state, count, static_cast<uint8_t>(group),
                                               members[0] == 0 && group == last_group, body)) {
            return false;
        }
    }
    if (members[0] > 0) {
        wire::SectionHead{}.serialize_last(body);
        draft.epoch->encoder.begin_section();
        return write_entries(draft, count, 0, body);
    }
    return body.ok();
}

bool BodyEncoder::write_group(
    Draft& draft, SendClass& state, size_t count, uint8_t group, bool last, ByteWriter& body) {
    scratch_.load.note_compressing();
    ByteWriter section(MutableByteView(scratch_.section.get(), wire::kDefaultSectionOutputBytes));
    draft.epoch->encoder.begin_section();
    if (!write_entries(draft, count, group, section)) {
        return false;
    }
    const ByteView plain = section.written();
    ByteView content = plain;
    wire::SectionHead head;
    const MutableByteView room(scratch_.compressed.get(), wire::kDefaultSectionOutputBytes);
    scratch_.codec.set_level(state.settings.compression_level);
    if (const auto compressed = scratch_.codec.compress(plain, room);
        compressed && *compressed < plain.size()) {
        head.mode = wire::SectionMode::Zstd;
        content = room.first(*compressed);
        ++state.counters.compressed_sections;
    }
    const double ratio = static_cast<double>(content.size()) / static_cast<double>(plain.size());
    state.compressed_ratio += (ratio - state.compressed_ratio) * kRatioGain;
    if (last) {
        head.serialize_last(body);
    } else {
        head.serialize_sized(body, content.size());
    }
    body.bytes(content);
    return body.ok();
}

// Encodes the entries of one group, in order, to the end of its section.
bool BodyEncoder::write_entries(Draft& draft, size_t count, uint8_t group, ByteWriter& writer) {
    elision::Encoder& encoder = draft.epoch->encoder;
    size_t last = count;
    for (size_t i = 0; i < count; ++i) {
        last = scratch_.packets[i].group == group ? i : last;
    }
    for (size_t i = 0; i <= last && i < count; ++i) {
        PendingPacket& pending = scratch_.packets[i];
        if (pending.group != group) {
            continue;
        }
        const packet::Packet& packet = *pending.item.packet;
        if (pending.regular) {
            const auto extent = i == last ? elision::Extent::ToEnd : elision::Extent::Counted;
            if (!encoder.append(pending.item.flow->index, pending.regular->fields,
                                pending.regular->payload, extent, writer)) {
                return false;
            }
            continue;
        }
        if (pending.is_announced) {
            if (const auto fields = packet::context_fields(packet.bytes())) {
                encoder.append_context(pending.item.flow->index, *fields, writer);
            }
        }
        if (!encoder.append_whole(packet.bytes(), writer)) {
            return false;
        }
    }
    return writer.ok();
}

}  // namespace continuo::sending
