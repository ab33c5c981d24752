// Node: the data path of cnapt. Packets of applications come in through cnapt0, become flows, are
// classified, bound to a SNAPT and handed to its session; restored packets go back. Lives on the
// data loop; control reports sessions to it.
#pragma once

#include "classifier/ruleset.hpp"
#include "cnapt/node/binding_journal.hpp"
#include "cnapt/node/failure.hpp"
#include "cnapt/node/node_events.hpp"
#include "cnapt/node/path_choice.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "cnapt/uplinks/on_link.hpp"
#include "cnapt/uplinks/uplinks.hpp"
#include "common/control/epoch_keys.hpp"
#include "common/control/message.hpp"
#include "common/control/no_forwarding.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/dataplane/datagram_receiver.hpp"
#include "common/dataplane/figures.hpp"
#include "common/dataplane/recording.hpp"
#include "common/dataplane/session_driver.hpp"
#include "common/dataplane/tun_port.hpp"
#include "common/flow/flow_table.hpp"
#include "common/flow/fragment_cache.hpp"
#include "common/io/netfilter.hpp"
#include "common/io/pause_watcher.hpp"
#include "common/io/process_lookup.hpp"
#include "common/io/wireless_monitor.hpp"
#include "common/io/worker_thread.hpp"
#include "common/session/session.hpp"
#include "policy/path_manager.hpp"
#include "policy/promotion_tracker.hpp"
#include "policy/snapt_choice.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace continuo::cnapt::node {

inline constexpr size_t kSmallPackets = 16384;
inline constexpr size_t kLargePackets = 512;
// Most packets of one flow that wait for its process; later ones are dropped and counted.
inline constexpr size_t kMaxWaitingPackets = 32;
// Most TCP packets without a flow, of all SNAPTs, that are answered with a reset per second; others
// are dropped. Each occupies a flow for as long as any that was reset.
inline constexpr uint32_t kMaxResetsPerSecond = 16;
// Longest wait of a flow's first packets for its process; a late answer may still change the class.
inline constexpr base::Duration kProcessWait = base::milliseconds(2);

struct NodeSettings {
    std::string device = "cnapt0";
    base::IpAddress ipv4;  // cnapt0's own
    base::IpAddress ipv6;
    size_t max_flows = 65536;
    std::string journal;  // file of the bindings; empty: they end with the process
    std::array<session::ClassSettings, base::kTrafficClasses> classes;
    uplinks::UplinkRules uplinks;
    uplinks::OnLinkPolicy on_link;
    dataplane::Recording recording;  // must outlive the Node
};

// State of one SNAPT.
struct SnaptLink {
    std::string name;
    uplinks::SnaptAddresses addresses;
    // NAT64 prefix of the network, by which its IPv4 addresses are reached.
    std::optional<base::IpPrefix> nat64{};
    const base::Endpoint& address() const { return addresses.current(); }  // in use
    uint16_t local_id = 0;                      // wire session id that we listen for
    session::PathMask hints = 0;                // slots of uplinks of which there is news
    std::unique_ptr<session::Session> session;  // once accepted; lives over reconnects
    control::Accept accept;
    control::Allowance allowance;  // the latest one reported
    bool is_up = false;            // keys installed; a path has answered and not died since
    bool is_control_open = false;
    policy::PathManager choice;  // of this session
    // The uplink by which the data goes, and whether it goes over TCP.
    std::optional<uint8_t> active_slot() const {
        return choice.active() ? std::optional(choice.active()->uplink) : std::nullopt;
    }
    bool is_on_stream() const {
        return choice.active() && choice.active()->transport == policy::Transport::Tcp;
    }
    base::TimePoint choose_at = base::kNever;     // unless something changes before
    uint64_t traffic = 0;                         // packets sent when looked at last
    base::TimePoint busy_at{};                    // when packets were last sent or queued
    base::TimePoint moving_since = base::kNever;  // a handover is under way
    base::TimePoint control_asked_at{};           // when its connection was last tested
    std::string moving_from;
    double load = 0;                   // reported, 0 to 1
    double price = 1;                  // reported, of the plan
    control::VersionSet no_way_out{};  // reported
    // New flows of that version may go there.
    bool carries(base::IpVersion version) const {
        return accept.has_lease(version) && !no_way_out.has(version);
    }
    bool forwards() const { return price < control::kNoForwardingPrice / 1000.0; }  // reported
    // The key is mode and name.
    std::map<std::pair<base::PathMode, std::string>, uint16_t> app_tags;
    base::PathMode default_mode = base::PathMode::Handover;  // as told to SNAPT
    uint64_t committed_bits_per_s = 0;                       // needs of the flows bound to it
    uint64_t handovers = 0;
    // Outer bytes both ways, over about the last second; none before the first measurement.
    std::optional<uint64_t> throughput_bits_per_s;
    uint64_t measured_bytes = 0;
    base::TimePoint measured_at{};
    std::vector<uint16_t> udp_ports;  // the SNAPT's; never empty once accepted
    dataplane::StreamPort stream;     // into the control link; none while that is not open
    base::Endpoint stream_address;    // the other end of that link
    base::TimePoint stream_opened_at{};
    std::optional<uint8_t> stream_slot;  // the uplink that it was made by
    dataplane::RecentRates rates;        // inner packets
    std::array<dataplane::RecentRates, wire::kMaxPaths> path_rates;  // outer packets
    bool has_route = false;        // the active uplink had one, at the last change of the network
    bool is_learned = false;       // from a directory: not kept alive without flows
    bool is_listed = true;         // gets new flows; otherwise only when no other is up
    base::TimePoint doubted_at{};  // SNAPT was asked whether it knows the session
    std::vector<base::Endpoint> offered;  // addresses that control tries
    std::string configured;  // address as the configuration has it: a name may not be found
    Failure failure;         // the last one of its login and control link
    std::array<Failure, wire::kMaxPaths> path_failures;  // the last ones, by slot
    uint64_t unproven_unknowns = 0;
};

