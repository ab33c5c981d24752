#include "tests/support/session_pair.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::tests {

using base::TimePoint;

namespace {

std::string key_of(const packet::FiveTuple& tuple) {
    return tuple.local.to_string() + " " + std::to_string(tuple.local_port) + " " +
           tuple.remote.to_string() + " " + std::to_string(tuple.remote_port) + " " +
           std::to_string(static_cast<int>(tuple.protocol));
}

session::SessionSettings settings_for(path::Role role, base::TokenBucket& rate) {
    session::SessionSettings settings;
    settings.rate = &rate;
    settings.role = role;
    settings.local_id = role == path::Role::Node ? 0x1111 : 0x4A31;
    settings.peer_id = role == path::Role::Node ? 0x4A31 : 0x1111;
    settings.node_ipv4 =
        *base::IpAddress::parse(role == path::Role::Node ? "192.0.0.5" : "100.64.0.2");
    settings.node_ipv6 =
        *base::IpAddress::parse(role == path::Role::Node ? "64:ff9b:1::c000:5" : "fd93:47::2");
    for (const auto traffic_class : {base::TrafficClass::LtHd, base::TrafficClass::HtHd}) {
        settings.classes[base::index_of(traffic_class)].resequence = base::milliseconds(200);
    }
    return settings;
}

}  // namespace

std::vector<uint8_t> make_packet(const packet::HeaderFields& fields, base::ByteView payload) {
    std::vector<uint8_t> bytes(fields.header_bytes() + payload.size());
    packet::write_headers(fields, payload, false, bytes);
    std::copy(payload.begin(), payload.end(), bytes.end() - static_cast<ptrdiff_t>(payload.size()));
    return bytes;
}

SessionEnd::SessionEnd(SessionPair& owner, path::Role own_role, base::Random& own_random)
    : pair(owner)
    , role(own_role)
    , random(own_random)
    , session(
          std::make_unique<tunnel::Session>(settings_for(own_role, rate), *this, scratch, random)) {
}

void SessionEnd::on_path_silent(tunnel::Session& silent, uint8_t path, base::TimePoint now) {
    silent_paths.push_back(silent.paths().path(path).state());
    if (role == path::Role::Snapt && pair.has_control && pair.node.session) {
        pair.node.session->upkeep().request_keepalive(now);
    }
    if (when_silent) {
        when_silent(path);
    }
}

SessionEnd::~SessionEnd() {
    session.reset();
}

void SessionEnd::begin_anew(TimePoint now) {
    auto fresh =
        std::make_unique<tunnel::Session>(settings_for(role, rate), *this, scratch, random);
    for (const auto& [key, flow] : flows) {
        if (flow->owner == session.get()) {
            session->detach(*flow, now);
        }
        if (role == path::Role::Node) {
            fresh->attach(*flow);
        }
    }
    session = std::move(fresh);
}

flow::Flow* SessionEnd::find(const packet::FiveTuple& tuple) {
    const auto at = flows.find(key_of(tuple));
    return at == flows.end() ? nullptr : at->second.get();
}

void SessionEnd::end_flow(const packet::FiveTuple& tuple, TimePoint now) {
    if (flow::Flow* const flow = find(tuple)) {
        session->detach(*flow, now);
        flows.erase(key_of(tuple));
        slots.erase(key_of(tuple));
    }
}

flow::Flow& SessionEnd::flow(const packet::FiveTuple& tuple, base::TrafficClass traffic_class) {
    auto& place = flows[key_of(tuple)];
    if (place == nullptr) {
        place = std::make_unique<flow::Flow>();
        auto& slot = slots[key_of(tuple)];
        slot = std::make_unique<flow::LiveSlot>();
        place->tuple = tuple;
        place->traffic_class = traffic_class;
        place->counters = slot.get();
        place->app = 7;
        if (role == path::Role::Node) {
            session->attach(*place);
        }
    }
    return *place;
}

void SessionEnd::send(flow::Flow& flow,
                      base::ByteView bytes,
                      const packet::Offload& offload,
                      TimePoint at) {
    auto packet = pool.take(bytes.size());
    CTN_ASSERT(packet != nullptr);
    std::memcpy(packet->storage, bytes.data(), bytes.size());
    packet->length = static_cast<uint32_t>(bytes.size());
    packet->offload = offload;
    session->on_packet(flow, std::move(packet), at);
}

flow::Flow* SessionEnd::on_flow_opened(tunnel::Session& opened_in,
                                       const session::FlowOpening& opening,
                                       TimePoint /*now*/) {
    flow::Flow& known = flow(opening.tuple, opening.traffic_class);
    last_app = opening.open.app;
    if (role == path::Role::Snapt && (known.owner != &opened_in || known.index != opening.index)) {
        if (known.owner == &opened_in) {
            opened_in.detach(known, {});
        }
        known.index = opening.index;
        opened_in.attach(known);
        opened_in.set_mode(known, mode_of_opened);
    }
    return &known;
}

