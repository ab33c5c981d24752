// Relay: the data path of a SNAPT. Datagrams of nodes come in on the UDP sockets, are opened by
// their session and leave as packets through snapt0 into the kernel's NAT; answers come back
// through snapt0 and leave in datagrams. Lives on the data loop. Control manages sessions: reserve
// -> (keys) -> install, or close.
#pragma once

#include "common/control/epoch_keys.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/dataplane/packet_engine.hpp"
#include "common/flow/flow_table.hpp"
#include "common/io/thread_time.hpp"
#include "common/record/recording.hpp"
#include "common/turns/sole_user.hpp"
#include "snapt/nat/connection_room.hpp"
#include "snapt/nat/refusals.hpp"
#include "snapt/relay/charged_slots.hpp"
#include "snapt/relay/node_session.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace continuo::snapt::relay {

// Most packets in class queues, of all sessions together. When the limit is reached, the session
// that holds most loses half of them.
inline constexpr size_t kSmallPackets = 16384;
inline constexpr size_t kLargePackets = 512;

// After a pause of the loop, datagrams are read for as long as it lasted, if there are so many: a
// backlog must not stay in the kernel, where all share one queue. At least for kRound.
inline constexpr base::Duration kTakeInTime = base::milliseconds(2);
// Longest handling of datagrams before timers and the other direction get their turn.
inline constexpr base::Duration kRound = base::microseconds(500);
// The same for a single node sending by UDP: it only delays itself, and each switch between the
// directions costs both their cache contents.
inline constexpr base::Duration kSoleRound = base::microseconds(1500);
// Where several nodes send, rounds are shorter: each may have to wait for one.
inline constexpr base::Duration kSharedRound = base::microseconds(250);
// Most bytes read at a time from a sole sender, while they are opened as fast as they arrive: so
// they are opened in the processor's own cache. One read may add as much again.
inline constexpr size_t kTakenFromSoleUser = size_t{256} * 1024;
// Most packets read from the TUN device per wake-up, where several nodes receive: all that the
// kernel holds for it (its default transmit queue), if they are short.
inline constexpr size_t kTunPackets = 500;
// A turn may take this much longer before packets that it delays wait for the next one.
inline constexpr base::Duration kTurnOverrun = base::microseconds(200);

// A turn that took longer by the clock costs the processor time of the thread if that is less: a
// preempted turn owes nothing for the preemption. A turn of a sole sender costs this at most.
inline constexpr base::Duration kLongTurn = base::milliseconds(5);

inline constexpr base::Duration kModesInterval = base::milliseconds(100);

// A node not heard for this many keepalives may be gone, though its control link is open, for
// instance after a power failure. Or it has no flow, and nothing to send.
inline constexpr int kSilentKeepalives = 3;

// Fragmented packets in progress, per user and direction.
inline constexpr size_t kUserFragments = 64;

// After a change of class, a flow does not change to a later-served class for this long, so that
// late packets of the former class do not affect it. A choice: longer than datagrams overtake each
// other.
inline constexpr base::Duration kClassStays = base::seconds(1);

// The tunnel's own bytes of a session and class are recorded when there are this many, and at its
// end: an idle node's keepalives make one record in hours, not one in each interval. A choice.
inline constexpr uint64_t kOverheadStep = uint64_t{16} * 1024;

// Packets of a user that are answered because there is no place for their flow, or its quota is
// used up, in a second; others are dropped as they are. A user who asks for more takes nobody
// else's answers. A choice.
inline constexpr uint32_t kMaxRefusalsPerSecond = 100;
// Length of the queue in a class of a user with a rate, except for a few super-packets. A choice.
inline constexpr base::Duration kRateQueue = base::milliseconds(250);
inline constexpr uint64_t kLeastRateQueue = uint64_t{128} * 1024;
// Unanswered UDP whose time is up (flow::timeout::kUdpUnanswered) stays in the NAT for the NAT's
// own time while its user has at most its limit of flows divided by this. So flows that only the
// NAT knows are at most three quarters of the limit: as many as a quarter in each 30 s, for another
// 90 s. DNS is too short-lived for that, and TCP that begins without SYN is remembered for hours.
inline constexpr size_t kFewFlowsDivisor = 4;
// Packets of a session per second to forbidden destinations that are passed to the rules, which
// answer them; the rest is dropped here. More than the kernel answers to one address at once (its
// default limit of ICMP per host, six and one a second). A choice, not measured.
inline constexpr uint32_t kRefusalsToAnswer = 32;

