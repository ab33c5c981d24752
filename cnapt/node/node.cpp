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
using session::Session;
using uplinks::Uplink;

namespace {

constexpr base::Duration kHousekeepingInterval = base::milliseconds(500);
constexpr base::Duration kDoubtInterval = base::seconds(1);
constexpr base::Duration kThroughputInterval = base::seconds(1);
// The node ignores which of its ports a datagram came to.
constexpr uint16_t kNoPort = 0;
// A link without an uplink for this long is lost; before that a new address may come.
constexpr base::Duration kMaxWithoutUplink = base::seconds(10);
constexpr size_t kWorkerQueue = 1024;

}  // namespace

Node::Node(io::EventLoop& loop,
           const NodeSettings& settings,
           base::Random& random,
           NodeEvents& events)
    : loop_(loop)
    , settings_(settings)
    , random_(random)
    , events_(events)
    , pool_(kSmallPackets, kLargePackets)
    , slots_(settings.max_flows)
    , flows_(settings.max_flows, slots_, {.hash_seed = random.u64(), .drops = &drops_})
    , receiver_(drops_)
    , driver_(loop, *this, drops_)
    , housekeeping_(loop, [this] { on_housekeeping(); })
    , wait_timer_(loop, [this] { on_wait_over(); })
    , choice_timer_(loop, [this] { on_choice_due(); })
    , pause_watcher_(loop, [this](base::Duration pause) { on_pause(pause); }) {
    scratch_.load.measure_with(io::EventLoop::clock);
    receiver_.record_to(settings.recording.packets);
    driver_.record_to(settings.recording.packets);
}

Node::~Node() {
    worker_.reset();
    journal_.reset();  // the bindings outlive this process
    const TimePoint now = loop_.now();
    flows_.for_each([&](Flow& flow) {
        end_flow(flow, now);
        flows_.erase(flow);
    });
    for (const auto& link : links_) {
        if (link->session) {
            driver_.remove(*link->session);
        }
    }
}

base::Result<void> Node::start(std::string& failure) {
    failure = "cannot open TUN device " + settings_.device;
    tun_ = std::make_unique<io::TunDevice>(CTN_TRY(io::TunDevice::open(settings_.device, {})));
    tun_port_ = std::make_unique<dataplane::TunPort>(
        *tun_, pool_, drops_, [](const packet::FrameInfo& info, bool written) {
            dataplane::count_written(info, written, flow::Direction::Down);
        });
    tun_port_->record_to(settings_.recording.packets);
    tun_poller_ = std::make_unique<io::Poller>(loop_, tun_->fd(), [this] { on_tun_readable(); });
    if (!settings_.journal.empty()) {
        failure = "cannot use " + settings_.journal;
        journal_ = CTN_TRY(BindingJournal::open(settings_.journal, settings_.max_flows, random_));
    }
    failure = "cannot look up processes";
    lookup_ = std::make_shared<io::ProcessLookup>(CTN_TRY(io::ProcessLookup::open()));
    if (is_gateway()) {
        failure = "cannot ask for connections of the LAN";
        tracking_ = std::make_shared<io::NetfilterClient>(CTN_TRY(io::NetfilterClient::open()));
    }
    worker_ = std::make_unique<io::WorkerThread>(loop_, "cnapt-lookup", kWorkerQueue);
    failure = "cannot follow network changes";
    uplinks_ = std::make_unique<uplinks::Uplinks>(
        loop_, settings_.uplinks,
        [this](const Uplink& uplink, io::UdpSocket& socket) { on_socket_readable(uplink, socket); },
        [this] { driver_.pump(loop_.now()); });
    monitor_ = CTN_TRY(io::NetMonitor::start(
        loop_, [](const io::NetEvent&) {}, [this] { on_network_changed(); },
        io::RouteInterest{snapt_addresses(), uplinks::kind_of_route}));
    on_network_changed();
    tun_poller_->watch(true);
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
        dataplane::make_install(session::Role::Node, accept.protection, keys,
                                {settings_.recording.keys, accept.wire_session_up, link.local_id}));
    const TimePoint now = loop_.now();
    if (link.session == nullptr || !accept.continued ||
        link.session->settings().peer_id != accept.wire_session_up) {
        session::SessionSettings settings;
        settings.role = session::Role::Node;
        settings.local_id = link.local_id;
        settings.peer_id = accept.wire_session_up;
        settings.node_ipv4 = settings_.ipv4;
        settings.node_ipv6 = settings_.ipv6;
        settings.classes = settings_.classes;
        settings.memory = &kept_memory_;
        settings.keepalive = base::seconds(accept.keepalive_s);
        settings.rekey_datagrams = accept.rekey_datagrams;
        settings.is_readable = accept.protection.kind == control::ProtectionKind::HmacSha256;
        auto fresh = std::make_unique<Session>(settings, *this, scratch_, random_);
        if (link.is_learned) {
            fresh->keep_alive_for_flows_only();
        }
        const std::unique_ptr<Session> former = std::move(link.session);
        link.session = std::move(fresh);
        driver_.add(*link.session);
        link.choice = {};
        // Flows keep their SNAPT and go on in the new association.
        if (former) {
            flows_.for_each([&](Flow& flow) {
                auto* node_flow = flow::details_as<NodeFlow>(flow);
                const bool is_bound =
                    node_flow->link == &link && flow.state != flow::FlowState::Refused;
                if (is_bound && (flow.owner == former.get() || flow.owner == nullptr)) {
                    former->detach(flow, now);
                    link.session->attach(flow);
                }
            });
            driver_.remove(*former);
            ended_.add(*former);
            link.measured_bytes = 0;
        }
    }
    link.accept = accept;
    link.is_control_open = true;
    link.session->install_epoch(std::move(install), now);
    name_apps(link);
    add_paths(link, now);  // open_stream() follows, which chooses one
    driver_.touch(*link.session);
    driver_.pump(now);
    return {};
}

