#include "tests/support/hostile_peer.hpp"

#include "tests/support/session_pair.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::tests {
namespace {

constexpr uint16_t kVictimId = 0x4A31;
constexpr size_t kTagBytes = 16;

// Scratch memory that no call keeps: shared, since it is slow to create.
struct Workspace {
    packet::PacketPool pool{64, 8};
    session::SessionScratch scratch;
    session::TransmitBatch batch;
};

Workspace& workspace() {
    static Workspace shared;
    return shared;
}

std::string key_of(const packet::FiveTuple& tuple) {
    return tuple.local.to_string() + " " + std::to_string(tuple.local_port) + " " +
           tuple.remote.to_string() + " " + std::to_string(tuple.remote_port) + " " +
           std::to_string(static_cast<int>(tuple.protocol));
}

crypto::KeyMaterial key_material(uint8_t first) {
    crypto::KeyMaterial keys;
    keys.key[0] = first;
    return keys;
}

packet::FiveTuple own_tuple(size_t which) {
    packet::FiveTuple tuple;
    tuple.local = *base::IpAddress::parse("192.0.0.5");
    tuple.remote = *base::IpAddress::parse("198.51.100.2");
    tuple.local_port = static_cast<uint16_t>(40000 + which);
    tuple.remote_port = 80;
    tuple.protocol = which % 2 == 0 ? packet::Protocol::Tcp : packet::Protocol::Udp;
    return tuple;
}

}  // namespace

Victim::Victim(path::Role role, crypto::Protection protection)
    : role_(role), protection_(protection), peer_(*base::Endpoint::parse("203.0.113.9:9347")) {
    session::SessionSettings settings;
    settings.role = role;
    settings.memory = &memory;
    settings.local_id = kVictimId;
    settings.peer_id = 0x1111;
    const bool is_node = role == path::Role::Node;
    settings.node_ipv4 = *base::IpAddress::parse(is_node ? "192.0.0.5" : "100.64.0.2");
    settings.node_ipv6 = *base::IpAddress::parse(is_node ? "64:ff9b:1::c000:5" : "fd93:47::2");
    session_ = std::make_unique<tunnel::Session>(settings, *this, workspace().scratch, random_);
    install_next_epoch();
    if (is_node) {
        session_->paths().node().add(0, peer_, 1500, now);
        session_->paths().node().activate(0, now);
        for (size_t i = 0; i < kOwnFlows; ++i) {
            make_flow(own_tuple(i), base::kAllTrafficClasses[i]);
        }
    }
}

void Victim::install_next_epoch() {
    session::EpochInstall keys;
    keys.epoch = ++epoch_;
    keys.sealer = std::move(crypto::make_cipher(protection_, key_material(1), kTagBytes)).value();
    keys.opener = std::move(crypto::make_cipher(protection_, key_material(2), kTagBytes)).value();
    peer_sealer_ = std::move(crypto::make_cipher(protection_, key_material(2), kTagBytes)).value();
    next_ = {};
    session_->install_epoch(std::move(keys), now);
}

Victim::~Victim() {
    session_.reset();
}

void Victim::receive_body(const wire::Space& space, base::ByteView body) {
    const size_t slot = session::space_slot(wire::space_number(space));
    wire::TunnelHeader header;
    header.epoch = static_cast<uint8_t>(epoch_);
    header.traffic_class = space.traffic_class;
    header.path = space.path;
    header.session_id = kVictimId;
    header.long_sequence = true;
    header.sequence = static_cast<uint32_t>(next_[slot]);
    std::vector<uint8_t> datagram(header.size() + body.size() + kTagBytes);
    base::ByteWriter writer(datagram);
    header.serialize(writer);
    std::copy(body.begin(), body.end(), datagram.begin() + static_cast<ptrdiff_t>(header.size()));
    crypto::SealedUnit unit;
    unit.datagram = datagram;
    unit.header_bytes = static_cast<uint8_t>(header.size());
    unit.space = header.space_number();
    unit.sequence = next_[slot]++;
    peer_sealer_->seal(std::span(&unit, 1));
    receive(std::move(datagram), peer_);
}

void Victim::receive(std::vector<uint8_t> datagram, const base::Endpoint& from) {
    received_bytes += datagram.size();
    session::ReceivedDatagram received{datagram, from, base::IpAddress::any(base::IpVersion::V4)};
    received.arrived_on = arrived_on;
    session_->on_datagrams(std::span(&received, 1), now);
}