struct RelaySettings {
    std::string device = "snapt0";
    std::vector<base::Endpoint> listen;
    base::IpAddress own_ipv4;
    base::IpAddress own_ipv6;
    uint16_t inner_mtu = 1500;
    size_t max_sessions = 10000;
    size_t max_flows = 65536;
    size_t max_user_sessions = 8;  // 0: none
    size_t max_user_flows = 4096;  // 0: none
    uint64_t user_bits_per_s = 0;  // each way, all its nodes together; 0: none
    base::Duration idle_timeout = base::seconds(86400);
    base::Duration keepalive = base::seconds(25);  // as sent to nodes
    // Wait for a node's sign of life after a request. A choice: some round trips, and TCP's
    // repetitions.
    base::Duration sign_of_life_wait = base::seconds(5);
    uint64_t rekey_datagrams = wire::kRekeyDatagrams;
    std::array<session::ClassSettings, base::kTrafficClasses> classes;
    std::array<uint8_t, base::kTrafficClasses> tos{};  // outer, whole octet
    size_t max_kept_bytes = session::kMaxKeptBytes;    // all sessions together
    nat::Refusals refusals;                            // for new flows
    record::Recording recording;                       // must outlive the Relay
    // Clock that measures the work for each session.
    std::function<base::TimePoint()> clock = [] { return std::chrono::steady_clock::now(); };
    // Time that the data loop's thread has worked.
    std::function<base::Duration()> worked = io::thread_time;
};

struct Reservation {
    uint16_t wire_id = 0;
    uint32_t epoch = 1;
    bool is_continued = false;
};

// The current address of the node.
std::optional<base::Endpoint> remote_of(const session::Session& session);

// Called on the data loop.
class RelayEvents {
  public:
    virtual ~RelayEvents() = default;
    virtual void on_session_closed(const NodeSession& session) = 0;
    virtual void on_session_moved(const NodeSession& session) = 0;
    // Nothing that is sent to the node is answered.
    virtual void on_session_silent(const NodeSession& session) = 0;
    // Flows that ended unanswered: the kernel's connection tracking is to forget them.
    // Returns true if Relay::on_flows_forgotten() follows, false if not possible now.
    virtual bool on_flows_gone(std::vector<packet::FiveTuple> flows) = 0;
    // A user's packets wait for another look at its credit.
    virtual void on_credit_used() = 0;
};

class Relay final : public session::SessionHost, public dataplane::SocketDirectory {
  public:
    // All references must outlive this.
    Relay(io::EventLoop& loop,
          const RelaySettings& settings,
          flow::SlotSource& slots,
          base::Random& random,
          RelayEvents& events);
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;
    ~Relay() override;

    // Opens the TUN device and sockets. On failure `failure` has the text.
    base::Result<void> start(std::string& failure);