base::Result<void> Node::rekey(SnaptLink& link, const control::EpochKeys& keys) {
    if (link.session == nullptr) {
        return base::Error{base::Errc::InvalidState, "no session"};
    }
    auto install = CTN_TRY(dataplane::make_install(
        session::Role::Node, link.accept.protection, keys,
        {settings_.recording.keys, link.accept.wire_session_up, link.local_id}));
    link.session->install_epoch(std::move(install), loop_.now());
    driver_.touch(*link.session);
    driver_.pump(loop_.now());
    return {};
}

void Node::request_keepalive(SnaptLink& link) {
    if (link.session) {
        link.session->request_keepalive(loop_.now());
        driver_.touch(*link.session);
        driver_.pump(loop_.now());
    }
}

void Node::ask(SnaptLink& link) {
    if (link.session && link.active_slot() && !link.is_on_stream()) {
        link.session->paths().ask(*link.active_slot(), loop_.now());
        driver_.touch(*link.session);
        driver_.pump(loop_.now());
    }
}

bool Node::has_listed_link() const {
    return std::any_of(links_.begin(), links_.end(),
                       [](const auto& link) { return fitness(*link) > Fitness::Unlisted; });
}

bool Node::has_flows(const SnaptLink& link) {
    if (link.session && link.session->flows() != 0) {
        return true;
    }
    bool is_bound = false;  // a refused one is, and not attached any more
    flows_.for_each([&](const Flow& flow) {
        is_bound = is_bound || flow::details_as<const NodeFlow>(flow)->link == &link;
    });
    return is_bound;
}

void Node::remove_link(const SnaptLink& link) {
    CTN_ASSERT(!has_flows(link));
    if (link.session) {
        driver_.remove(*link.session);
        ended_.add(*link.session);
    }
    monitor_->watch(&link, {});
    std::erase_if(links_, [&link](const auto& other) { return other.get() == &link; });
}

void Node::on_socket_readable(const Uplink& uplink, io::UdpSocket& socket) {
    const TimePoint now = loop_.now();
    loop_.note_moved(receiver_.receive(
        socket, now, [&](const io::ReceivedBatch& batch) { on_datagrams(uplink, batch, now); }));
    tun_port_->coalescer().flush();
    driver_.pump(now);
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
        driver_.touch(session);
    };
    const auto stray = [&](wire::DatagramKind kind, const session::ReceivedDatagram& datagram) {
        if (kind == wire::DatagramKind::Unsealed) {
            on_unsealed(datagram.bytes, now);
        }
        return kind == wire::DatagramKind::Unsealed;
    };
    receiver_.split(batch, kNoPort, find, hand_over, stray);
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
            link->session->may_have_sent(unknown->quote)) {
            link->doubted_at = now;
            events_.on_session_doubted(*link);
        }
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

// Every flow was made here and is bound to one SNAPT: packets from another one belong to no flow.
Flow* Node::flow_of(const Session& session, const packet::FiveTuple& tuple) {
    Flow* flow = flows_.find(tuple);
    const auto* node_flow = flow == nullptr ? nullptr : flow::details_as<const NodeFlow>(*flow);
    const bool is_bound_to_it = node_flow != nullptr && node_flow->link != nullptr &&
                                node_flow->link->session.get() == &session &&
                                !node_flow->is_unknown;
    return is_bound_to_it ? flow : nullptr;
}

Flow* Node::on_flow_opened(Session& session,
                           const session::FlowOpening& opening,
                           TimePoint /*now*/) {
    return flow_of(session, opening.tuple);
}

Flow* Node::find_flow(Session& session, const packet::FiveTuple& tuple) {
    return flow_of(session, tuple);
}

