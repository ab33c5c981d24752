// NodeSession: a node's session as the relay keeps it, and the state shared by all sessions of a
// user.
#pragma once

#include "common/base/path_mode.hpp"
#include "common/base/token_bucket.hpp"
#include "common/control/message.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/dataplane/figures.hpp"
#include "common/flow/flow_share.hpp"
#include "common/flow/fragment_cache.hpp"
#include "common/tunnel/session.hpp"
#include "common/turns/frame_backlog.hpp"
#include "common/turns/input_queues.hpp"
#include "common/turns/turns.hpp"
#include "snapt/accounting/app_names.hpp"
#include "snapt/accounting/user_meter.hpp"
#include "snapt/relay/connections.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace continuo::snapt::relay {

// Identity of a session's owner.
struct SessionGrant {
    std::string user;
    int64_t account_id = 0;  // the user's; another user of this name has another
    std::string key_id;      // key of the latest handshake
    std::string node;        // its name at this SNAPT
    std::string told_node;   // its own name for itself
    std::optional<control::NodeId> node_id;
    control::SessionId session_id{};
    uint32_t accounting_number = 0;
    std::optional<base::IpAddress> lease_ipv4;
    std::optional<base::IpAddress> lease_ipv6;
    uint16_t peer_id = 0;  // session id that the node listens for
    control::ProtectionOffer protection;
    std::optional<control::Continuation> continuation;
    // For the account's first session, until it has that; null: a meter without terms.
    std::shared_ptr<accounting::UserMeter> meter{};
};

bool is_same_node(const SessionGrant& one, const SessionGrant& other);

// Reasons for the end of a session.
enum class SessionEnd : uint8_t {
    Replaced,      // its node started another one
    Left,          // its node ended it
    Idle,          // its node was not heard for RelaySettings::idle_timeout
    NotAllowed,    // its user is disabled or removed, or its key is not valid any more
    ByOperator,    // the node may log in again
    OldHandshake,  // the latest handshake is too old
    Drained,       // this SNAPT drains, and the time for its flows was over
    GaveWay,       // its node was not heard, and another session needed the place
    Stopped,       // this SNAPT ends
};
std::string_view to_string(SessionEnd end);
// The current address of the node.
std::optional<base::Endpoint> remote_of(const tunnel::Session& session);

struct NodeSession;

// Work caused by one sender: its datagrams over UDP and TCP, and packets made of them.
struct Lane : turns::Turn {
    Lane(NodeSession* owner, size_t queue_bytes, base::MemoryBudget* memory)
        : node(owner), queue(queue_bytes), backlog(memory) {}
    NodeSession* node;  // null: senders with an address of no session
    turns::InputQueue queue;
    turns::FrameBacklog backlog;
    std::shared_ptr<dataplane::DatagramQueue> stream;  // null: nothing waits there
    base::Endpoint stream_from;
    size_t at_once = 1;  // datagrams between clock readings: few after expensive ones
};

// Burst of an unused rate. Down, excess waits in its class, so little is enough. Up, it is dropped:
// TCP fills a rate on average only if it may make up for what its windows, halved by a loss, left
// unused. Choices, measured by tests/e2e/quotas.sh.
inline constexpr base::Duration kDownBurst = base::milliseconds(50);
inline constexpr base::Duration kUpBurst = base::milliseconds(500);

// State shared by the sessions of one user.
struct UserShare {
    flow::FlowShare flows;
    TrackedShare* tracked = nullptr;               // never null
    std::shared_ptr<accounting::UserMeter> meter;  // its account's; set once it has a session
    base::TokenBucket down_rate{kDownBurst};       // packets of all its nodes
    base::TokenBucket up_rate{kUpBurst};
    bool is_used_up() const { return meter->is_stopped(); }
    uint64_t throttled_bits_per_s = 0;  // the meter's, as it was applied
    bool is_stopped = false;            // its quota was used up, and its flows have ended
    base::TimePoint answers_from{};     // the second in which
    uint32_t answers = 0;               // packets answered in it, because there was no place
    std::vector<NodeSession*> nodes;    // its sessions
    base::TimePoint refusal_told_at{};  // in the log
    std::unique_ptr<flow::FragmentCache> fragments_up;  // made when first needed
    std::unique_ptr<flow::FragmentCache> fragments_down;
};

struct NodeSession : flow::FlowDetails {
    NodeSession(const session::SessionSettings& settings,
                session::SessionHost& host,
                session::SessionScratch& scratch,
                base::Random& random)
        : session(settings, host, scratch, random)
        , lane(this, turns::kInputQueueBytes, settings.memory) {}
    tunnel::Session session;
    Lane lane;
    uint64_t refused_inputs = 0;  // datagrams and packets beyond its turns
    uint64_t dropped_inputs() const { return refused_inputs + lane.queue.dropped(); }
    SessionGrant grant;
    std::optional<control::SessionId> replaced;  // another run's of the node, which was still here
    uint16_t wire_id = 0;
    uint64_t number = 0;  // this session's in the relay: never reused, unlike wire_id
    std::shared_ptr<accounting::AppNames> apps = std::make_shared<accounting::AppNames>();
    // How often its control link was not read for a while because it sent too much.
    std::shared_ptr<std::atomic<uint64_t>> control_pauses =
        std::make_shared<std::atomic<uint64_t>>(0);
    std::unordered_map<uint32_t, base::PathMode> modes;  // modes of flows, by tag
    base::PathMode mode_of(uint32_t tag) const {
        const auto told = modes.find(tag);
        return told == modes.end() ? base::PathMode::Handover : told->second;
    }
    bool has_new_modes = false;  // not applied to existing flows yet
    base::TimePoint since{};
    base::TimePoint handshake_at{};              // the latest one
    base::TimePoint drains_from = base::kNever;  // its new flows are refused
    SessionEnd end = SessionEnd::Stopped;
    int64_t since_utc_s = 0;
    uint64_t up_bytes = 0;         // inner, delivered to the kernel
    dataplane::RecentRates rates;  // inner packets
    // Likewise, by class (base::index_of).
    std::array<uint64_t, base::kTrafficClasses> up_class_bytes{};
    std::array<dataplane::RecentRates, base::kTrafficClasses> class_rates;
    size_t flows = 0;
    // Bytes in both directions outside packets; slots once there are some.
    struct TunnelBytes {
        flow::LiveSlot* slot = nullptr;
        session::SessionCounters::Overhead counted;
    };
    std::array<TunnelBytes, base::kTrafficClasses> tunnel{};
    base::TimePoint refusals_from{};  // the second in which
    uint32_t refusals = 0;            // packets passed to the rules for refusal in it
    UserShare* share = nullptr;       // the user's
    dataplane::StreamPort stream;     // into its control link; none: no data over TCP
    bool has_link = false;            // its control link is open
    base::TimePoint link_lost_at{};
    base::TimePoint asked_at{};  // when it was asked for a sign of life
    base::TimePoint heard_at() const { return std::max(session.heard_at(), since); }
};

}  // namespace continuo::snapt::relay
