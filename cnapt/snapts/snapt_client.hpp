// SnaptClient: a node's control link to one SNAPT, and its effects on the data path. Belongs to the
// data loop.
#pragma once

#include "cnapt/control_link/control_client.hpp"
#include "cnapt/names/name_lookup.hpp"
#include "cnapt/node/node.hpp"
#include "cnapt/settings/node_config.hpp"
#include "cnapt/settings/node_id.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace continuo::cnapt::snapts {

// Most `cnapt usage` questions that wait for answers; a further one ends the oldest.
inline constexpr size_t kMaxUsageQuestions = 64;
// Different failures that are logged once; beyond that they are logged again. Bounds memory; a
// choice, not measured.
inline constexpr size_t kMaxToldFailures = 32;

// Addresses of a SNAPT. Names are looked up outside the tunnel, which may block for seconds; those
// without an address are appended to `unknown`.
std::vector<base::Endpoint> resolve(const settings::SnaptEntry& entry,
                                    const names::LookupPlaces& places,
                                    std::vector<std::string>* unknown = nullptr);

// The login parameters for that SNAPT. The caller sets session and its number. Requires the key.
control::ClientParameters login_parameters(const settings::NodeConfig& config,
                                           const settings::SnaptEntry& entry,
                                           const settings::NodeIdentity& identity);

class SnaptClient final : public control_link::ControlClientHandler {
  public:
    // Settings that are not about this SNAPT alone.
    struct Answers {
        std::function<void(const control::UsageReply& reply)> on_usage;
        std::function<void(const std::string& teller, const control::Directory& directory)>
            on_directory;
        std::function<void()> on_established;
        // No data goes, and TCP does not connect there.
        std::function<void(const base::Endpoint& remote)> on_unreached;
    };

    // All must outlive this.
    SnaptClient(node::Node& node,
                links::SnaptLink& link,
                control_link::ControlThread& thread,
                io::EventLoop& loop,
                Answers answers);

    // Errors: as ControlClient::start.
    base::Result<void> start(const settings::NodeConfig& config,
                             const settings::SnaptEntry& entry,
                             const settings::NodeIdentity& identity,
                             std::vector<base::Endpoint> addresses);
    void stop() { client_.stop(); }

    const links::SnaptLink& link() const { return link_; }
    links::SnaptLink& link() { return link_; }
    void path_moved() { client_.network_changed(uplinks()); }
    // The host's network has changed: an unreachable SNAPT may now be reached by the best route.
    void on_network_changed();
    // The next connection is wanted by that uplink, beside the one that is open.
    void connect_by(uint8_t slot);
    void stay() { client_.stay(); }
    // Data goes nowhere.
    bool is_lost() const { return !link_.is_up || link_.goes_nowhere(); }
    // Addresses that it already has do not cause a reconnect.
    void set_addresses(std::vector<base::Endpoint> addresses) {
        if (addresses == addresses_) {
            return;
        }
        addresses_ = addresses;
        node_.offer_addresses(link_, addresses);
        client_.set_addresses(std::move(addresses));
        client_.network_changed(uplinks());
    }
    void try_now() { client_.try_now(); }
    bool is_started() const { return is_started_; }
    // Attempts that failed since the last call.
    bool take_failure() { return std::exchange(has_failed_, false); }
    // An empty name: flows without one.
    void name_app(uint16_t tag, const std::string& name, base::PathMode mode) {
        control::Apps apps;
        if (!name.empty()) {
            apps.apps.push_back({tag, name});
        }
        apps.modes.push_back({tag, mode});
        client_.send_apps(std::move(apps));
    }
    void query_session() { client_.query_session(); }
    // on_usage gets an error when the link is lost before the answer.
    void query_usage(uint32_t number, std::string json);
    // Asks for new keys when the old ones have sealed much or are old, and daily for a new
    // handshake.
    void rekey_if_due(base::TimePoint now);

  private:
    // --- ControlClientHandler
    void on_established(const base::Endpoint& remote,
                        const std::optional<control_link::ControlUplink>& from,
                        const control::Established& established) override;
    void on_rejected(const control::Reject& reject) override;
    void on_rekeyed(const control::EpochKeys& keys) override;
    void on_rekey_wanted() override { client_.request_rekey(); }
    void on_directory(const control::Directory& directory) override {
        answers_.on_directory(link_.name, directory);
    }
    void on_keepalive_request() override { node_.request_keepalive(link_); }
    void on_usage(const control::UsageReply& reply) override;
    void on_session_state(bool known) override;
    void on_allowance(const control::Allowance& allowance) override;
    void on_datagrams(dataplane::DatagramQueue& queue) override {
        node_.streams().on_datagrams(link_, queue);
    }
    void on_stream_room() override { node_.streams().on_room(link_); }
    void on_stream_lost() override { node_.streams().on_lost(link_); }
    void on_stream_stuck(bool is_stuck) override { node_.streams().on_stuck(link_, is_stuck); }
    void on_closed(const control_link::LinkEnd& end) override;
    void on_way_failed(const control_link::LinkEnd& end) override;

    control_link::ControlUplinks uplinks();
    void add_others(control_link::ControlUplinks& uplinks);
    const uplinks::Uplink* uplink(base::IpVersion version) const;
    bool is_last_resort(const uplinks::Uplink& uplink) const;
    control_link::ControlUplink control_uplink(const uplinks::Uplink& uplink) const;
    std::optional<uint8_t> slot_of(const std::optional<control_link::ControlUplink>& from) const;
    void on_failed_attempt(const control_link::LinkEnd& end);
    bool lacks_version() const;
    // True when the failure has not been logged yet: each attempt would log the same.
    bool is_untold();
    void fail_usage();

    node::Node& node_;
    links::SnaptLink& link_;
    io::EventLoop& loop_;
    Answers answers_;
    control_link::ControlClient client_;
    std::vector<base::Endpoint> addresses_;
    // While no data flows: uplinks by which the SNAPT was not reached, and those still to be tried.
    uplinks::Uplinks::SlotSet unreached_;
    uplinks::Uplinks::SlotSet tried_;
    uplinks::Uplinks::SlotSet failed_by_;
    size_t failures_ = 0;  // since those are tried
    std::string node_name_;
    base::TimePoint round_began_at_{};
    std::vector<uint32_t> usage_asked_;  // without an answer; kMaxUsageQuestions at most
    base::TimePoint keyed_at_{};
    base::TimePoint connected_at_{};
    bool is_rekeying_ = false;
    bool is_started_ = false;
    bool has_failed_ = false;
    bool is_session_gone_ = false;         // says the SNAPT
    std::set<std::string> told_failures_;  // texts, since the last link; kMaxToldFailures
};

}  // namespace continuo::cnapt::snapts