void Node::deliver(Session& /*session*/,
                   Flow& flow,
                   const packet::HeaderFields& fields,
                   base::ByteView payload,
                   TimePoint now) {
    if (is_unknown(flow)) {
        drops_.add(DropReason::NoBinding);
        return;
    }
    dataplane::track(flows_, flow, flow::Direction::Down, fields, now);
    tun_port_->coalescer().add(fields, payload, &flow);
}

// A flow that was bound to that SNAPT before this process started. The node may have nothing more
// to send, or sent it before there was a session, when it was dropped and the flow started unbound.
Flow* Node::resume_flow(const Session& session,
                        const packet::PacketSummary& summary,
                        TimePoint now) {
    if (!journal_ || !journal_->is_bound_to(summary.tuple, link_of(session)->name)) {
        return nullptr;
    }
    Flow* flow = flows_.find(summary.tuple);
    if (flow == nullptr) {
        return begin_flow(summary, now);
    }
    auto& node_flow = *flow::details_as<NodeFlow>(*flow);
    if (node_flow.link != nullptr || flow->state == flow::FlowState::Refused) {
        return nullptr;
    }
    if (node_flow.waits_until == base::kNever) {
        bind(node_flow, now);
    }
    return flow;
}

// A packet without a flow is unsolicited: a SNAPT cannot open connections to the node.
Flow* Node::deliver_whole(Session& session,
                          base::TrafficClass /*traffic_class*/,
                          base::MutableByteView packet,
                          TimePoint now) {
    const auto summary =
        dataplane::identify(packet, packet::NodeSide::Destination, fragments_down_, drops_, now);
    if (!summary) {
        return nullptr;
    }
    Flow* flow = flow_of(session, summary->tuple);
    if (flow == nullptr) {
        flow = resume_flow(session, *summary, now);
    }
    if (flow == nullptr) {
        drops_.add(DropReason::NoBinding);
        reset_unknown(*link_of(session), *summary, packet, now);
        return nullptr;
    }
    flows_.on_packet(*flow, flow::Direction::Down, *summary, now);
    const SnaptLink& link = *link_of(session);
    if ((summary->tcp_flags & packet::tcp_flag::kSyn) != 0 &&
        (flow->paths.mode == base::PathMode::Packet || link.addresses.has(base::IpVersion::V6))) {
        // SNAPT may not have known the mode yet, nor that other uplinks have IPv6.
        packet::clamp_mss(packet, largest_segment(link, *flow, now), false);
    }
    const size_t payload = packet.size() - std::min<size_t>(summary->payload_offset, packet.size());
    tun_port_->write_packet(packet, flow, payload);
    return flow;
}

void Node::on_flows_closed(Session& /*session*/, Flow& flow, TimePoint now) {
    flows_.on_ended_there(flow, now);
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

void Node::wait_writable(io::UdpSocket& socket) {
    uplinks_->wait_writable(socket);
}

void Node::on_too_big(const session::TransmitItem& item) {
    if (item.session != nullptr) {
        item.session->on_too_big(item, loop_.now());
        driver_.touch(*item.session);
    }
}

void Node::measure_throughput(SnaptLink& link, TimePoint now) {
    const base::Duration span = now - link.measured_at;
    if (!link.session || span < kThroughputInterval) {
        return;
    }
    const session::SessionCounters& counters = link.session->counters();
    uint64_t bytes = counters.bytes_received + counters.overhead_sent();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        bytes += link.session->class_counters(traffic_class).wire_bytes;
    }
    if (link.measured_at != TimePoint{} && bytes >= link.measured_bytes) {
        constexpr uint64_t kBitsPerByteAndSecond = 8'000'000;
        link.throughput_bits_per_s = (bytes - link.measured_bytes) * kBitsPerByteAndSecond /
                                     static_cast<uint64_t>(base::to_us(span));
    }
    link.measured_bytes = bytes;
    link.measured_at = now;
}

void Node::on_housekeeping() {
    const TimePoint now = loop_.now();
    housekeeping_.set(now + kHousekeepingInterval);
    tun_port_->coalescer().flush();
    flows_.expire(now, [&](Flow& flow) { end_flow(flow, now); });
    ask_signals(now);
    follow_snapt_addresses();
    for (const auto& link : links_) {
        measure_throughput(*link, now);
        choose(*link, now);
        remove_spare_paths(*link);
        const bool is_without_way = link->session && !link->session->paths().active();
        if (is_without_way && now - link->moving_since >= kMaxWithoutUplink) {
            lose_link(*link);
        }
    }
    driver_.pump(now);
}

void Node::set_ruleset(std::shared_ptr<const classifier::Ruleset> ruleset) {
    ruleset_ = std::move(ruleset);
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

base::DropCounters Node::all_drops() const {
    base::DropCounters sum = drops_;
    sum.merge(ended_.drops);
    for (const auto& link : links_) {
        if (link->session) {
            sum.merge(link->session->drops());
        }
    }
    return sum;
}

}  // namespace continuo::cnapt::node