struct Handover {
    int64_t at_utc_s = 0;
    std::string from;
    std::string to;
    double gap_ms = 0;
};

// Per-flow data of the daemon.
struct NodeFlow : flow::FlowDetails {
    flow::Flow* flow = nullptr;
    SnaptLink* link = nullptr;
    std::shared_ptr<const classifier::Ruleset> ruleset;  // owns the views below
    classifier::Classification classification;
    uint8_t dscp = 0;
    io::SocketOwner owner;
    std::string user;
    uint64_t committed_bits_per_s = 0;
    std::string refused_reason;
    std::vector<packet::PacketPtr> waiting;  // for the process
    base::TimePoint waits_until = base::kNever;
    policy::PromotionTracker promotion;
    bool is_classified = false;
    // Started for the resets of an unknown connection: nothing of it goes to the host.
    bool is_unknown = false;
};

inline bool is_unknown(const flow::Flow& flow) {
    return flow.state == flow::FlowState::Closing &&
           flow::details_as<const NodeFlow>(flow)->is_unknown;
}

class Node final : public session::SessionHost, public dataplane::SocketDirectory {
  public:
    Node(io::EventLoop& loop,
         const NodeSettings& settings,
         base::Random& random,
         NodeEvents& events);
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    ~Node() override;

    // Opens the TUN device and follows the host's addresses. On failure `failure` has the text.
    base::Result<void> start(std::string& failure);
    // Whether the TUN device outlives this node. False: it could not be set.
    bool keep_device(bool is_kept) {
        return tun_ != nullptr && tun_->set_persistent(is_kept).has_value();
    }