    // --- Control, on the data loop
    // Whether the association named by the node is its own and continues.
    bool may_continue(const SessionGrant& grant) const;
    size_t sessions_of(std::string_view user) const;
    // The session of that node; null: none.
    const NodeSession* session_of(const SessionGrant& grant) const;
    // Its control link is open, and every request for a sign of life was answered; or the link was
    // lost recently, or the node was heard since, within kSilentKeepalives.
    bool is_here(const NodeSession& node) const;
    // True when the node was silent for kSilentKeepalives and must be asked for a sign of life now;
    // once, until it is heard.
    bool wants_sign_of_life(uint16_t wire_id);
    // At the limit of sessions, the one whose node was silent longest is replaced, among those that
    // are not here: one of the user's own or, at the limit of all, one that was silent for
    // kSilentKeepalives. Errors: LimitReached.
    base::Result<Reservation> reserve(const SessionGrant& grant);
    base::Result<void> install(uint16_t wire_id, const control::EpochKeys& keys);
    void close(uint16_t wire_id, SessionEnd why = SessionEnd::Stopped);
    // Path modes of flows with those tags. Existing flows are all updated together, at most once in
    // kModesInterval, whoever asks and how often.
    void set_modes(uint16_t wire_id, std::span<const control::AppMode> modes);
    void set_classes(const dataplane::ClassTable& table);
    // Datagrams over TCP: the queue into it, those received from `from`, free room, its end.
    void open_stream(uint16_t wire_id, dataplane::StreamPort port);
    void on_stream(uint16_t wire_id, dataplane::DatagramQueue& queue, const base::Endpoint& from);
    void on_stream_room(uint16_t wire_id);
    void close_stream(uint16_t wire_id);
    // Once a second: samples for the reported rates.
    void look_at_rates(base::TimePoint now);
    // Addresses of this host, for new flows.
    void set_local_addresses(std::vector<base::IpAddress> addresses) {
        settings_.refusals.set_local(std::move(addresses));
    }
    // 0: none, except for `sessions`. Applies to new sessions and flows.
    void set_limits(size_t sessions, size_t user_sessions, size_t user_flows);
    // Flows of a user at most, with what connection tracking has room for; 0: no limit.
    size_t user_flows() const { return room_.user_flows(settings_.max_user_flows); }
    // Once a second: the kernel's table as it is now.
    void set_connection_table(const nat::ConnectionTable& table);
    // From then on the session gets no new flows (drains_from of NodeSession); kNever: it does.
    void drain(uint16_t wire_id, base::TimePoint from);
    // Flows of all users that are answered and not closed. Linear in users.
    size_t running_flows() const;
    // At once, like look_at_meters().
    void set_user_rate(uint64_t bits_per_s);
    // Once a second: applies or removes the rate of users whose quota is used up.
    void look_at_meters();

    // A packet from the kernel, for a lease.
    void on_tun_packet(packet::PacketPtr packet, base::TimePoint now);
    // The flows of RelayEvents::on_flows_gone() are forgotten.
    void on_flows_forgotten();
    // Whether connection tracking keeps an unanswered flow whose time is up.
    bool may_stay_with_nat(const flow::Flow& flow) const;

    // --- Observers
    const std::vector<std::unique_ptr<NodeSession>>& sessions() const { return sessions_; }
    NodeSession* find(uint16_t wire_id) const { return by_wire_id_[wire_id]; }
    flow::FlowTable& flows() { return flows_; }
    const std::array<size_t, base::kTrafficClasses>& flows_by_class() const {
        return slots_.by_class();
    }
    const GoneFlows& gone_flows() const { return gone_; }
    const LeftConnections& left_connections() const { return left_; }
    const nat::ConnectionRoom& connection_room() const { return room_; }
    // Flows and left connections of all nodes.
    size_t connections() const { return flows_.size() + left_.size(); }
    const base::DropCounters& drops() const { return drops_; }
    base::DropCounters all_drops() const;
    const dataplane::EndedSessions& ended() const { return engine_.ended(); }
    // Totals of all sessions, including ended ones.
    report::ClassFigureTable sent() const { return engine_.sent(); }
    dataplane::ReceivedFigures received() const { return engine_.received(); }
    const dataplane::RecentRates& rates() const { return rates_; }  // inner packets
    const base::MemoryBudget& kept_memory() const { return engine_.kept_memory(); }
    // Halves the fullest class of the session that holds most of the packet buffers. False: none
    // holds any.
    bool make_room(bool is_large);
    const dataplane::TunPort& tun() const { return engine_.tun(); }
    dataplane::TunPort& tun() { return engine_.tun(); }

    // --- session::SessionHost
    flow::Flow* on_flow_opened(session::Session& session,
                               const session::FlowOpening& opening,
                               base::TimePoint now) override;
    void on_other_class(session::Session& session,
                        flow::Flow& flow,
                        base::TrafficClass traffic_class,
                        base::TimePoint now) override;
    flow::Flow* find_flow(session::Session& session, const packet::FiveTuple& tuple) override;
    void deliver(session::Session& session,
                 flow::Flow& flow,
                 const packet::HeaderFields& fields,
                 base::ByteView payload,
                 base::TimePoint now) override;
    flow::Flow* deliver_whole(session::Session& session,
                              base::TrafficClass traffic_class,
                              base::MutableByteView packet,
                              base::TimePoint now) override;
    void on_flows_closed(session::Session& session, flow::Flow& flow, base::TimePoint now) override;
    void on_path_changed(session::Session& session, uint8_t path, base::TimePoint now) override;
    void on_path_silent(session::Session& session, uint8_t path, base::TimePoint now) override;
    void on_peer_closed(session::Session& session, base::TimePoint now) override;
    void on_held_delivered(session::Session& /*session*/) override { engine_.flush(); }

