#include "cnapt/commands/estimate_tunnel.hpp"

#include "cnapt/commands/segment_cutter.hpp"
#include "common/flow/flow_table.hpp"
#include "common/flow/slot_source.hpp"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace continuo::cnapt::commands {

using base::TimePoint;
using flow::Flow;
using path::Role;
using tunnel::Session;

namespace {

constexpr size_t kOuterHeaderBytes = 28;  // IPv4 and UDP
constexpr uint16_t kLinkMtu = 1500;
constexpr size_t kTagBytes = 16;
constexpr uint16_t kNodeId = 0x1111;
constexpr uint16_t kSnaptId = 0x4A31;
constexpr base::Duration kLogin = base::seconds(10);  // the path is proven, and its MTU known
constexpr base::Duration kLinger = base::seconds(5);  // until nothing is under way
constexpr size_t kPooledSmall = 16384;
constexpr size_t kPooledLarge = 512;

base::Endpoint endpoint(Role role) {
    return role == Role::Node ? *base::Endpoint::parse("192.0.2.2:40000")
                              : *base::Endpoint::parse("203.0.113.9:9347");
}

// The node's side of packets at each end.
base::IpAddress inner_address(Role role, bool is_v4) {
    if (role == Role::Node) {
        return *base::IpAddress::parse(is_v4 ? "192.0.0.5" : "64:ff9b:1::c000:5");
    }
    return *base::IpAddress::parse(is_v4 ? "100.64.0.2" : "fd93:47::2");
}

session::EpochInstall keys_of(Role role) {
    crypto::KeyMaterial up;
    crypto::KeyMaterial down;
    down.key[0] = 1;
    const auto cipher = [](const crypto::KeyMaterial& keys) {
        auto made = crypto::make_cipher(crypto::Protection::Aes256Gcm, keys, kTagBytes);
        return std::move(made).value();
    };
    session::EpochInstall keys;
    keys.epoch = 1;
    keys.sealer = cipher(role == Role::Node ? up : down);
    keys.opener = cipher(role == Role::Node ? down : up);
    return keys;
}

}  // namespace

// One direction: what is sent waits for its turn at the link's rate and arrives half a round trip
// later.
class EstimateTunnel::Link {
  public:
    explicit Link(const EstimateLink& link) : link_(link) {}

    void send(base::ByteView datagram, TimePoint now) {
        free_at_ = std::max(free_at_, now);
        if (free_at_ - now > kLinkQueue) {
            ++drops_;
            return;
        }
        if (link_.bits_per_s != 0) {
            const double bits = 8.0 * static_cast<double>(datagram.size() + kOuterHeaderBytes);
            free_at_ += std::chrono::duration_cast<base::Duration>(
                std::chrono::duration<double>(bits / static_cast<double>(link_.bits_per_s)));
        }
        flying_.push_back({free_at_ + link_.rtt / 2, {datagram.begin(), datagram.end()}});
        under_way_ += sizeof(Flying) + datagram.size();
    }
    bool is_full() const { return under_way_ > link_.most_under_way; }
    TimePoint next_due() const { return flying_.empty() ? base::kNever : flying_.front().first; }
    std::optional<std::vector<uint8_t>> receive(TimePoint now) {
        if (next_due() > now) {
            return std::nullopt;
        }
        std::vector<uint8_t> datagram = std::move(flying_.front().second);
        flying_.pop_front();
        under_way_ -= sizeof(Flying) + datagram.size();
        return datagram;
    }
    uint64_t drops() const { return drops_; }

  private:
    using Flying = std::pair<TimePoint, std::vector<uint8_t>>;
    EstimateLink link_;
    TimePoint free_at_{};
    std::deque<Flying> flying_;
    size_t under_way_ = 0;  // bytes of flying_
    uint64_t drops_ = 0;
};

class EstimateTunnel::End final : public session::SessionHost {
  public:
    End(Role role, const EstimateEnds& ends, base::Random& random)
        : role_(role)
        , pool_(kPooledSmall, kPooledLarge)
        , slots_(ends.max_flows)
        , flows_(ends.max_flows, slots_, {.hash_seed = ends.hash_seed})
        , session_(
              std::make_unique<Session>(settings_of(role, ends.classes), *this, scratch_, random)) {
    }
    Session& session() { return *session_; }
    const Session& session() const { return *session_; }
    Link* link = nullptr;  // to the other end
    uint64_t delivered_bytes = 0;
    uint64_t overhead_before = 0;
    uint64_t overhead_datagrams = 0;