    // --- Control, on the data loop
    // Port 0: not known yet.
    SnaptLink& add_link(std::string name, const base::Endpoint& address);
    // The addresses from the SNAPT's name or the configuration: takes the first of each IP version,
    // unless another one of them is in use.
    void offer_addresses(SnaptLink& link, const std::vector<base::Endpoint>& addresses);
    // The SNAPT has no address of that version any more.
    void forget_address(SnaptLink& link, base::IpVersion version);
    // An interface has an uplink of IPv6 and none of IPv4.
    bool lacks_ipv4() const;
    // Control has reached the SNAPT there and knows its UDP ports; establish() follows.
    void on_reached(SnaptLink& link, const base::Endpoint& address, const control::Accept& accept);
    // Keys and parameters of a new or continued association.
    base::Result<void>
    establish(SnaptLink& link, const control::Accept& accept, const control::EpochKeys& keys);
    base::Result<void> rekey(SnaptLink& link, const control::EpochKeys& keys);
    // Datagrams over TCP: the queue into it, received ones, free room, the end of the connection.
    // `slot`: of the uplink that the connection was made by, if that is known.
    void open_stream(SnaptLink& link,
                     dataplane::StreamPort port,
                     const base::Endpoint& address,
                     std::optional<uint8_t> slot);
    void on_stream(SnaptLink& link, dataplane::DatagramQueue& queue);
    void on_stream_room(SnaptLink& link);
    void on_stream_lost(SnaptLink& link);
    // UDP is silent and data does not go over TCP.
    static bool goes_nowhere(const SnaptLink& link);
    void close_stream(SnaptLink& link);
    void request_keepalive(SnaptLink& link);
    // Asks whether the SNAPT still answers.
    void ask(SnaptLink& link);
    // Asks all its paths, including dead ones; their answers are counted.
    void ask_all(SnaptLink& link);
    // At least one listed SNAPT is up.
    bool has_listed_link() const;
    // At least one SNAPT that answers carries that version.
    bool carries(base::IpVersion version) const;
    // A SNAPT answers, but none that does carries that version: its flows are refused.
    bool refuses(base::IpVersion version) const;
    bool has_flows(const SnaptLink& link);
    // Removes a SNAPT without flows whose control link is gone.
    void remove_link(const SnaptLink& link);
    // Sets whether the uplink is behind a captive portal: then others are preferred.
    void set_captive(uint8_t slot, bool is_captive, const std::string& portal_url);
    // A SNAPT answers over it, as far as is known.
    bool works(const uplinks::Uplink& uplink) const;
    // Data goes over it, or would if it worked.
    bool is_needed(const uplinks::Uplink& uplink) const;
    // The uplink is to be a path to that SNAPT.
    bool is_path(const SnaptLink& link, const uplinks::Uplink& uplink) const {
        return link.addresses.has(uplink.address.version) && !is_spare(link, uplink);
    }
    // Why the SNAPT does not work; `slot`: the uplink at fault, if there is one.
    static void note_failure(SnaptLink& link, Failure failure, std::optional<uint8_t> slot);
    // The same for one of several ways, while others are tried.
    static void note_way(SnaptLink& link, const Failure& failure, std::optional<uint8_t> slot);
    // The SNAPT has let the node in, by the uplink in `slot`.
    static void note_login(SnaptLink& link, std::optional<uint8_t> slot);
    // The uplink will carry nothing more for this session: data does not wait for silence.
    void give_up(SnaptLink& link) { lose_link(link); }

    // Once a second: samples for the reported rates.
    void look_at_rates(base::TimePoint now);

    // --- Policy
    void set_ruleset(std::shared_ptr<const classifier::Ruleset> ruleset);
    void set_classes(const dataplane::ClassTable& table);

    // --- Observers
    const std::vector<std::unique_ptr<SnaptLink>>& links() const { return links_; }
    flow::FlowTable& flows() { return flows_; }
    uplinks::Uplinks& uplinks() { return *uplinks_; }
    const uplinks::Uplinks& uplinks() const { return *uplinks_; }
    const std::vector<Handover>& handovers() const { return handovers_; }
    uint64_t handover_count() const { return handover_count_; }
    base::DropCounters all_drops() const;
    const dataplane::EndedSessions& ended() const { return ended_; }
    // Totals of all sessions, including ended ones.
    report::ClassFigureTable sent() const;
    dataplane::ReceivedFigures received() const;
    const dataplane::RecentRates& rates() const { return rates_; }  // inner packets
    const base::MemoryBudget& kept_memory() const { return kept_memory_; }
    dataplane::TunPort& tun() { return *tun_port_; }
    const io::NetSnapshot& network() const { return monitor_->snapshot(); }
    io::NetMonitor& monitor() const { return *monitor_; }
    uplinks::NearLinks near_links(uint32_t group) const;
    // Networks of uplinks with public addresses.
    const uplinks::OnLinkNetworks& on_link() const { return on_link_; }
    std::vector<base::IpAddress> snapt_addresses() const;

