#include "cnapt/node/node.hpp"

#include "common/base/log.hpp"
#include "common/dataplane/epoch_install.hpp"
#include "common/dataplane/flow_tracking.hpp"
#include "common/packet/rewrite.hpp"
#include "common/wire/unsealed.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::DropReason;
using base::TimePoint;
using flow::Flow;
using tunnel::Session;
using uplinks::Uplink;

namespace {

constexpr base::Duration kHousekeepingInterval = base::milliseconds(500);
constexpr base::Duration kDoubtInterval = base::seconds(1);
// The node ignores which of its ports a datagram came to.
constexpr uint16_t kNoPort = 0;
// A link without an uplink for this long is lost; before that a new address may come.
constexpr base::Duration kMaxWithoutUplink = base::seconds(10);
// Most packets per wake-up: with more, the device's queue could overflow meanwhile.
constexpr size_t kMostBeforeRest = 12;
// A shorter pause saves nothing.
constexpr base::Duration kShortestRest = base::microseconds(100);

// A path that is dead may come back soon: control and flows stay meanwhile.
bool is_without_way(const SnaptLink& link) {
    const auto active = link.session ? link.session->paths().active() : std::nullopt;
    return link.session && link.moving_since != base::kNever &&
           (!active || link.session->paths().path(*active).state() == path::PathState::Dead);
}

}  // namespace

Node::Node(io::EventLoop& loop,
           const NodeSettings& settings,
           base::Random& random,
           NodeEvents& events)
    : loop_(loop)
    , settings_(settings)
    , random_(random)
    , events_(events)
    , engine_(loop,
              *this,
              drops_,
              {kSmallPackets, kLargePackets, session::kMaxKeptBytes, settings.recording.packets})
    , admission_(
          {loop, engine_, drops_, random, links_},
          {settings.ipv4, settings.ipv6, settings.max_flows, settings.journal,
           !settings.uplinks.lan.empty()},
          [this](SnaptLink& link, TimePoint now) { choice_->note_need(link, now); },
          [this](SnaptLink& link, uint16_t tag, const std::string& name, base::PathMode mode) {
              events_.on_new_app(link, tag, name, mode);
          })
    , housekeeping_(loop, [this] { on_housekeeping(); })
    , pause_watcher_(loop, [this](base::Duration pause) { on_pause(pause); }) {}

Node::~Node() {
    admission_.end_all();
    for (const auto& link : links_) {
        if (link->session) {
            engine_.end(*link->session);
        }
    }
    links_.clear();  // sessions end before the table of flows
}

base::Result<void> Node::start(std::string& failure) {
    failure = "cannot open TUN device " + settings_.device;
    const auto on_written = [](const packet::FrameInfo& info, bool written) {
        dataplane::count_written(info, written, flow::Direction::Down);
    };
    CTN_TRY(engine_.open_tun(settings_.device, {}, on_written, [this] { on_tun_readable(); }));
    CTN_TRY(admission_.start(failure));
    failure = "cannot follow network changes";
    uplinks_ = std::make_unique<uplinks::Uplinks>(
        loop_, settings_.uplinks,
        [this](const Uplink& uplink, io::UdpSocket& socket) { on_socket_readable(uplink, socket); },
        [this] { engine_.pump(); });
    wireless_ = std::make_unique<WirelessHints>(
        loop_, links_, *uplinks_,
        [this](const uplinks::Uplinks::Change& change) { update_all_paths(change, loop_.now()); },
        [this](SnaptLink& link) {
            choice_->choose(link, loop_.now());
            engine_.pump();
        });
    monitor_ = CTN_TRY(netlink::NetMonitor::start(
        loop_, [](const netlink::NetEvent&) {}, [this] { on_network_changed(); },
        netlink::RouteInterest{snapt_addresses(links_), uplinks::kind_of_route}));
    paths_ = std::make_unique<LinkPaths>(links_, *uplinks_, *monitor_);
    const ChoiceParts parts{loop_, engine_, links_, *uplinks_, *monitor_, *paths_, events_};
    choice_ = std::make_unique<LinkChoice>(parts);
    streams_ = std::make_unique<LinkStreams>(parts, *choice_);
    on_network_changed();
    engine_.watch_tun();
    housekeeping_.set(loop_.now() + kHousekeepingInterval);
    failure.clear();
    return {};
}