    // The flow as this end has it; null: there is no room. The SNAPT knows it by the node's index.
    Flow* flow_of(packet::FiveTuple tuple,
                  base::TrafficClass traffic_class,
                  TimePoint now,
                  uint32_t index = elision::kMaxFlowIndex + 1) {
        tuple.local = inner_address(role_, tuple.local.is_v4());
        Flow* flow = flows_.find(tuple);
        if (flow == nullptr) {
            flow = begin(tuple, traffic_class, index, now);
            if (flow != nullptr && (role_ == Role::Node || index <= elision::kMaxFlowIndex)) {
                session_->attach(*flow);
            }
        } else if (flow->traffic_class != traffic_class) {
            const base::TrafficClass former = flow->traffic_class;
            if (flows_.reclassify(*flow, traffic_class, now)) {
                session_->requeue(*flow, former);
            }
        }
        return flow;
    }
    // `mss` is what the other end told the sender.
    bool send(Flow& flow, base::ByteView captured, uint16_t mss, TimePoint now) {
        const auto inner = inner_address(role_, flow.tuple.local.is_v4());
        cut_.clear();
        const bool is_taken = cutter_.add({&flow, role_ == Role::Node, inner, mss}, captured, cut_);
        return send_cut(flow, now) && is_taken;
    }
    // Sends rests that wait for more of their flow.
    void flush(TimePoint now) {
        for (const SegmentCutter::Key key : cutter_.waiting()) {
            cut_.clear();
            cutter_.flush(key, cut_);
            static_cast<void>(send_cut(*static_cast<Flow*>(key), now));
        }
    }
    // The segment size that a program at the other end is told.
    uint16_t mss_of(const Flow& flow, TimePoint now) const {
        return session::largest_segment(session_->paths()
                                            .selector()
                                            .destination(flow.traffic_class, now)
                                            .value_or(path::Destination{}),
                                        flow.paths.mode);
    }
    void expire(TimePoint now) {
        flows_.expire(now, [&](Flow& flow) {
            cutter_.forget(&flow);
            session_->detach(flow, now);
        });
    }
    TimePoint next_deadline(TimePoint now) const {
        return std::min(session_->next_deadline(now), flows_.next_deadline());
    }

    // --- session::SessionHost
    Flow*
    on_flow_opened(Session& session, const session::FlowOpening& opening, TimePoint now) override {
        Flow* flow = flows_.find(opening.tuple);
        if (flow == nullptr) {
            flow = begin(opening.tuple, opening.traffic_class, opening.index, now);
        }
        if (flow != nullptr && (flow->owner != &session || flow->index != opening.index)) {
            if (flow->owner == &session) {
                session.detach(*flow, now);
            }
            flow->index = opening.index;
            session.attach(*flow);
        }
        return flow;
    }
    Flow* find_flow(Session& /*session*/, const packet::FiveTuple& tuple) override {
        return flows_.find(tuple);
    }
    void deliver(Session& /*session*/,
                 Flow& flow,
                 const packet::HeaderFields& fields,
                 base::ByteView payload,
                 TimePoint now) override {
        delivered_bytes += fields.header_bytes() + payload.size();
        packet::PacketSummary summary;
        summary.tuple = flow.tuple;
        summary.tcp_flags = fields.flags;
        flows_.on_packet(flow, arriving(), summary, now);
    }
    Flow* deliver_whole(Session& /*session*/,
                        base::TrafficClass traffic_class,
                        base::MutableByteView packet,
                        TimePoint now) override {
        delivered_bytes += packet.size();
        const auto side =
            role_ == Role::Node ? packet::NodeSide::Destination : packet::NodeSide::Source;
        const auto found = packet::summarize(packet, side);
        if (!found.summary) {
            return nullptr;
        }
        Flow* flow = flows_.find(found.summary->tuple);
        flow = flow == nullptr
                   ? begin(found.summary->tuple, traffic_class, elision::kMaxFlowIndex + 1, now)
                   : flow;
        if (flow != nullptr) {
            flows_.on_packet(*flow, arriving(), *found.summary, now);
        }
        return flow;
    }
    void on_flows_closed(Session& session, Flow& flow, TimePoint now) override {
        if (role_ == Role::Snapt) {
            cutter_.forget(&flow);
            session.detach(flow, now, session::EndNotice::None);
            flows_.erase(flow);
        } else {
            flows_.on_ended_there(flow, now);
        }
    }
    void on_path_changed(Session& /*session*/, uint8_t /*path*/, TimePoint /*now*/) override {}
    void on_path_silent(Session& /*session*/, uint8_t /*path*/, TimePoint /*now*/) override {}
    void on_peer_closed(Session& /*session*/, TimePoint /*now*/) override {}

