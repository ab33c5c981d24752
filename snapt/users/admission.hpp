// Admission: turns a node's control link into a session of the relay: hello, lease, accounting,
// accept. Afterwards it exchanges keys, application names, usage and the end of the session with
// the node. Belongs to the data loop; leases come from the helper thread, and the ledger answers
// from its own.
#pragma once

#include "common/io/worker_thread.hpp"
#include "snapt/accounting/accountant.hpp"
#include "snapt/links/control_server.hpp"
#include "snapt/links/event_log.hpp"
#include "snapt/relay/relay.hpp"
#include "snapt/settings/snapt_config.hpp"
#include "snapt/store/lease_store.hpp"
#include "snapt/store/user_store.hpp"
#include "snapt/users/session_desk.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace continuo::snapt::users {

// All must outlive the admission.
struct AdmissionParts {
    io::EventLoop& loop;
    io::WorkerThread& worker;
    const settings::SnaptConfig& config;  // its limits may change
    accounting::Accountant& accountant;
    store::LeaseStore& leases;
    store::UserStore& users;
    links::EventLog* events = nullptr;  // takes logins and ends; null: nobody reads them
    std::function<bool()> has_ipv6{};   // this host; empty: as the leases have it
};

// Text for a node that logs in while the disk is full.
inline constexpr const char* kDiskFullText = "the disk of this SNAPT is full";

// Text for a node that logs in while this SNAPT drains, or whose session ends then.
inline constexpr const char* kDrainingText = "this SNAPT is being emptied, as before maintenance";

// How long after it was told a node may still begin flows at a SNAPT that drains: its datagrams on
// the way, and a message that TCP repeats once (RFC 6298, 2.1: 1 s). A choice.
inline constexpr base::Duration kDrainNotice = base::seconds(2);

// An operator empties this SNAPT.
struct Drain {
    int64_t since_utc_s = 0;
    base::TimePoint ends_at = base::kNever;  // the sessions that are left; kNever: when their
                                             // flows have ended
    int64_t ends_utc_s = 0;                  // 0: never
};

// Keys are no newer than the handshake they come from (docs/PROTOCOL.md section 4.5).
inline constexpr base::Duration kMaxHandshakeAge = base::seconds(86'400);

// Offset of the wall clock from `now`: changes when the clock is set.
int64_t wall_clock_offset_us(base::TimePoint now);

class Admission final : public links::ControlHandler, public relay::RelayEvents {
  public:
    explicit Admission(const AdmissionParts& parts)
        : parts_(parts)
        , leases_renewed_at_(parts.loop.now())
        , seen_written_at_(leases_renewed_at_)
        , clock_offset_us_(wall_clock_offset_us(leases_renewed_at_)) {}

    // Call before the loop runs. Both must outlive the last call to this as their handler.
    void connect(relay::Relay& relay, links::ControlServer& server);
    // The configuration names other SNAPTs now: all nodes are informed, some at each on_tick().
    void renew_directory();
    // Whether packets of nodes pass, and versions that cannot leave this host. Nodes are told, and
    // otherwise use another SNAPT for new flows.
    void set_forwarding(bool is_forwarding, control::VersionSet no_way_out);
    // No session is begun any more, and no flow kDrainNotice after the node was told: it takes
    // another SNAPT for them. Existing ones go on, until `most` is over if it is given; a later
    // call gives another. False: it drained already.
    bool begin_drain(std::optional<base::Duration> most);
    // False: it did not drain.
    bool end_drain();
    const std::optional<Drain>& drain() const { return drain_; }
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
    void finish_leases();
    // Stores in the user store when the keys of all sessions were last in use.
    void note_seen();

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
        bool knows_directory = false;
        control::Allowance told{};  // the user's quota and credit
    };

    std::optional<control::ProtectionOffer> choose_protection(const control::Hello& hello) const;
    // Null when the relay has nothing for it.
    Link* link_let_in(links::LinkId id);
    void tell_directory(links::LinkId id, Link& link);
    // Asks nodes whose keys have sealed much for new ones.
    void ask_for_rekeys();
    // Renews the leases of all present nodes at intervals: a node that only continues requests
    // none, and would lose its lease after a crash of the SNAPT.
    void renew_leases();
    void renew_load();
    void note_seen(const relay::NodeSession& session);
    void write_seen();
    void tell_directories();
    bool takes_others() const { return is_forwarding_ && !drain_; }
    // admission_drain.cpp
    void drain_silent_nodes();
    void finish_drain();
    // admission_allowance.cpp
    void tell_allowances();
    void tell_allowance(links::LinkId id, Link& link);
    // admission_events.cpp
    void note(links::EventLog::Kind kind, links::EventLog::Fields fields);
    // Refuses a link in links_. `cause` only goes to the log.
    void refuse(links::LinkId id,
                control::RejectReason reason,
                const std::string& text,
                const std::string& cause = "-");
    void refuse_without_lease(links::LinkId id, const base::Error& error);
    void refuse_without_ledger(links::LinkId id, const base::Error& error);
    void note_login(const Link& link, bool is_continued);
    void note_end(const relay::NodeSession& session);

    void assign_lease(links::LinkId id);
    void on_lease(links::LinkId id, const base::Result<store::Lease>& lease);
    void open_accounting(links::LinkId id);
    void on_accounting_open(links::LinkId id, const base::Result<uint32_t>& committed);
    void let_in(links::LinkId id);
    void release_lease(const relay::SessionGrant& grant);
    // Other nodes of the user that are here (Relay::is_here), or wait for a session.
    size_t nodes_beside(const relay::SessionGrant& grant) const;
    void ask_silent_nodes(std::string_view user);
    std::optional<links::LinkId> link_of(uint16_t wire_id) const;
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
    control::Directory directory_;
    bool has_untold_ = false;  // some link has not been told
    uint16_t told_load_ = 0;
    bool is_forwarding_ = true;
    control::VersionSet no_way_out_;
    std::optional<Drain> drain_;
    base::TimePoint load_looked_at_{};
    base::TimePoint leases_renewed_at_;
    base::TimePoint seen_written_at_;
    int64_t clock_offset_us_;  // the wall clock's, at the last renewal of leases
    bool has_finished_leases_ = false;
    bool is_forgetting_told_ = false;  // logged: the kernel does not forget connections
    bool is_replacing_ = false;        // the ending session gives way to its node's next one
};

}  // namespace continuo::snapt::users