SnaptLink& Node::add_link(std::string name, const base::Endpoint& address) {
    auto link = std::make_unique<SnaptLink>();
    link->name = std::move(name);
    link->addresses = uplinks::SnaptAddresses(address);
    const auto is_taken = [&](uint16_t id) {
        return id == 0 || std::any_of(links_.begin(), links_.end(),
                                      [&](const auto& other) { return other->local_id == id; });
    };
    do {
        link->local_id = static_cast<uint16_t>(random_.u64());
    } while (is_taken(link->local_id));
    links_.push_back(std::move(link));
    return *links_.back();
}

base::Result<void>
Node::establish(SnaptLink& link, const control::Accept& accept, const control::EpochKeys& keys) {
    auto install = CTN_TRY(
        dataplane::make_install(path::Role::Node, accept.protection, keys,
                                {settings_.recording.keys, accept.wire_session_up, link.local_id}));
    const TimePoint now = loop_.now();
    if (link.session == nullptr || !accept.continued ||
        link.session->settings().peer_id != accept.wire_session_up) {
        session::SessionSettings settings;
        settings.role = path::Role::Node;
        settings.local_id = link.local_id;
        settings.peer_id = accept.wire_session_up;
        settings.node_ipv4 = settings_.ipv4;
        settings.node_ipv6 = settings_.ipv6;
        settings.classes = settings_.classes;
        settings.memory = &engine_.kept_memory();
        settings.keepalive = base::seconds(accept.keepalive_s);
        settings.rekey_datagrams = accept.rekey_datagrams;
        settings.is_readable = accept.protection.kind == control::ProtectionKind::HmacSha256;
        auto fresh = std::make_unique<Session>(settings, *this, engine_.scratch(), random_);
        if (link.is_learned) {
            fresh->upkeep().keep_alive_for_flows_only();
        }
        const std::unique_ptr<Session> former = std::move(link.session);
        link.session = std::move(fresh);
        engine_.add(*link.session);
        link.choice = {};
        if (former) {
            admission_.move_flows(link, *former, now);
            engine_.end(*former);
            link.rates.restart();
        }
    }
    link.accept = accept;
    link.is_control_open = true;
    link.session->install_epoch(std::move(install), now);
    admission_.tell_apps(link);
    paths_->add(link, now);  // open_stream() follows, which chooses one
    engine_.touch(*link.session);
    engine_.pump(now);
    return {};
}

base::Result<void> Node::rekey(SnaptLink& link, const control::EpochKeys& keys) {
    if (link.session == nullptr) {
        return base::Error{base::Errc::InvalidState, "no session"};
    }
    auto install = CTN_TRY(dataplane::make_install(
        path::Role::Node, link.accept.protection, keys,
        {settings_.recording.keys, link.accept.wire_session_up, link.local_id}));
    link.session->install_epoch(std::move(install), loop_.now());
    engine_.touch(*link.session);
    engine_.pump();
    return {};
}

void Node::request_keepalive(SnaptLink& link) {
    if (link.session) {
        link.session->upkeep().request_keepalive(loop_.now());
        engine_.touch(*link.session);
        engine_.pump();
    }
}

void Node::ask(SnaptLink& link) {
    if (link.session && link.active_slot() && !link.is_on_stream()) {
        link.session->paths().node().ask(*link.active_slot(), loop_.now());
        engine_.touch(*link.session);
        engine_.pump();
    }
}

void Node::remove_link(const SnaptLink& link) {
    CTN_ASSERT(!admission_.has_flows(link));
    if (link.session) {
        engine_.end(*link.session);
    }
    monitor_->watch(&link, {});
    std::erase_if(links_, [&link](const auto& other) { return other.get() == &link; });
}

void Node::on_socket_readable(const Uplink& uplink, io::UdpSocket& socket) {
    const TimePoint now = loop_.now();
    loop_.note_moved(engine_.receiver().receive(
        socket, now, [&](const io::ReceivedBatch& batch) { on_datagrams(uplink, batch, now); }));
    engine_.flush();
    engine_.pump(now);
}