  private:
    static session::SessionSettings settings_of(Role role, const dataplane::ClassTable& classes) {
        session::SessionSettings settings;
        settings.role = role;
        settings.local_id = role == Role::Node ? kNodeId : kSnaptId;
        settings.peer_id = role == Role::Node ? kSnaptId : kNodeId;
        settings.node_ipv4 = inner_address(role, true);
        settings.node_ipv6 = inner_address(role, false);
        settings.classes = classes.settings;
        return settings;
    }
    flow::Direction arriving() const {
        return role_ == Role::Node ? flow::Direction::Down : flow::Direction::Up;
    }
    Flow* begin(const packet::FiveTuple& tuple,
                base::TrafficClass traffic_class,
                uint32_t index,
                TimePoint now) {
        const auto end = [&](Flow& flow) {
            cutter_.forget(&flow);
            session_->detach(flow, now);
            flows_.erase(flow);
        };
        if (!flows_.make_room(flow::is_favoured(tuple, traffic_class), nullptr, 0, end)) {
            return nullptr;
        }
        flow::FlowOrigin origin;
        origin.index = index;
        return flows_.create(tuple, traffic_class, now, origin);
    }
    bool send_cut(Flow& flow, TimePoint now) {
        const bool is_up = role_ == Role::Node;
        for (const PreparedPacket& prepared : cut_) {
            packet::PacketPtr packet = pool_.take(prepared.bytes.size());
            if (packet == nullptr) {
                return false;
            }
            std::copy(prepared.bytes.begin(), prepared.bytes.end(), packet->buffer().begin());
            packet->length = static_cast<uint32_t>(prepared.bytes.size());
            packet->offload = prepared.offload;
            note(flow, is_up ? flow::Direction::Up : flow::Direction::Down, packet->bytes(), now);
            session_->on_packet(flow, std::move(packet), now);
        }
        return true;
    }
    void note(Flow& flow, flow::Direction direction, base::ByteView bytes, TimePoint now) {
        const auto side = direction == flow::Direction::Up ? packet::NodeSide::Source
                                                           : packet::NodeSide::Destination;
        if (const auto found = packet::summarize(bytes, side); found.summary) {
            flows_.on_packet(flow, direction, *found.summary, now);
        }
    }

    Role role_;
    packet::PacketPool pool_;
    session::SessionScratch scratch_;
    flow::HeapSlots slots_;
    flow::FlowTable flows_;
    SegmentCutter cutter_;
    std::vector<PreparedPacket> cut_;
    std::unique_ptr<Session> session_;  // ends before its flows do
};

EstimateTunnel::EstimateTunnel(const EstimateLink& link, const EstimateEnds& ends)
    : rtt_(link.rtt)
    , began_at_(now_ + kLogin)
    , up_link_(std::make_unique<Link>(link))
    , down_link_(std::make_unique<Link>(link))
    , node_(std::make_unique<End>(Role::Node, ends, random_))
    , snapt_(std::make_unique<End>(Role::Snapt, ends, random_)) {
    node_->link = up_link_.get();
    snapt_->link = down_link_.get();
    for (End* end : {snapt_.get(), node_.get()}) {
        end->session().install_epoch(keys_of(end->session().settings().role), now_);
    }
    routing::PathSet& paths = node_->session().paths();
    paths.node().add(0, endpoint(Role::Snapt), kLinkMtu, now_);
    paths.node().activate(0, now_);
    run_until(began_at_);
    for (End* end : {snapt_.get(), node_.get()}) {
        end->overhead_before = end->session().counters().overhead_sent();
        end->overhead_datagrams = 0;
    }
}

EstimateTunnel::~EstimateTunnel() = default;