    // --- dataplane::SocketDirectory
    io::UdpSocket* socket_for(const session::TransmitItem& item) override;
    bool send_stream(const session::TransmitItem& item, base::ByteView bytes) override;
    // Port shown by the capture: the port of a connection is not known here.
    uint16_t stream_port() const;
    std::optional<uint8_t> tos_of(const session::TransmitItem& item) override {
        const uint8_t tos = settings_.tos[base::index_of(item.marked_class)];
        return item.is_unmarked || tos == 0 ? std::nullopt : std::optional(tos);
    }
    void wait_writable(io::UdpSocket& socket) override;
    void on_too_big(const session::TransmitItem& item) override;

  private:
    struct Listener {
        io::UdpSocket socket;
        std::unique_ptr<io::Poller> poller;
        uint16_t number = 0;
    };
    NodeSession& owner_of(session::Session& session) const;
    void make_place(std::string_view user);
    void close_silent(const std::function<bool(const NodeSession&)>& may_give_way);
    bool is_silent(const NodeSession& node) const;
    bool is_at_limit(std::string_view user) const {
        return settings_.max_user_sessions != 0 && sessions_of(user) >= settings_.max_user_sessions;
    }
    // relay_flows.cpp
    // Null: there is no room for another flow.
    flow::Flow* make_flow(NodeSession& node,
                          const packet::FiveTuple& tuple,
                          base::TrafficClass traffic_class,
                          const elision::OpenInfo& open,
                          uint32_t index,
                          base::TimePoint now,
                          flow::Direction begun = flow::Direction::Up);
    bool takes_flow(const NodeSession& node,
                    const packet::FiveTuple& tuple,
                    uint8_t tcp_flags,
                    base::TimePoint now);
    void end_flow(flow::Flow& flow, base::TimePoint now);
    // relay_tracking.cpp
    flow::Flow*
    make_flow_of_answer(NodeSession& node, const packet::FiveTuple& tuple, base::TimePoint now);
    // Flows of all nodes that connection tracking has room for.
    size_t most_flows() const;
    // Connections of a user without a flow.
    size_t most_left() const { return user_flows() == 0 ? SIZE_MAX : user_flows(); }
    // `may_stay`: also an unanswered one stays with the NAT.
    void note_ended(const flow::Flow& flow, base::TimePoint now, bool may_stay = false);
    bool forget_oldest(TrackedShare& share);
    TrackedShare* most_left_of_all();  // null: nobody has any
    void make_left_room(TrackedShare& share);
    void look_at_left(base::TimePoint now);
    // relay_refusal.cpp
    void tell_refusal(NodeSession& node, base::TimePoint now);
    void answer_refused(NodeSession& node, base::ByteView packet, base::TimePoint now);
    void
    answer_refused(NodeSession& node, const session::FlowOpening& opening, base::TimePoint now);
    bool may_answer(NodeSession& node, base::TimePoint now);
    void send_answer(NodeSession& node, base::ByteView answer, base::TimePoint now);
    // relay_quota.cpp
    void apply_rate(UserShare& share);
    void follow_meter(UserShare& share);
    std::array<session::ClassSettings, base::kTrafficClasses>
    class_settings_of(const UserShare& share) const;
    void take_meter(UserShare& share, const SessionGrant& grant);
    void end_flows_of(UserShare& share, base::TimePoint now);
    static bool is_stopped(const NodeSession& node) { return node.share->meter->is_stopped(); }
    bool may_go_up(flow::Flow& flow, size_t bytes, base::TimePoint now);
    void refuse_up(NodeSession& node,
                   flow::Flow& flow,
                   const packet::HeaderFields& fields,
                   base::TimePoint now);
    void refuse_down(NodeSession& node,
                     const packet::PacketSummary& summary,
                     base::ByteView packet,
                     base::TimePoint now);
    void tell_gone();
    void drop_idle_shares();
    void count_tunnel(NodeSession& node, bool is_last);
    void apply_modes();
    void on_tun_readable();
    bool find_first(std::unique_ptr<flow::FragmentCache>& fragments,
                    packet::PacketSummary& summary,
                    base::TimePoint now);