    // --- session::SessionHost
    flow::Flow* on_flow_opened(session::Session& session,
                               const session::FlowOpening& opening,
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
    void on_path_challenged(session::Session& session, uint8_t path, base::TimePoint now) override;
    void on_peer_closed(session::Session& session, base::TimePoint now) override;
    void on_held_delivered(session::Session& /*session*/) override {
        tun_port_->coalescer().flush();
    }

    // --- dataplane::SocketDirectory
    io::UdpSocket* socket_for(const session::TransmitItem& item) override;
    bool send_stream(const session::TransmitItem& item, base::ByteView bytes) override;
    // Each class has a socket of its own, made with the marks of the start.
    std::optional<uint8_t> tos_of(const session::TransmitItem& item) override;
    void wait_writable(io::UdpSocket& socket) override;
    void on_too_big(const session::TransmitItem& item) override;

  private:
    SnaptLink* link_of(const session::Session& session) const;
    // node.cpp
    flow::Flow* flow_of(const session::Session& session, const packet::FiveTuple& tuple);
    flow::Flow* resume_flow(const session::Session& session,
                            const packet::PacketSummary& summary,
                            base::TimePoint now);
    // node_unknown.cpp
    void reset_unknown(SnaptLink& link,
                       const packet::PacketSummary& summary,
                       base::ByteView packet,
                       base::TimePoint now);
    flow::Flow* begin_unknown(SnaptLink& link, const packet::FiveTuple& tuple, base::TimePoint now);
    void tell_refusal(const packet::FiveTuple& flow, base::TimePoint now);
    void measure_throughput(SnaptLink& link, base::TimePoint now);
    void on_socket_readable(const uplinks::Uplink& uplink, io::UdpSocket& socket);
    void on_datagrams(const uplinks::Uplink& uplink,
                      const io::ReceivedBatch& batch,
                      base::TimePoint now);
    void on_unsealed(base::ByteView datagram, base::TimePoint now);
    void on_housekeeping();

    // node_paths.cpp
    void on_network_changed();
    void follow_snapt_addresses();
    void update_all_paths(const uplinks::Uplinks::Change& change, base::TimePoint now);
    void update_paths(SnaptLink& link, const uplinks::Uplinks::Change& change, base::TimePoint now);
    void add_paths(SnaptLink& link, base::TimePoint now);
    void add_new_paths(SnaptLink& link, base::TimePoint now);
    // All paths but the active one.
    void remove_cut_paths(SnaptLink& link);
    void lose_link(SnaptLink& link);

    // node_choice.cpp: what policy::PathManager is told, and its plan carried out.
    // After every change, and at its deadline.
    void choose(SnaptLink& link, base::TimePoint now);
    void on_choice_due();
    void set_choice_timer();
    std::vector<policy::UplinkFacts> facts_of(const SnaptLink& link) const;
    std::vector<policy::PathView> views_of(const SnaptLink& link) const;
    static bool is_busy(SnaptLink& link, base::TimePoint now);
    void note_need(SnaptLink& link, base::TimePoint now);
    void activate(SnaptLink& link,
                  const std::optional<policy::Candidate>& former,
                  const policy::Candidate& next,
                  base::TimePoint now);
    void enter_stream(SnaptLink& link, bool was_on_stream);
    void leave_stream(SnaptLink& link, uint8_t slot, base::TimePoint now);
    void ask(SnaptLink& link, const policy::Candidate& candidate, base::TimePoint now);
    std::string name_of(const policy::Candidate& candidate);
    // Since when the way has been silent; now, if it is not.
    static base::TimePoint
    silent_since(const SnaptLink& link, const policy::Candidate& way, base::TimePoint now);

    // node_notes.cpp
    // Uplinks without carrier or route.
    void note_ways();
    static void note_path(SnaptLink& link, uint8_t path, FailureKind kind, const std::string& text);
    static void note_mended(SnaptLink& link, uint8_t path, FailureKind kind);
    void log_handover(const SnaptLink& link, const Handover& handover, base::TimePoint now);

    // node_versions.cpp
    void set_address(SnaptLink& link, base::Endpoint address);
    void watch_routes(const SnaptLink& link);
    void leave_paths(SnaptLink& link, base::IpVersion version);
    bool is_spare(const SnaptLink& link, const uplinks::Uplink& uplink) const;
    void remove_spare_paths(SnaptLink& link);
    static uint16_t
    largest_segment(const SnaptLink& link, const flow::Flow& flow, base::TimePoint now);

    // node_hints.cpp
    // Follows Wi-Fi if this kernel supports it.
    void follow_wireless();
    void on_wireless(const io::WirelessEvent& event);
    void on_signal(uint32_t interface_index, base::TimePoint now);
    // Signal of the Wi-Fi uplinks in use.
    uint64_t received_on(uint8_t slot) const;
    void ask_signals(base::TimePoint now);
    bool is_cut(uint8_t slot) const;
    static void ask_joined(SnaptLink& link, uint8_t slot, base::TimePoint now);
    void on_pause(base::Duration pause);

    // node_packets.cpp
    void on_tun_readable();
    void rest(base::TimePoint now);
    uint64_t queued_bytes() const;
    void on_packet(packet::PacketPtr packet, base::TimePoint now);
    flow::Flow* begin_flow(const packet::PacketSummary& summary, base::TimePoint now);
    void classify(NodeFlow& node_flow, base::TimePoint now);
    void bind(NodeFlow& node_flow, base::TimePoint now);
    // The SNAPT that the flow was bound to before a restart.
    std::optional<size_t> former_snapt(const packet::FiveTuple& flow) const;
    void refuse(NodeFlow& node_flow, std::string reason, base::TimePoint now);
    // node_on_link.cpp: refuses a new flow to a host in the network of an uplink, if so configured.
    bool refuses_on_link(NodeFlow& node_flow, base::TimePoint now);
    void forward(NodeFlow& node_flow, packet::PacketPtr packet, bool is_syn, base::TimePoint now);
    void answer_refused(base::ByteView packet);
    void release_waiting(NodeFlow& node_flow, base::TimePoint now);
    void on_wait_over();
    classifier::FlowFacts facts_of(const NodeFlow& node_flow) const;
    void change_class(NodeFlow& node_flow, base::TrafficClass traffic_class, base::TimePoint now);
    void consider_promotion(NodeFlow& node_flow, uint32_t bytes, base::TimePoint now);
    uint16_t app_tag(SnaptLink& link, const classifier::Classification& classification);
    void name_apps(SnaptLink& link);
    // flow_owner.cpp
    bool is_gateway() const { return !settings_.uplinks.lan.empty(); }
    void look_up(NodeFlow& node_flow);
    void count_for_host(const packet::FiveTuple& tuple,
                        const io::SocketOwner& owner,
                        const std::optional<base::IpAddress>& host);
    void on_process_found(const packet::FiveTuple& tuple,
                          const io::SocketOwner& owner,
                          std::string user);
    // The SNAPTs for new flows; the best one is chosen. The data path does not notice the death of
    // an idle SNAPT, but its control link is lost.
    enum class Fitness : uint8_t { None, NotForwarding, Unlisted, WithoutControl, Good };
    static Fitness fitness(const SnaptLink& link);
    policy::Decision decide(const NodeFlow& node_flow) const;
    size_t flow_limit(base::IpVersion version) const;
    void end_flow(flow::Flow& flow, base::TimePoint now);
    void displace(flow::Flow& flow, base::TimePoint now);

    io::EventLoop& loop_;
    NodeSettings settings_;
    base::Random& random_;
    NodeEvents& events_;
    base::DropCounters drops_;
    packet::PacketPool pool_;
    session::SessionScratch scratch_;
    base::MemoryBudget kept_memory_{session::kMaxKeptBytes};  // outlives the sessions
    flow::HeapSlots slots_;
    flow::HostShares hosts_;  // a gateway's hosts
    flow::FlowTable flows_;
    flow::FragmentCache fragments_;  // up
    flow::FragmentCache fragments_down_;
    std::unique_ptr<io::TunDevice> tun_;
    std::unique_ptr<dataplane::TunPort> tun_port_;
    std::unique_ptr<io::Poller> tun_poller_;
    std::unique_ptr<uplinks::Uplinks> uplinks_;
    std::unique_ptr<io::NetMonitor> monitor_;
    std::unique_ptr<io::WirelessMonitor> wireless_;  // null: no Wi-Fi here
    dataplane::DatagramReceiver receiver_;
    dataplane::EndedSessions ended_;
    dataplane::RecentRates rates_;
    bool has_new_marks_ = false;  // a reload changed the outer DSCP
    dataplane::SessionDriver driver_;
    io::DeadlineTimer housekeeping_;
    io::DeadlineTimer wait_timer_;
    io::DeadlineTimer choice_timer_;
    io::PauseWatcher pause_watcher_;
    std::unique_ptr<io::WorkerThread> worker_;
    std::shared_ptr<io::ProcessLookup> lookup_;
    std::shared_ptr<io::NetfilterClient> tracking_;  // a gateway's connection tracking; on worker_
    std::shared_ptr<const classifier::Ruleset> ruleset_;
    uplinks::OnLinkNetworks on_link_;
    std::vector<std::unique_ptr<SnaptLink>> links_;
    std::vector<NodeFlow*> waiting_flows_;
    std::optional<BindingJournal> journal_;
    std::vector<Handover> handovers_;  // the latest ones
    uint64_t handover_count_ = 0;
    base::TimePoint resets_began_at_{};  // the second in which resets_ were sent
    uint32_t resets_ = 0;
    base::TimePoint refusal_told_at_{};       // when a refusal was last logged
    base::TimePoint handover_log_free_at_{};  // when the rate limit allows the next line
    uint64_t unlogged_handovers_ = 0;
};

}  // namespace continuo::cnapt::node