void SessionEnd::deliver(tunnel::Session& /*session*/,
                         flow::Flow& /*flow*/,
                         const packet::HeaderFields& fields,
                         base::ByteView payload,
                         TimePoint now) {
    delivered.push_back(make_packet(fields, payload));
    delivered_at.push_back(now);
}

flow::Flow* SessionEnd::deliver_whole(tunnel::Session& /*session*/,
                                      base::TrafficClass /*traffic_class*/,
                                      base::MutableByteView packet,
                                      TimePoint now) {
    delivered.emplace_back(packet.begin(), packet.end());
    delivered_at.push_back(now);
    return nullptr;
}

SessionPair::SessionPair(const SimLink& link, uint64_t seed, crypto::Protection protection)
    : random(seed)
    , up(link, random)
    , down(link, random)
    , node(*this, path::Role::Node, random)
    , snapt(*this, path::Role::Snapt, random)
    , node_address(*base::Endpoint::parse("192.0.2.2:40000"))
    , snapt_address(*base::Endpoint::parse("203.0.113.9:9347"))
    , protection_(protection) {
    install_epoch(1);
    node.session->paths().node().add(0, snapt_address, 1500, now);
    node.session->paths().node().activate(0, now);
}

void SessionPair::install_epoch(uint32_t epoch) {
    install_epoch_at(snapt, epoch);
    install_epoch_at(node, epoch);
}

void SessionPair::install_epoch_at(SessionEnd& end, uint32_t epoch, uint8_t generation) {
    crypto::KeyMaterial up_keys;
    up_keys.key[0] = static_cast<uint8_t>(epoch);
    up_keys.key[2] = generation;
    crypto::KeyMaterial down_keys = up_keys;
    down_keys.key[1] = 1;
    const bool is_node = end.role == path::Role::Node;
    session::EpochInstall keys;
    keys.epoch = epoch;
    keys.sealer =
        std::move(crypto::make_cipher(protection_, is_node ? up_keys : down_keys, 16)).value();
    keys.opener =
        std::move(crypto::make_cipher(protection_, is_node ? down_keys : up_keys, 16)).value();
    if (wrap_sealer) {
        keys.sealer = wrap_sealer(std::move(keys.sealer), is_node ? up_keys : down_keys);
    }
    end.session->install_epoch(std::move(keys), now);
}

void SessionPair::restart(uint8_t generation) {
    node.begin_anew(now);
    snapt.begin_anew(now);
    path_addresses.clear();
    path_links.clear();
    install_epoch_at(snapt, 1, generation);
    install_epoch_at(node, 1, generation);
    node.session->paths().node().add(0, snapt_address, 1500, now);
    node.session->paths().node().activate(0, now);
}

void SessionPair::move_node(const base::Endpoint& address, uint8_t path) {
    const auto before = node.session->paths().active();
    node_address = address;
    node.session->paths().node().add(path, snapt_address, 1500, now);
    if (before && *before != path) {
        node.session->paths().node().remove(*before);
    }
    node.session->paths().node().activate(path, now);
}

void SessionPair::lose(LinkModel& direction, uint32_t loss_ppm) const {
    LinkSettings settings = direction.settings();
    settings.loss_ppm = loss_ppm;
    direction.change(std::move(settings), now);
}

void SessionPair::add_path(uint8_t path, const base::Endpoint& address, const SimLink& link) {
    path_links.erase(path);
    path_links.emplace(path, PathLinks{LinkModel(link, random), LinkModel(link, random)});
    path_addresses[path] = address;
    node.session->paths().node().add(path, snapt_address, 1500, now);
}

LinkModel& SessionPair::up_link(uint8_t path) {
    const auto own = path_links.find(path);
    return own == path_links.end() ? up : own->second.up;
}

LinkModel& SessionPair::down_link(uint8_t path) {
    const auto own = path_links.find(path);
    return own == path_links.end() ? down : own->second.down;
}

void SessionPair::pump(SessionEnd& end) {
    bool more = true;
    while (more) {
        batch_.clear();
        more = end.session->poll_transmit(batch_, now);
        for (const session::TransmitItem& item : batch_.items()) {
            const base::ByteView bytes = batch_.bytes(item);
            const size_t step = item.segment_bytes == 0 ? bytes.size() : item.segment_bytes;
            for (size_t at = 0; at < bytes.size(); at += step) {
                put_on_link(end, item, bytes.subspan(at, std::min(step, bytes.size() - at)));
            }
            tunnel::Session::on_sent(batch_, item);
        }
    }
}