    // relay_input.cpp
    void on_socket_readable(Listener& listener);
    void go_on();
    size_t take_in(Listener& listener, base::Duration most);
    base::Duration take_in_time() const {
        return std::clamp(settings_.clock() - round_over_at_, kRound, kTakeInTime);
    }
    Lane& lane_of(const io::ReceivedBatch& batch);
    void note_stranger(const io::ReceivedBatch& batch);
    void begin_round();
    void begin_turns();
    base::Duration round_time();
    void end_round(base::TimePoint now);
    base::Duration worked_between(base::TimePoint start, base::TimePoint end) const;
    void serve(base::TimePoint now);
    void serve_turn(Lane& lane, base::TimePoint start, base::TimePoint now);
    void serve_stream(Lane& lane, base::TimePoint now);
    bool goes_home(const turns::Input& input);
    bool is_another_waiting(const NodeSession& node) const;
    size_t handle_some(turns::Input& input, const Lane& lane, size_t most, base::TimePoint now);
    void hand_over(NodeSession& node,
                   std::span<session::ReceivedDatagram> datagrams,
                   const Lane& lane,
                   base::TimePoint now);
    bool is_turn_over() const { return settings_.clock() >= turn_end_; }
    void write_held(Lane& lane);
    bool holds_back(base::ByteView frame, const packet::FrameInfo& info);
    void flush_frames();
    void forget_input(NodeSession& node);
    void answer_unknown(Listener& listener,
                        const session::ReceivedDatagram& datagram,
                        base::TimePoint now);
    void send_unknown(io::UdpSocket& socket,
                      const base::Endpoint& to,
                      const base::IpAddress& from,
                      const wire::Quote& quote);
    void tell_ended(const NodeSession& node);

    void on_written(const packet::FrameInfo& info, bool written);
    void on_housekeeping();

    io::EventLoop& loop_;
    RelaySettings settings_;
    base::Random& random_;
    RelayEvents& events_;
    base::DropCounters drops_;
    turns::InputQueues inputs_;
    dataplane::PacketEngine engine_;  // outlives flows and sessions
    ChargedSlots slots_;
    flow::FlowTable flows_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    turns::Turns turns_;
    Lane strangers_{nullptr, turns::kStrangersQueueBytes, nullptr};
    std::optional<uint16_t> named_;  // by the newest of those datagrams
    size_t named_in_row_ = 0;        // this many in a row
    dataplane::PauseDetector input_pause_;
    turns::SoleUser senders_;
    turns::SoleUser receivers_;
    base::TimePoint round_end_{};
    base::TimePoint round_over_at_ = settings_.clock();  // end of the latest one
    base::TimePoint turn_end_{};
    base::TimePoint frames_wait_from_{};  // in a turn; epoch: outside
    Lane* writing_ = nullptr;             // whose packets the coalescer may hold
    base::TimePoint worked_at_{};         // processor time used, shortly before this round
    base::Duration worked_{};
    bool is_work_known_ = false;  // in this round
    bool is_flushing_ = false;
    io::DeadlineTimer housekeeping_;
    io::DeadlineTimer input_timer_;
    base::TimePoint no_room_until_{};
    io::DeadlineTimer modes_timer_;
    base::TimePoint modes_applied_at_{};
    std::vector<std::unique_ptr<NodeSession>> sessions_;
    std::vector<NodeSession*> by_wire_id_;
    uint64_t begun_sessions_ = 0;
    std::unordered_map<base::IpAddress, NodeSession*> by_lease_;
    std::unordered_map<std::string, UserShare> shares_;  // by user
    dataplane::RecentRates rates_;
    std::unordered_map<std::string, TrackedShare> tracked_;  // by user
    GoneFlows gone_;
    LeftConnections left_;
    nat::ConnectionRoom room_;
    base::TimePoint unknown_window_at_{};
    uint32_t unknown_answers_ = 0;
};

}  // namespace continuo::snapt::relay
