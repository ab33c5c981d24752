// Node: the data path of cnapt. Packets of applications come in through cnapt0, and FlowAdmission
// hands them to the session of a SNAPT; restored packets go back. Lives on the data loop; control
// reports sessions to it.
#pragma once

#include "cnapt/admission/flow_admission.hpp"
#include "cnapt/node/handover_log.hpp"
#include "cnapt/node/link_streams.hpp"
#include "cnapt/node/wireless_hints.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "cnapt/uplinks/uplinks.hpp"
#include "common/control/epoch_keys.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/io/pause_watcher.hpp"
#include "common/record/recording.hpp"

#include <memory>
#include <string>
#include <vector>

namespace continuo::cnapt::node {

using links::FailureKind;
using links::SnaptLink;
using links::SnaptLinks;

inline constexpr size_t kSmallPackets = 16384;
inline constexpr size_t kLargePackets = 512;

struct NodeSettings {
    std::string device = "cnapt0";
    base::IpAddress ipv4;  // cnapt0's own
    base::IpAddress ipv6;
    size_t max_flows = 65536;
    std::string journal;  // file of the bindings; empty: they end with the process
    std::array<session::ClassSettings, base::kTrafficClasses> classes;
    uplinks::UplinkRules uplinks;
    uplinks::OnLinkPolicy on_link;
    record::Recording recording;  // must outlive the Node
};

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
    bool keep_device(bool is_kept) { return engine_.keep_tun(is_kept); }

    // --- Control, on the data loop
    // Port 0: not known yet.
    SnaptLink& add_link(std::string name, const base::Endpoint& address);
    // The addresses from the SNAPT's name or the configuration: takes the first of each IP version,
    // unless another one of them is in use.
    void offer_addresses(SnaptLink& link, const std::vector<base::Endpoint>& addresses);
    // The SNAPT has no address of that version any more.
    void forget_address(SnaptLink& link, base::IpVersion version);
    // Control has reached the SNAPT there and knows its UDP ports; establish() follows.
    void on_reached(SnaptLink& link, const base::Endpoint& address, const control::Accept& accept);
    // Keys and parameters of a new or continued association.
    base::Result<void>
    establish(SnaptLink& link, const control::Accept& accept, const control::EpochKeys& keys);
    base::Result<void> rekey(SnaptLink& link, const control::EpochKeys& keys);
    void request_keepalive(SnaptLink& link);
    // Asks whether the SNAPT still answers.
    void ask(SnaptLink& link);
    // Asks all its paths, including dead ones; their answers are counted.
    void ask_all(SnaptLink& link);
    // Removes a SNAPT without flows whose control link is gone.
    void remove_link(const SnaptLink& link);
    // Sets whether the uplink is behind a captive portal: then others are preferred.
    void set_captive(uint8_t slot, bool is_captive, const std::string& portal_url);
    // The uplink will carry nothing more for this session: data does not wait for silence.
    void give_up(SnaptLink& link) { lose_link(link); }

    // Once a second: samples for the reported rates.
    void look_at_rates(base::TimePoint now);

    // --- Policy
    void set_classes(const dataplane::ClassTable& table);

    // --- Observers
    const SnaptLinks& links() const { return links_; }
    admission::FlowAdmission& admission() { return admission_; }
    uplinks::Uplinks& uplinks() { return *uplinks_; }
    const uplinks::Uplinks& uplinks() const { return *uplinks_; }
    const LinkPaths& paths() const { return *paths_; }
    LinkStreams& streams() { return *streams_; }
    const HandoverLog& handovers() const { return handovers_; }
    // Totals of all sessions, and of the device.
    const dataplane::PacketEngine& engine() const { return engine_; }
    const dataplane::RecentRates& rates() const { return rates_; }  // inner packets
    const netlink::NetSnapshot& network() const { return monitor_->snapshot(); }
    netlink::NetMonitor& monitor() const { return *monitor_; }
    uplinks::NearLinks near_links(uint32_t group) const;

  private:
    // --- session::SessionHost
    flow::Flow* on_flow_opened(tunnel::Session& session,
                               const session::FlowOpening& opening,
                               base::TimePoint now) override;
    flow::Flow* find_flow(tunnel::Session& session, const packet::FiveTuple& tuple) override;
    void deliver(tunnel::Session& session,
                 flow::Flow& flow,
                 const packet::HeaderFields& fields,
                 base::ByteView payload,
                 base::TimePoint now) override;
    flow::Flow* deliver_whole(tunnel::Session& session,
                              base::TrafficClass traffic_class,
                              base::MutableByteView packet,
                              base::TimePoint now) override;
    void on_flows_closed(tunnel::Session& session, flow::Flow& flow, base::TimePoint now) override;
    void on_path_changed(tunnel::Session& session, uint8_t path, base::TimePoint now) override;
    void on_path_silent(tunnel::Session& session, uint8_t path, base::TimePoint now) override;
    void on_path_challenged(tunnel::Session& session, uint8_t path, base::TimePoint now) override;
    void on_peer_closed(tunnel::Session& session, base::TimePoint now) override;
    void on_held_delivered(tunnel::Session& /*session*/) override { engine_.flush(); }

    // --- dataplane::SocketDirectory
    io::UdpSocket* socket_for(const session::TransmitItem& item) override;
    bool send_stream(const session::TransmitItem& item, base::ByteView bytes) override;
    // Each class has a socket of its own, made with the marks of the start.
    std::optional<uint8_t> tos_of(const session::TransmitItem& item) override;
    void wait_writable(io::UdpSocket& socket) override;
    void on_too_big(const session::TransmitItem& item) override;

    SnaptLink* link_of(const tunnel::Session& session) const;
    // node.cpp
    void on_tun_readable();
    void rest(base::TimePoint now);
    uint64_t queued_bytes() const;
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
    void set_address(SnaptLink& link, base::Endpoint address);
    void watch_routes(const SnaptLink& link);
    void leave_paths(SnaptLink& link, base::IpVersion version);
    void on_pause(base::Duration pause);
    void lose_link(SnaptLink& link);
    // Uplinks without carrier or route.
    void note_ways();

    io::EventLoop& loop_;
    NodeSettings settings_;
    base::Random& random_;
    NodeEvents& events_;
    base::DropCounters drops_;
    dataplane::PacketEngine engine_;  // outlives flows and sessions
    SnaptLinks links_;
    admission::FlowAdmission admission_;
    flow::FragmentCache fragments_;  // down
    std::unique_ptr<uplinks::Uplinks> uplinks_;
    std::unique_ptr<netlink::NetMonitor> monitor_;
    std::unique_ptr<WirelessHints> wireless_;
    std::unique_ptr<LinkPaths> paths_;
    std::unique_ptr<LinkChoice> choice_;
    std::unique_ptr<LinkStreams> streams_;
    dataplane::RecentRates rates_;
    bool has_new_marks_ = false;  // a reload changed the outer DSCP
    io::DeadlineTimer housekeeping_;
    io::PauseWatcher pause_watcher_;
    HandoverLog handovers_;
};

}  // namespace continuo::cnapt::node