void Node::on_datagrams(const Uplink& uplink, const io::ReceivedBatch& batch, TimePoint now) {
    const auto find = [this](uint16_t id) -> Session* {
        const auto link = std::find_if(links_.begin(), links_.end(),
                                       [&](const auto& l) { return l->local_id == id; });
        return link == links_.end() ? nullptr : (*link)->session.get();
    };
    const auto hand_over = [&](Session& session, std::span<session::ReceivedDatagram> datagrams) {
        for (session::ReceivedDatagram& datagram : datagrams) {
            datagram.arrived_on = uplink.slot;
        }
        session.on_datagrams(datagrams, now);
        engine_.touch(session);
    };
    const auto stray = [&](wire::DatagramKind kind, const session::ReceivedDatagram& datagram) {
        if (kind == wire::DatagramKind::Unsealed) {
            on_unsealed(datagram.bytes, now);
        }
        return kind == wire::DatagramKind::Unsealed;
    };
    engine_.receiver().split(batch, kNoPort, find, hand_over, stray);
}

// Not authenticated: at most a reason to ask over control, and rarely.
void Node::on_unsealed(base::ByteView datagram, TimePoint now) {
    const auto message = wire::parse_unsealed(datagram);
    const auto* unknown = message ? std::get_if<wire::Unknown>(&*message) : nullptr;
    if (unknown == nullptr) {
        return;
    }
    for (const auto& link : links_) {
        if (link->session && now - link->doubted_at >= kDoubtInterval &&
            link->session->epochs().may_have_sent(unknown->quote)) {
            link->doubted_at = now;
            events_.on_session_doubted(*link);
        }
    }
}

void Node::on_tun_readable() {
    const TimePoint now = loop_.now();
    const bool is_stream = loop_.is_steady();
    const uint64_t waiting = is_stream ? queued_bytes() : 0;
    for (const auto& link : links_) {
        if (link->session) {
            link->session->set_arrivals_gathered(loop_.has_rested());
        }
    }
    size_t packets = 0;
    const size_t bytes = engine_.tun().read_burst(
        now, is_stream, dataplane::kTunBurst,
        [&](packet::PacketPtr packet) {
            ++packets;
            admission_.on_packet(std::move(packet), now);
        },
        [&] {
            engine_.pump(now);
            return true;
        },
        [] { return true; });
    loop_.note_moved(bytes);
    engine_.flush();  // replies to refused flows
    engine_.pump(now);
    if (is_stream && packets <= kMostBeforeRest && queued_bytes() == waiting + bytes) {
        rest(now);
    }
}

uint64_t Node::queued_bytes() const {
    uint64_t bytes = 0;
    for (const auto& link : links_) {
        bytes += link->session ? link->session->queues().bytes() : 0;
    }
    return bytes;
}

// All packets that just came are held, and so will be the next ones. Nothing is due before the hold
// of the first one ends.
void Node::rest(TimePoint now) {
    base::Duration least = io::kLongestRest;
    for (const auto& link : links_) {
        if (const auto patience =
                link->session ? link->session->queues().patience(now) : std::nullopt) {
            least = std::min(least, *patience);
        }
    }
    if (least >= kShortestRest && !engine_.driver().is_holding()) {
        loop_.rest(least);
    }
}

SnaptLink* Node::link_of(const Session& session) const {
    for (const auto& link : links_) {
        if (link->session.get() == &session) {
            return link.get();
        }
    }
    CTN_ASSERT(false);
    return nullptr;
}

Flow* Node::on_flow_opened(Session& session,
                           const session::FlowOpening& opening,
                           TimePoint /*now*/) {
    return admission_.flow_of(session, opening.tuple);
}

Flow* Node::find_flow(Session& session, const packet::FiveTuple& tuple) {
    return admission_.flow_of(session, tuple);
}

void Node::deliver(Session& /*session*/,
                   Flow& flow,
                   const packet::HeaderFields& fields,
                   base::ByteView payload,
                   TimePoint now) {
    if (admission::is_unknown(flow)) {
        drops_.add(DropReason::NoBinding);
        return;
    }
    dataplane::track(admission_.flows(), flow, flow::Direction::Down, fields, now);
    engine_.deliver(fields, payload, flow);
}

