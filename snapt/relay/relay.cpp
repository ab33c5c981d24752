#include "snapt/relay/relay.hpp"

#include "common/base/log.hpp"
#include "common/dataplane/flow_tracking.hpp"
#include "common/packet/rewrite.hpp"

#include <algorithm>

namespace continuo::snapt::relay {

using base::DropReason;
using base::TimePoint;
using flow::Direction;
using flow::Flow;
using packet::NodeSide;

namespace {

constexpr base::Duration kHousekeepingInterval = base::milliseconds(500);
// Packets that justify a pass over all sessions; after a smaller batch there is none for a while.
constexpr size_t kWorthAPass = 8;
constexpr base::Duration kNextPassAfter = base::milliseconds(5);

}  // namespace

Relay::Relay(io::EventLoop& loop,
             const RelaySettings& settings,
             flow::SlotSource& slots,
             base::Random& random,
             RelayEvents& events)
    : loop_(loop)
    , settings_(settings)
    , random_(random)
    , events_(events)
    , engine_(loop,
              *this,
              drops_,
              {kSmallPackets, kLargePackets, settings.max_kept_bytes, settings.recording.packets},
              &inputs_)
    , slots_(slots, settings.max_flows)
    , flows_(settings.max_flows, slots_, {.hash_seed = random.u64(), .drops = &drops_})
    , housekeeping_(loop, [this] { on_housekeeping(); })
    , input_timer_(loop, [this] { go_on(); })
    , modes_timer_(loop, [this] { apply_modes(); })
    , by_wire_id_(size_t{UINT16_MAX} + 1)
    , left_(random.u64()) {
    engine_.driver().set_clock(settings_.clock);
}

Relay::~Relay() {
    while (!sessions_.empty()) {
        close(sessions_.back()->wire_id);
    }
    inputs_.clear(strangers_.queue);
}

base::Result<void> Relay::start(std::string& failure) {
    failure = "cannot open TUN device " + settings_.device;
    host::TunOptions options;
    options.persistent = true;
    options.mtu = settings_.inner_mtu;
    CTN_TRY(engine_.open_tun(
        settings_.device, options,
        [this](const packet::FrameInfo& info, bool written) { on_written(info, written); },
        [this] { on_tun_readable(); }));
    engine_.tun().set_make_room([this](bool is_large) { return make_room(is_large); });
    engine_.tun().set_hold_back([this](base::ByteView frame, const packet::FrameInfo& info) {
        return holds_back(frame, info);
    });
    const auto offload = io::probe_udp_offload();
    for (const base::Endpoint& endpoint : settings_.listen) {
        failure = "cannot listen on UDP " + endpoint.to_string();
        io::UdpSocketOptions socket_options;
        socket_options.local = endpoint;
        socket_options.packet_info = true;
        socket_options.offload = offload;
        auto listener =
            std::make_unique<Listener>(Listener{CTN_TRY(io::UdpSocket::open(socket_options)),
                                                nullptr, static_cast<uint16_t>(listeners_.size())});
        Listener& ref = *listener;
        listener->poller = std::make_unique<io::Poller>(
            loop_, listener->socket.fd(), [this, &ref] { on_socket_readable(ref); },
            [this, &ref] {
                ref.poller->watch(true, false);
                engine_.pump();
            });
        listener->poller->watch(true);
        listeners_.push_back(std::move(listener));
    }
    engine_.watch_tun();
    housekeeping_.set(loop_.now() + kHousekeepingInterval);
    failure.clear();
    return {};
}

void Relay::on_tun_readable() {
    const TimePoint now = loop_.now();
    const bool is_sole = receivers_.is_sole(now);
    const TimePoint until = settings_.clock() + (is_sole ? kRound : kSharedRound);
    const auto has_time = [&] { return settings_.clock() < until; };
    // While others send, each packet seems to follow a pause, and would be read alone.
    const bool is_stream = !is_sole || !turns_.is_empty();
    loop_.note_moved(engine_.tun().read_burst(
        now, is_stream, is_sole ? dataplane::kTunBurst : kTunPackets,
        [&](packet::PacketPtr packet) { on_tun_packet(std::move(packet), now); },
        [&] {
            engine_.pump(now);
            return has_time();
        },
        has_time));
    engine_.pump(now);
}

// Packets for a node that takes nothing must not block those of others.
bool Relay::make_room(bool is_large) {
    if (loop_.now() < no_room_until_) {
        return false;
    }
    session::Session* fattest = nullptr;
    uint64_t most = 0;
    for (const auto& node : sessions_) {
        const uint64_t held =
            is_large ? node->session.queued_bytes() : node->session.queued_packets();
        if (held > most) {
            most = held;
            fattest = &node->session;
        }
    }
    const size_t dropped = fattest != nullptr ? fattest->shed(is_large) : 0;
    if (dropped < kWorthAPass) {
        no_room_until_ = loop_.now() + kNextPassAfter;
    }
    return dropped > 0;
}

void Relay::on_tun_packet(packet::PacketPtr packet, TimePoint now) {
    packet::SummaryResult result = packet::summarize(packet->bytes(), NodeSide::Destination);
    if (!result.summary) {
        drops_.add(result.error == packet::SummaryError::Malformed
                       ? DropReason::MalformedPacket
                       : DropReason::UnsupportedProtocol);
        return;
    }
    packet::PacketSummary& summary = *result.summary;
    const auto node = by_lease_.find(summary.tuple.local);
    if (node == by_lease_.end()) {
        drops_.add(DropReason::NoSession);
        return;
    }
    receivers_.note(node->second, now);
    if (!find_first(node->second->share->fragments_down, summary, now)) {
        return;
    }
    if (is_stopped(*node->second)) {
        refuse_down(*node->second, summary, packet->bytes(), now);
        return;
    }
    follow_meter(*node->second->share);
    Flow* flow = flows_.find(summary.tuple);
    if (flow == nullptr && summary.is_icmp_error) {
        drops_.add(DropReason::NoBinding);  // belongs to no flow: nobody here has asked for it
        return;
    }
    if (flow == nullptr) {
        flow = make_flow_of_answer(*node->second, summary.tuple, now);
        if (flow == nullptr) {
            return;
        }
    }
    flows_.on_packet(*flow, Direction::Down, summary, now);
    if ((summary.tcp_flags & packet::tcp_flag::kSyn) != 0) {
        const auto destination =
            node->second->session.paths().destination(flow->traffic_class, now);
        packet::clamp_mss(packet->bytes(),
                          session::largest_segment(destination.value_or(session::Destination{}),
                                                   flow->paths.mode),
                          packet->offload.partial_checksum);
    }
    node->second->session.on_packet(*flow, std::move(packet), now);
    engine_.touch(node->second->session);
}

Flow* Relay::on_flow_opened(session::Session& session,
                            const session::FlowOpening& opening,
                            TimePoint now) {
    NodeSession& node = owner_of(session);
    Flow* flow = flows_.find(opening.tuple);
    // A version without a lease has no address; another node's flow cannot be used.
    if (opening.tuple.local.is_unspecified() || (flow != nullptr && flow->details != &node)) {
        drops_.add(DropReason::SpoofedSource);
        return nullptr;
    }
    // Where the node's word of its end was lost.
    Flow* former = session.flow_at(opening.index);
    if (former != nullptr && former != flow) {
        flows_.on_ended_there(*former, now);
    }
    if (flow == nullptr && !opening.has_packet && now >= node.drains_from) {
        return nullptr;  // the packet decides
    }
    if (flow == nullptr) {
        const uint8_t flags = opening.fields != nullptr ? opening.fields->flags : uint8_t{0};
        if (takes_flow(node, opening.tuple, flags, now)) {
            flow = make_flow(node, opening.tuple, opening.traffic_class, opening.open,
                             opening.index, now);
        }
        if (flow == nullptr) {
            answer_refused(node, opening, now);
        }
        return flow;
    }
    flow->app = opening.open.app;
    session.set_mode(*flow, node.mode_of(flow->app));
    on_other_class(session, *flow, opening.traffic_class, now);
    if (flow->owner == &session && flow->index == opening.index) {
        return flow;
    }
    // Known only by its tuple so far, or under another index.
    if (flow->owner == &session) {
        session.detach(*flow, now);
    }
    flow->index = opening.index;
    return session.attach(*flow) ? flow : nullptr;
}

// A flow takes the class of the packets it sends, whatever it was opened with. Classes are served
// in order: a change to an earlier one applies at once, to a later one when the class has not
// changed for a while.
void Relay::on_other_class(session::Session& session,
                           Flow& flow,
                           base::TrafficClass traffic_class,
                           TimePoint now) {
    const bool is_earlier = base::index_of(traffic_class) < base::index_of(flow.traffic_class);
    if (flow.traffic_class == traffic_class ||
        (!is_earlier && now - flow.class_changed_at < kClassStays)) {
        return;
    }
    engine_.flush(flow);  // earlier packets belong to the former class
    const base::TrafficClass former = flow.traffic_class;
    if (flows_.reclassify(flow, traffic_class, now)) {
        flow.class_changed_at = now;
        session.requeue(flow, former);
    }
}

Flow* Relay::find_flow(session::Session& session, const packet::FiveTuple& tuple) {
    Flow* flow = flows_.find(tuple);
    return flow != nullptr && flow->details == &owner_of(session) ? flow : nullptr;
}

void Relay::deliver(session::Session& /*session*/,
                    Flow& flow,
                    const packet::HeaderFields& fields,
                    base::ByteView payload,
                    TimePoint now) {
    NodeSession& node = *flow::details_as<NodeSession>(flow);
    if (is_stopped(node)) {
        refuse_up(node, flow, fields, now);
        return;
    }
    if (!may_go_up(flow, fields.header_bytes() + payload.size(), now)) {
        return;
    }
    dataplane::track(flows_, flow, Direction::Up, fields, now);
    engine_.deliver(fields, payload, flow);
}

// The ports of a fragment. Returns false if its first fragment is unknown.
bool Relay::find_first(std::unique_ptr<flow::FragmentCache>& fragments,
                       packet::PacketSummary& summary,
                       TimePoint now) {
    if (!summary.is_fragment) {
        return true;
    }
    if (fragments == nullptr) {
        fragments = std::make_unique<flow::FragmentCache>(kUserFragments);
    }
    if (!fragments->resolve(summary, now)) {
        drops_.add(DropReason::NoBinding);
        return false;
    }
    return true;
}

Flow* Relay::deliver_whole(session::Session& session,
                           base::TrafficClass traffic_class,
                           base::MutableByteView packet,
                           TimePoint now) {
    const auto result = packet::summarize(packet, NodeSide::Source);
    if (!result.summary) {
        drops_.add(DropReason::MalformedPacket);
        return nullptr;
    }
    packet::PacketSummary summary = *result.summary;
    NodeSession& node = owner_of(session);
    if (!find_first(node.share->fragments_up, summary, now)) {
        return nullptr;
    }
    if (summary.tuple.local.is_unspecified()) {
        drops_.add(DropReason::SpoofedSource);  // the node has no lease for this version
        return nullptr;
    }
    if (is_stopped(node)) {
        drops_.add(DropReason::UsedUp);
        answer_refused(node, packet, now);
        return nullptr;
    }
    Flow* flow = flows_.find(summary.tuple);
    if (flow == nullptr && summary.is_icmp_error) {
        drops_.add(DropReason::NoBinding);
        return nullptr;
    }
    if (flow == nullptr) {
        if (takes_flow(node, summary.tuple, summary.tcp_flags, now)) {
            flow =
                make_flow(node, summary.tuple, traffic_class, {}, elision::kMaxFlowIndex + 1, now);
        }
        if (flow == nullptr) {
            answer_refused(node, packet, now);
            return nullptr;
        }
    }
    if (flow->details != &node) {
        drops_.add(DropReason::SpoofedSource);
        return nullptr;
    }
    if (!summary.is_icmp_error) {
        on_other_class(session, *flow, traffic_class, now);
    }
    if (flows_.on_packet(*flow, Direction::Up, summary, now) ==
        flow::PacketVerdict::NewConnection) {
        const uint32_t index = flow->owner != nullptr ? flow->index : elision::kMaxFlowIndex + 1;
        const elision::OpenInfo open{flow->app, false};
        note_ended(*flow, now);
        end_flow(*flow, now);
        flows_.erase(*flow);
        flow = takes_flow(node, summary.tuple, summary.tcp_flags, now)
                   ? make_flow(node, summary.tuple, traffic_class, open, index, now)
                   : nullptr;
        if (flow == nullptr) {
            answer_refused(node, packet, now);
            return nullptr;
        }
        flows_.on_packet(*flow, Direction::Up, summary, now);
    }
    if (may_go_up(*flow, packet.size(), now)) {
        engine_.deliver_whole(packet, summary.payload_offset, *flow);
    }
    return flow;
}

// At once: the node needs the place.
void Relay::on_flows_closed(session::Session& session, Flow& flow, TimePoint now) {
    session.detach(flow, now, session::EndNotice::None);
    note_ended(flow, now);
    end_flow(flow, now);
    flows_.erase(flow);
}

void Relay::on_path_changed(session::Session& session, uint8_t /*path*/, TimePoint /*now*/) {
    events_.on_session_moved(owner_of(session));
}

void Relay::on_path_silent(session::Session& session, uint8_t /*path*/, TimePoint /*now*/) {
    events_.on_session_silent(owner_of(session));
}

void Relay::on_peer_closed(session::Session& session, TimePoint /*now*/) {
    // Runs inside the session's own call: the session ends after it returns. By then it may have
    // ended otherwise, and another may have its id.
    const NodeSession& node = owner_of(session);
    loop_.post([this, wire_id = node.wire_id, number = node.number] {
        const NodeSession* const now = find(wire_id);
        if (now != nullptr && now->number == number) {
            close(wire_id, SessionEnd::Left);
        }
    });
}

void Relay::on_written(const packet::FrameInfo& info, bool written) {
    if (const Flow* flow = dataplane::count_written(info, written, Direction::Up)) {
        auto* node = flow::details_as<NodeSession>(*flow);
        node->up_bytes += info.inner_bytes;
        node->up_class_bytes[base::index_of(flow->traffic_class)] += info.inner_bytes;
    }
}

// Answers leave from the address and port that the node knows.
io::UdpSocket* Relay::socket_for(const session::TransmitItem& item) {
    io::UdpSocket* other = nullptr;
    for (const auto& listener : listeners_) {
        const base::Endpoint& local = listener->socket.local();
        if (local.address.version != item.to.address.version) {
            continue;
        }
        if (local.port == item.from.port &&
            (local.address.is_unspecified() || local.address == item.from.address)) {
            return &listener->socket;
        }
        other = other == nullptr ? &listener->socket : other;
    }
    return other;
}

void Relay::wait_writable(io::UdpSocket& socket) {
    for (const auto& listener : listeners_) {
        if (&listener->socket == &socket) {
            listener->poller->watch(true, true);
        }
    }
}

void Relay::on_too_big(const session::TransmitItem& item) {
    engine_.on_too_big(item);
}

void Relay::on_housekeeping() {
    const TimePoint now = loop_.now();
    housekeeping_.set(now + kHousekeepingInterval);
    engine_.flush();
    flows_.expire(now, [&](Flow& flow) {
        note_ended(flow, now, may_stay_with_nat(flow));
        end_flow(flow, now);
    });
    look_at_left(now);
    tell_gone();
    for (size_t i = sessions_.size(); i-- > 0;) {
        NodeSession& node = *sessions_[i];
        node.session.unheard().look(now);
        if (now - node.heard_at() > settings_.idle_timeout) {
            close(node.wire_id, SessionEnd::Idle);
        }
    }
}

}  // namespace continuo::snapt::relay
