// Admission: turns a node's control link into a session of the relay: hello, lease, accounting,
// accept. Afterwards it exchanges keys, application names, usage and the end of the session with
// the node. Belongs to the data loop; leases come from the helper thread, and the ledger answers
// from its own.
#pragma once

#include "snapt/links/control_server.hpp"
#include "snapt/relay/relay.hpp"
#include "snapt/users/admission_log.hpp"
#include "snapt/users/admission_parts.hpp"
#include "snapt/users/directory_desk.hpp"
#include "snapt/users/session_desk.hpp"
#include "snapt/users/session_upkeep.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace continuo::snapt::users {

// Text for a node that logs in while the disk is full.
inline constexpr const char* kDiskFullText = "the disk of this SNAPT is full";

// Text for a node that logs in while this SNAPT drains, or whose session ends then.
inline constexpr const char* kDrainingText = "this SNAPT is being emptied, as before maintenance";

// Keys are no newer than the handshake they come from (docs/PROTOCOL.md section 4.5).
inline constexpr base::Duration kMaxHandshakeAge = base::seconds(86'400);

class Admission final : public links::ControlHandler, public relay::RelayEvents {
  public:
    explicit Admission(AdmissionParts parts)
        : parts_(std::move(parts))
        , directory_(parts_, [this](links::LinkId id) { return wire_id_of(id); }) {}
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;

    // Call before the loop runs. Both must outlive the last call to this as their handler.
    void connect(relay::Relay& relay, links::ControlServer& server);
    // The configuration names other SNAPTs now: all nodes are informed, some at each on_tick().
    void renew_directory() { directory_.renew(); }
    // Whether packets of nodes pass, and versions that cannot leave this host. Nodes are told, and
    // otherwise use another SNAPT for new flows.
    void set_forwarding(bool is_forwarding, control::VersionSet no_way_out) {
        directory_.set_forwarding(is_forwarding, no_way_out);
    }
    // No session is begun any more, and no flow kDrainNotice after the node was told: it takes
    // another SNAPT for them. Existing ones go on, until `most` is over if it is given; a later
    // call gives another. False: it drained already.
    bool begin_drain(std::optional<base::Duration> most) { return directory_.begin_drain(most); }
    // False: it did not drain.
    bool end_drain() { return directory_.end_drain(); }
    const std::optional<Drain>& drain() const { return directory_.drain(); }
    // Call once a second. Also renews the directory when this SNAPT's load changes.
    void on_tick();
    // Ends links and sessions at once: of that user; of all whose user or key is not valid any
    // more; of those whose handshake is kMaxHandshakeAge old.
    // Returns the number of sessions that ended.
    size_t end_user(std::string_view user);
    size_t end_revoked();
    // The operator ends the sessions of that user, or the one of that id, as hex_of() writes it.
    // The nodes may log in again.
    struct Ended {
        size_t sessions = 0;  // those of the relay, as `sessions` shows them
        size_t logins = 0;    // links that had no session yet

        bool is_any() const { return sessions + logins > 0; }
    };
    Ended disconnect_user(std::string_view user);
    Ended disconnect_session(std::string_view session_id);
    void end_old_keys(base::TimePoint now);
    // Renews leases and stores the use of keys for the last time; waits for the disk. Sessions that
    // close afterwards renew nothing.
    void finish_leases() { upkeep_.finish(*relay_); }
    // Stores in the user store when the keys of all sessions were last in use.
    void note_seen() { upkeep_.note_seen(*relay_); }

    // --- ControlHandler
    void on_hello(links::LinkId id,
                  const base::Endpoint& from,
                  const control::HelloReceived& received) override;
    void on_keys(links::LinkId id, const control::EpochKeys& keys) override;
    void on_modes(links::LinkId id, std::span<const control::AppMode> modes) override;
    void on_datagrams(links::LinkId id, dataplane::DatagramQueue& queue) override;
    void on_stream_room(links::LinkId id) override;
    void on_closed(links::LinkId id, const control::LinkClosed& closed) override;

    // --- RelayEvents
    void on_session_closed(const relay::NodeSession& session) override;
    void on_session_moved(const relay::NodeSession& session) override;
    void on_session_silent(const relay::NodeSession& session) override;
    bool on_flows_gone(std::vector<packet::FiveTuple> flows) override;
    void on_credit_used() override { parts_.accountant.look_soon(); }

  private:
    struct Link {
        relay::SessionGrant grant;
        base::Endpoint from;
        std::shared_ptr<SessionDesk> desk;  // null until the node is accepted
        uint16_t wire_id = 0;               // 0: not accepted, or the session is over
        bool is_open = false;               // its node was accepted, and may be informed
        bool is_waiting = false;            // for its lease or the ledger
        bool holds_lease = false;           // until its session does
        control::Allowance told{};          // the user's quota and credit
    };

    std::optional<control::ProtectionOffer> choose_protection(const control::Hello& hello) const;
    // Null when the relay has nothing for it.
    Link* link_let_in(links::LinkId id);
    // Asks nodes whose keys have sealed much for new ones.
    void ask_for_rekeys();
    void tell_allowance(links::LinkId id, Link& link);
    // Refuses a link in links_. `cause` only goes to the log.
    void refuse(links::LinkId id,
                control::RejectReason reason,
                const std::string& text,
                const std::string& cause = "-");
    void refuse_without_lease(links::LinkId id, const base::Error& error);
    void refuse_without_ledger(links::LinkId id, const base::Error& error);

    void assign_lease(links::LinkId id);
    void on_lease(links::LinkId id, const base::Result<store::Lease>& lease);
    void open_accounting(links::LinkId id);
    void on_accounting_open(links::LinkId id, const base::Result<uint32_t>& committed);
    void let_in(links::LinkId id);
    // Other nodes of the user that are here (SessionTable::is_here), or wait for a session.
    size_t nodes_beside(const relay::SessionGrant& grant) const;
    void ask_silent_nodes(std::string_view user);
    std::optional<links::LinkId> link_of(uint16_t wire_id) const;
    uint16_t wire_id_of(links::LinkId id) const;  // 0: the link has no session
    bool may_still_log_in(const relay::SessionGrant& grant) const;
    bool reject_if_disabled(links::LinkId id, const relay::SessionGrant& grant);
    // True when the link was refused because another process with the same node name and id has
    // taken its session over.
    bool reject_if_copied(links::LinkId id, const relay::SessionGrant& grant);
    Ended end_all(const std::function<bool(const relay::SessionGrant& grant)>& is_meant,
                  relay::SessionEnd session_end,
                  const char* why);
    void end_link(links::LinkId id,
                  Link& link,
                  control::CloseReason reason,
                  relay::SessionEnd session_end,
                  const char* why);

    AdmissionParts parts_;
    relay::Relay* relay_ = nullptr;
    links::ControlServer* server_ = nullptr;
    std::map<links::LinkId, Link> links_;
    std::multiset<std::string> lease_jobs_;  // users of running jobs, with or without a link
    DirectoryDesk directory_;
    SessionUpkeep upkeep_{parts_};
    AdmissionLog log_{parts_};
    bool is_forgetting_told_ = false;  // logged: the kernel does not forget connections
    bool is_replacing_ = false;        // the ending session gives way to its node's next one
};

}  // namespace continuo::snapt::users