base::Endpoint SessionPair::address_of(uint8_t path) const {
    const auto own = path_addresses.find(path);
    return own == path_addresses.end() ? node_address : own->second;
}

// The address from which a datagram of the node leaves.
base::Endpoint SessionPair::source_of(const session::TransmitItem& item) const {
    base::Endpoint source = address_of(item.path);
    if (has_class_sockets) {
        source.port = static_cast<uint16_t>(source.port + base::index_of(item.traffic_class));
    }
    return source;
}

// True for a socket of the node, whose lt-ld is at `own`.
bool SessionPair::is_at(const base::Endpoint& own, const base::Endpoint& address) const {
    const size_t sockets = has_class_sockets ? base::kTrafficClasses : 1;
    return own.address == address.address && address.port >= own.port &&
           address.port < own.port + sockets;
}

std::optional<uint8_t> SessionPair::path_at(const base::Endpoint& address) const {
    for (const auto& [path, own] : path_addresses) {
        if (is_at(own, address)) {
            return path;
        }
    }
    return is_at(node_address, address) ? node.session->paths().active() : std::nullopt;
}

// The link carries the node's address in front: where the datagram came from, or goes to.
void SessionPair::put_on_link(const SessionEnd& end,
                              const session::TransmitItem& item,
                              base::ByteView datagram) {
    const bool is_up = end.role == path::Role::Node;
    if (record) {
        (is_up ? recorded_up : recorded_down).emplace_back(datagram.begin(), datagram.end());
    }
    const std::string address = (is_up ? source_of(item) : item.to).to_string();
    if (is_swallowed && is_swallowed(is_up, is_up ? address_of(item.path) : item.to)) {
        return;
    }
    if (is_item_swallowed && is_item_swallowed(is_up, item)) {
        return;
    }
    std::vector<uint8_t> carried{static_cast<uint8_t>(address.size())};
    carried.insert(carried.end(), address.begin(), address.end());
    LinkPacket packet = LinkPacket::of_datagram({datagram.begin(), datagram.end()});
    packet.corruptible_at += static_cast<uint32_t>(carried.size());
    carried.insert(carried.end(), datagram.begin(), datagram.end());
    packet.bytes = std::move(carried);
    (is_up ? up_link(item.path) : down_link(item.path)).send(std::move(packet), now);
}

void SessionPair::take_from_link(SessionEnd& end, base::ByteView carried) {
    const size_t length = carried[0];
    const std::string text(carried.begin() + 1,
                           carried.begin() + 1 + static_cast<ptrdiff_t>(length));
    const base::Endpoint address = *base::Endpoint::parse(text);
    const base::ByteView bytes = carried.subspan(1 + length);
    if (end.role == path::Role::Snapt) {
        inject(end, {bytes.begin(), bytes.end()}, address);
        return;
    }
    if (is_at(node_address, address) || path_at(address)) {
        inject(end, {bytes.begin(), bytes.end()}, snapt_address, path_at(address));
    } else {
        ++misdirected;
    }
}

void SessionPair::inject(SessionEnd& to,
                         std::vector<uint8_t> datagram,
                         const base::Endpoint& from,
                         std::optional<uint8_t> path) {
    session::ReceivedDatagram received;
    received.bytes = base::MutableByteView(datagram);
    received.from = from;
    received.to = {base::IpAddress::any(base::IpVersion::V4), 0};
    if (to.role == path::Role::Node) {
        received.arrived_on = path ? path : to.session->paths().active();
    }
    to.session->on_datagrams(std::span(&received, 1), now);
}

void SessionPair::run_for(base::Duration span) {
    const TimePoint end = now + span;
    for (;;) {
        pump(node);
        pump(snapt);
        TimePoint next = std::min({up.next_due(), down.next_due(), node.session->next_deadline(now),
                                   snapt.session->next_deadline(now)});
        for (const auto& [path, links] : path_links) {
            next = std::min({next, links.up.next_due(), links.down.next_due()});
        }
        if (next > end) {
            now = end;
            return;
        }
        now = std::max(next, now + base::microseconds(10));
        take_all(up, snapt);
        take_all(down, node);
        for (auto& [path, links] : path_links) {
            take_all(links.up, snapt);
            take_all(links.down, node);
        }
        node.session->on_timeout(now);
        snapt.session->on_timeout(now);
    }
}

void SessionPair::take_all(LinkModel& link, SessionEnd& end) {
    while (auto packet = link.receive(now)) {
        take_from_link(end, packet->bytes);
    }
}

}  // namespace continuo::tests