// A packet without a flow is unsolicited: a SNAPT cannot open connections to the node.
Flow* Node::deliver_whole(Session& session,
                          base::TrafficClass /*traffic_class*/,
                          base::MutableByteView packet,
                          TimePoint now) {
    const auto summary =
        dataplane::identify(packet, packet::NodeSide::Destination, fragments_, drops_, now);
    if (!summary) {
        return nullptr;
    }
    SnaptLink& link = *link_of(session);
    Flow* flow = admission_.flow_of(session, summary->tuple);
    if (flow == nullptr) {
        flow = admission_.on_stray(link, *summary, packet, now);
    }
    if (flow == nullptr) {
        return nullptr;
    }
    admission_.flows().on_packet(*flow, flow::Direction::Down, *summary, now);
    if ((summary->tcp_flags & packet::tcp_flag::kSyn) != 0 &&
        (flow->paths.mode == base::PathMode::Packet || link.addresses.has(base::IpVersion::V6))) {
        // SNAPT may not have known the mode yet, nor that other uplinks have IPv6.
        packet::clamp_mss(packet, link.largest_segment(*flow, now), false);
    }
    engine_.deliver_whole(packet, summary->payload_offset, *flow);
    return flow;
}

void Node::on_flows_closed(Session& /*session*/, Flow& flow, TimePoint now) {
    admission_.flows().on_ended_there(flow, now);
}

void Node::on_peer_closed(Session& session, TimePoint /*now*/) {
    SnaptLink* link = link_of(session);
    loop_.post([this, link] { events_.on_session_doubted(*link); });
}

io::UdpSocket* Node::socket_for(const session::TransmitItem& item) {
    Uplink* uplink = uplinks_->at(item.path);
    return uplink == nullptr ? nullptr : &uplink->ports[base::index_of(item.traffic_class)]->socket;
}

std::optional<uint8_t> Node::tos_of(const session::TransmitItem& item) {
    const uint8_t tos = settings_.uplinks.tos[base::index_of(item.marked_class)];
    const bool has_own = !item.is_unmarked && !has_new_marks_;  // as the socket is set
    return has_own ? std::nullopt : std::optional(item.is_unmarked ? uint8_t{0} : tos);
}

bool Node::send_stream(const session::TransmitItem& item, base::ByteView bytes) {
    return streams_->send(*link_of(*item.session), item, bytes);
}

void Node::wait_writable(io::UdpSocket& socket) {
    uplinks_->wait_writable(socket);
}

void Node::on_too_big(const session::TransmitItem& item) {
    engine_.on_too_big(item);
}

void Node::look_at_rates(TimePoint now) {
    uint64_t up_bytes = 0;
    for (const report::ClassFigures& figures : engine_.sent()) {
        up_bytes += figures.inner_bytes;
    }
    rates_.look(up_bytes, engine_.received().inner_bytes, now);
    for (const auto& link : links_) {
        if (link->session) {
            link->rates.look(*link->session, now);
        }
    }
}

void Node::on_housekeeping() {
    const TimePoint now = loop_.now();
    housekeeping_.set(now + kHousekeepingInterval);
    engine_.flush();
    admission_.expire(now);
    wireless_->ask_signals(now);
    follow_snapt_addresses();
    for (const auto& link : links_) {
        if (link->session) {
            link->rates.measure_throughput(*link->session, now);
        }
        choice_->choose(*link, now);
        if (link->session && paths_->remove_spare(*link)) {
            engine_.touch(*link->session);
        }
        if (is_without_way(*link) && now - link->moving_since >= kMaxWithoutUplink) {
            lose_link(*link);
        }
    }
    engine_.pump(now);
}

void Node::set_classes(const dataplane::ClassTable& table) {
    settings_.classes = table.settings;
    has_new_marks_ = has_new_marks_ || settings_.uplinks.tos != table.tos;
    settings_.uplinks.tos = table.tos;
    for (const auto& link : links_) {
        if (link->session) {
            link->session->set_class_settings(table.settings);
        }
    }
}

}  // namespace continuo::cnapt::node