void Victim::send_packet(size_t which, size_t payload_bytes) {
    if (known_.empty()) {
        return;
    }
    flow::Flow& flow = *known_[which % known_.size()];
    if (flow.owner != session_.get()) {
        return;
    }
    const bool is_up = role_ == path::Role::Node;
    packet::HeaderFields fields;
    fields.source = is_up ? flow.tuple.local : flow.tuple.remote;
    fields.destination = is_up ? flow.tuple.remote : flow.tuple.local;
    fields.source_port = is_up ? flow.tuple.local_port : flow.tuple.remote_port;
    fields.destination_port = is_up ? flow.tuple.remote_port : flow.tuple.local_port;
    fields.protocol = flow.tuple.protocol;
    fields.ttl = 64;
    fields.flags = packet::tcp_flag::kAck;
    const std::vector<uint8_t> payload(payload_bytes, 'x');
    const std::vector<uint8_t> bytes = make_packet(fields, payload);
    auto packet = workspace().pool.take(bytes.size());
    if (packet == nullptr) {
        return;
    }
    std::memcpy(packet->storage, bytes.data(), bytes.size());
    packet->length = static_cast<uint32_t>(bytes.size());
    session_->on_packet(flow, std::move(packet), now);
}

std::vector<std::vector<uint8_t>> Victim::drain() {
    std::vector<std::vector<uint8_t>> datagrams;
    session::TransmitBatch& batch = workspace().batch;
    for (bool more = true; more;) {
        batch.clear();
        more = session_->poll_transmit(batch, now);
        for (const session::TransmitItem& item : batch.items()) {
            const base::ByteView bytes = batch.bytes(item);
            const size_t step = item.segment_bytes == 0 ? bytes.size() : item.segment_bytes;
            for (size_t at = 0; at < bytes.size(); at += step) {
                const auto one = bytes.subspan(at, std::min(step, bytes.size() - at));
                datagrams.emplace_back(one.begin(), one.end());
                sent_bytes += one.size();
            }
            tunnel::Session::on_sent(batch, item);
        }
        CTN_ASSERT(datagrams.size() <= kMaxAnswers);
    }
    return datagrams;
}

void Victim::advance(base::Duration span) {
    now += span;
    session_->on_timeout(now);
}

flow::Flow* Victim::make_flow(const packet::FiveTuple& tuple, base::TrafficClass traffic_class) {
    if (flows_.size() >= kMaxFlows) {
        return nullptr;
    }
    auto& place = flows_[key_of(tuple)];
    place = std::make_unique<flow::Flow>();
    slots_.push_back(std::make_unique<flow::LiveSlot>());
    place->tuple = tuple;
    place->traffic_class = traffic_class;
    place->counters = slots_.back().get();
    known_.push_back(place.get());
    if (role_ == path::Role::Node) {
        session_->attach(*place);
    }
    return place.get();
}

// As Relay and Node do it.
flow::Flow* Victim::on_flow_opened(tunnel::Session& session,
                                   const session::FlowOpening& opening,
                                   base::TimePoint at) {
    flow::Flow* flow = find_flow(session, opening.tuple);
    if (role_ == path::Role::Node) {
        return flow;
    }
    if (flow == nullptr) {
        flow = make_flow(opening.tuple, opening.traffic_class);
    }
    if (flow == nullptr || (flow->owner == &session && flow->index == opening.index)) {
        return flow;
    }
    if (flow->owner == &session) {
        session.detach(*flow, at);
    }
    flow->index = opening.index;
    flow->app = opening.open.app;
    return session.attach(*flow) ? flow : nullptr;
}

flow::Flow* Victim::find_flow(tunnel::Session& /*session*/, const packet::FiveTuple& tuple) {
    const auto at = flows_.find(key_of(tuple));
    return at == flows_.end() ? nullptr : at->second.get();
}

void Victim::deliver(tunnel::Session& /*session*/,
                     flow::Flow& /*flow*/,
                     const packet::HeaderFields& fields,
                     base::ByteView payload,
                     base::TimePoint /*now*/) {
    delivered += make_packet(fields, payload).empty() ? 0U : 1U;
}

flow::Flow* Victim::deliver_whole(tunnel::Session& session,
                                  base::TrafficClass /*traffic_class*/,
                                  base::MutableByteView packet,
                                  base::TimePoint /*now*/) {
    delivered += packet.empty() ? 0U : 1U;
    const auto found = packet::summarize(packet, packet::NodeSide::Source);
    return found.summary ? find_flow(session, found.summary->tuple) : nullptr;
}

}  // namespace continuo::tests
