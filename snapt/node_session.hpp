// NodeSession: a session of a node with a SNAPT, as the relay keeps it, and what all sessions of a
// user share.
#pragma once

#include "common/base/path_mode.hpp"
#include "common/base/token_bucket.hpp"
#include "common/control/message.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/dataplane/figures.hpp"
#include "common/dataplane/frame_backlog.hpp"
#include "common/dataplane/input_queues.hpp"
#include "common/dataplane/turns.hpp"
#include "common/flow/flow_share.hpp"
#include "common/flow/fragment_cache.hpp"
#include "common/session/session.hpp"
#include "snapt/accounting/user_meter.hpp"
#include "snapt/app_names.hpp"
#include "snapt/gone_flows.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace continuo::snapt {

// The owner of a session and what the session was given.
struct SessionGrant {
    std::string user;
    int64_t account_id = 0;  // of the user, which another one of this name does not have
    std::string key_id;      // that the latest handshake was made with
    std::string node;        // as it is called here
    std::string told_node;   // as it calls itself
    std::optional<control::NodeId> node_id;
    control::SessionId session_id{};
    uint32_t accounting_number = 0;
    std::optional<base::IpAddress> lease_ipv4;
    std::optional<base::IpAddress> lease_ipv6;
    uint16_t peer_id = 0;  // that the node listens for
    control::ProtectionOffer protection;
    std::optional<control::Continuation> continuation;
};

bool is_same_node(const SessionGrant& one, const SessionGrant& other);

// Why a session is over.
enum class SessionEnd : uint8_t {
    Replaced,      // its node began another one
    Left,          // its node ended it
    Idle,          // nothing was heard of its node for RelaySettings::idle_timeout
    NotAllowed,    // its user is disabled or removed, or its key is not valid any more
    ByOperator,    // who has nothing against another one
    OldHandshake,  // the latest handshake is too old
    GaveWay,       // nothing was heard of its node, and another one needed the place
    Stopped,       // this SNAPT ends
};
std::string_view to_string(SessionEnd end);

struct NodeSession;

// Work that one sender makes: what it sent by UDP and TCP, and packets that it has made of that.
struct Lane : dataplane::Turn {
    Lane(NodeSession* owner, size_t queue_bytes, base::MemoryBudget* memory)
        : node(owner), queue(queue_bytes), backlog(memory) {}
    NodeSession* node;  // null: senders whose address no session knows
    dataplane::InputQueue queue;
    dataplane::FrameBacklog backlog;
    std::shared_ptr<dataplane::DatagramQueue> stream;  // null: nothing waits there
    base::Endpoint stream_from;
    size_t at_once = 1;  // datagrams between two looks at the clock: few after such as cost much
};

// An unused rate is saved up for so long. What is over it waits in its class on the way down, so
// little is enough. What comes up is dropped: TCP fills a rate on average only if it may catch up
// on what its windows, halved by a loss, left unused. Choices, measured by tests/e2e/quotas.sh.
inline constexpr base::Duration kDownBurst = base::milliseconds(50);
inline constexpr base::Duration kUpBurst = base::milliseconds(500);

// State that the sessions of one user share.
struct UserShare {
    flow::FlowShare flows;
    std::shared_ptr<UserMeter> meter;         // of its account; there is one once it has a session
    base::TokenBucket down_rate{kDownBurst};  // packets of all its nodes
    base::TokenBucket up_rate{kUpBurst};
    bool is_stopped = false;         // and its flows have ended
    base::TimePoint answers_from{};  // the second in which
    uint32_t answers = 0;            // so many of its packets were answered, as there is no place
    GoneFlows::Share gone;           // flows; it lives until they are forgotten
    size_t sessions = 0;
    base::TimePoint refusal_told_at{};                  // in the log
    std::unique_ptr<flow::FragmentCache> fragments_up;  // made when first needed
    std::unique_ptr<flow::FragmentCache> fragments_down;
};

struct NodeSession : flow::FlowDetails {
    NodeSession(const session::SessionSettings& settings,
                session::SessionHost& host,
                session::SessionScratch& scratch,
                base::Random& random)
        : session(settings, host, scratch, random)
        , lane(this, dataplane::kInputQueueBytes, settings.memory) {}
    session::Session session;
    Lane lane;
    uint64_t refused_inputs = 0;  // datagrams and packets beyond its turns
    uint64_t dropped_inputs() const { return refused_inputs + lane.queue.dropped(); }
    SessionGrant grant;
    std::optional<control::SessionId> replaced;  // of another run of the node, which was here still
    uint16_t wire_id = 0;
    uint64_t number = 0;  // of the relay's sessions: never used twice, unlike wire_id
    std::shared_ptr<AppNames> apps = std::make_shared<AppNames>();
    // How often its control link was not read for a while: it said more than is taken.
    std::shared_ptr<std::atomic<uint64_t>> control_pauses =
        std::make_shared<std::atomic<uint64_t>>(0);
    std::unordered_map<uint32_t, base::PathMode> modes;  // of flows, by tag
    base::PathMode mode_of(uint32_t tag) const {
        const auto told = modes.find(tag);
        return told == modes.end() ? base::PathMode::Handover : told->second;
    }
    bool has_new_modes = false;  // which flows that there are do not have yet
    base::TimePoint since{};
    base::TimePoint handshake_at{};  // the latest one
    SessionEnd end = SessionEnd::Stopped;
    int64_t since_utc_s = 0;
    uint64_t up_bytes = 0;         // inner, delivered to the kernel
    dataplane::RecentRates rates;  // of inner packets
    // Likewise, by class (base::index_of).
    std::array<uint64_t, base::kTrafficClasses> up_class_bytes{};
    std::array<dataplane::RecentRates, base::kTrafficClasses> class_rates;
    size_t flows = 0;
    // Bytes that it sends and gets beside packets; slots once there are some.
    struct TunnelBytes {
        flow::LiveSlot* slot = nullptr;
        session::SessionCounters::Overhead counted;
    };
    std::array<TunnelBytes, base::kTrafficClasses> tunnel{};
    base::TimePoint refusals_from{};  // the second in which
    uint32_t refusals = 0;            // so many packets were let through to be refused
    UserShare* share = nullptr;       // of the user
    dataplane::StreamPort stream;     // into its control link; none: nothing can be sent over TCP
    bool has_link = false;            // its control link is open
    base::TimePoint link_lost_at{};
    base::TimePoint asked_at{};  // for a sign of life, once it was silent
    base::TimePoint heard_at() const { return std::max(session.heard_at(), since); }
};

}  // namespace continuo::snapt
