#include "tests/support/numbered_streams.hpp"

#include <algorithm>

namespace continuo::tests {

namespace {

const base::IpAddress kLease = *base::IpAddress::parse("100.64.0.2");
constexpr uint16_t kFirstPort = 5000;
constexpr uint8_t kUdp = 17;
constexpr size_t kNumberAt = 1;  // in the payload

}  // namespace

NumberedStreams::NumberedStreams(SessionPair& pair, base::PathMode mode)
    : pair_(pair), mode_(mode) {
    for (size_t i = 0; i < kStreams; ++i) {
        make_stream(i);
    }
}

void NumberedStreams::make_stream(size_t index) {
    Stream& stream = streams_[index];
    stream.fields.source = *base::IpAddress::parse("192.0.0.5");
    stream.fields.destination = *base::IpAddress::parse("198.51.100.2");
    stream.fields.protocol = index % 2 == 0 ? packet::Protocol::Udp : packet::Protocol::Tcp;
    stream.fields.source_port = static_cast<uint16_t>(kFirstPort + index);
    stream.fields.destination_port = 443;
    stream.fields.ttl = 64;
    stream.tuple.local = stream.fields.source;
    stream.tuple.remote = stream.fields.destination;
    stream.tuple.local_port = stream.fields.source_port;
    stream.tuple.remote_port = stream.fields.destination_port;
    stream.tuple.protocol = stream.fields.protocol;
    stream.leased = stream.tuple;
    stream.leased.local = kLease;
    stream.traffic_class = base::kAllTrafficClasses[index];
}

flow::Flow* NumberedStreams::flow_of(size_t index, SessionEnd& end) {
    const Stream& stream = streams_[index];
    flow::Flow* flow = end.role == path::Role::Node ? &end.flow(stream.tuple, stream.traffic_class)
                                                    : end.find(stream.leased);
    return flow != nullptr && flow->owner == end.session.get() ? flow : nullptr;
}

size_t NumberedStreams::detached(SessionEnd& end) {
    size_t count = 0;
    for (size_t i = 0; i < kStreams; ++i) {
        const flow::Flow* flow = flow_of(i, end);
        count += flow == nullptr || end.session->flow_table().at(flow->index) != flow ? 1U : 0U;
    }
    return count;
}

// The same at both ends but for the node's address, which SNAPT knows as the lease.
std::vector<uint8_t>
NumberedStreams::packet_of(size_t index, uint32_t number, size_t direction, bool at_snapt) const {
    packet::HeaderFields fields = streams_[index].fields;
    fields.source = at_snapt ? kLease : fields.source;
    if (direction == 1) {
        std::swap(fields.source, fields.destination);
        std::swap(fields.source_port, fields.destination_port);
    }
    fields.ip_id = static_cast<uint16_t>(number);
    fields.sequence = number * 1460;
    base::SeededRandom random((uint64_t{fields.source_port} << 48) +
                              (uint64_t{fields.destination_port} << 32) + number);
    // Some longer than a datagram has room for, some that compress.
    std::vector<uint8_t> payload(20 + random.u64() % 1430);
    if (number % 3 != 0) {
        random.fill(payload);
    }
    base::store_big_endian<uint32_t>(&payload[kNumberAt], number);
    return make_packet(fields, payload);
}

// With the node's address as that end knows it, every field and the whole payload.
bool NumberedStreams::is_as_sent(const std::vector<uint8_t>& packet,
                                 size_t index,
                                 uint32_t number,
                                 size_t direction) const {
    if (number == 0 || number > ways_[index][direction].sent) {
        return false;
    }
    return packet == packet_of(index, number, direction, direction == 0);
}

void NumberedStreams::send() {
    for (size_t i = 0; i < kStreams; ++i) {
        send(i, 0);
        send(i, 1);
    }
}

void NumberedStreams::send(size_t index, size_t direction) {
    SessionEnd& end = direction == 0 ? pair_.node : pair_.snapt;
    flow::Flow* flow = flow_of(index, end);
    if (flow == nullptr) {
        return;
    }
    if (direction == 0) {
        end.session->set_mode(*flow, mode_);
    }
    StreamWay& way = ways_[index][direction];
    way.waiting.push_back({++way.sent, pair_.now});
    end.send(*flow, packet_of(index, way.sent, direction, direction == 1), {}, pair_.now);
}

void NumberedStreams::collect() {
    collect(pair_.snapt, 0);
    collect(pair_.node, 1);
}

void NumberedStreams::collect(SessionEnd& end, size_t direction) {
    for (const auto& packet : end.delivered) {
        const size_t header = 20 + (packet[9] == kUdp ? 8U : 20U);
        const auto port = base::load_big_endian<uint16_t>(&packet[direction == 0 ? 20 : 22]);
        const size_t index = static_cast<size_t>(port) - kFirstPort;
        if (index >= kStreams || packet.size() < header + kNumberAt + sizeof(uint32_t)) {
            ++altered;
            continue;
        }
        const auto number = base::load_big_endian<uint32_t>(&packet[header + kNumberAt]);
        StreamWay& way = ways_[index][direction];
        altered += is_as_sent(packet, index, number, direction) ? 0U : 1U;
        delivered_twice += way.arrived.insert(number).second ? 0U : 1U;
        while (!way.waiting.empty() && way.waiting.front().number <= number) {
            way.waiting.pop_front();
        }
    }
    end.delivered.clear();
    end.delivered_at.clear();
}

void NumberedStreams::give_up_waiting() {
    for (auto& directions : ways_) {
        for (StreamWay& way : directions) {
            way.waiting.clear();
        }
    }
}

base::TimePoint NumberedStreams::waiting_since(size_t stream, size_t direction) const {
    const StreamWay& way = ways_[stream][direction];
    return way.waiting.empty() ? base::kNever : way.waiting.front().since;
}

}  // namespace continuo::tests