bool EstimateTunnel::send(const Sender& sender, base::ByteView packet, base::Duration at) {
    if (at - last_at_ > rtt_) {
        flush();  // flights of a sender are a round trip apart: it has no more to say
    }
    last_at_ = at;
    run_until(began_at_ + at);
    for (const Link* link : {up_link_.get(), down_link_.get()}) {
        while (link->is_full()) {
            run_until(link->next_due());
        }
    }
    End& end = sender.is_up ? *node_ : *snapt_;
    // The node knows of a flow that began before the capture.
    Flow* const at_node = node_->flow_of(sender.tuple, sender.traffic_class, now_);
    if (at_node == nullptr) {
        return false;
    }
    // An answer comes after its question, whatever the round trip of the capture was.
    Flow* const flow =
        sender.is_up ? at_node
                     : snapt_->flow_of(sender.tuple, sender.traffic_class, now_, at_node->index);
    if (flow == nullptr) {
        return false;
    }
    flow->may_compress = sender.may_compress;
    const uint16_t mss = sender.is_up ? snapt_->mss_of(*flow, now_) : node_->mss_of(*flow, now_);
    const bool is_sent = end.send(*flow, packet, mss, now_);
    pump(end);
    return is_sent;
}

void EstimateTunnel::flush() {
    node_->flush(now_);
    snapt_->flush(now_);
}

void EstimateTunnel::finish() {
    flush();
    run_until(now_ + kLinger);
}

void EstimateTunnel::pump(End& end) {
    for (bool has_more = true; has_more;) {
        batch_.clear();
        has_more = end.session().poll_transmit(batch_, now_);
        for (const session::TransmitItem& item : batch_.items()) {
            const base::ByteView bytes = batch_.bytes(item);
            if (batch_.attributions(item).empty()) {
                end.overhead_datagrams += item.datagrams;
            }
            const size_t step = item.segment_bytes == 0 ? bytes.size() : item.segment_bytes;
            for (size_t at = 0; at < bytes.size(); at += step) {
                end.link->send(bytes.subspan(at, std::min(step, bytes.size() - at)), now_);
            }
            Session::on_sent(batch_, item);
        }
    }
}

void EstimateTunnel::run_until(TimePoint until) {
    constexpr base::Duration kStep = base::microseconds(10);
    const auto take = [&](Link& link, End& to) {
        while (auto datagram = link.receive(now_)) {
            session::ReceivedDatagram received;
            received.bytes = *datagram;
            const bool is_up = &to == snapt_.get();
            received.from = endpoint(is_up ? Role::Node : Role::Snapt);
            received.to = {base::IpAddress::any(base::IpVersion::V4), 0};
            if (!is_up) {
                received.arrived_on = to.session().paths().active();
            }
            to.session().on_datagrams(std::span(&received, 1), now_);
        }
    };
    while (true) {
        pump(*node_);
        pump(*snapt_);
        const TimePoint next = std::min({up_link_->next_due(), down_link_->next_due(),
                                         node_->next_deadline(now_), snapt_->next_deadline(now_)});
        if (next > until) {
            now_ = std::max(now_, until);
            return;
        }
        now_ = std::max(next, now_ + kStep);
        take(*up_link_, *snapt_);
        take(*down_link_, *node_);
        for (End* end : {node_.get(), snapt_.get()}) {
            end->session().on_timeout(now_);
            end->expire(now_);
        }
    }
}

const session::ClassCounters& EstimateTunnel::counters(bool is_up,
                                                       base::TrafficClass traffic_class) const {
    return (is_up ? *node_ : *snapt_).session().queues().counters(traffic_class);
}

uint64_t EstimateTunnel::overhead_bytes(bool is_up) const {
    const End& end = is_up ? *node_ : *snapt_;
    return end.session().counters().overhead_sent() - end.overhead_before;
}

uint64_t EstimateTunnel::overhead_datagrams(bool is_up) const {
    return (is_up ? *node_ : *snapt_).overhead_datagrams;
}

uint64_t EstimateTunnel::link_drops() const {
    return up_link_->drops() + down_link_->drops();
}

uint64_t EstimateTunnel::delivered_bytes() const {
    return node_->delivered_bytes + snapt_->delivered_bytes;
}

}  // namespace continuo::cnapt::commands
