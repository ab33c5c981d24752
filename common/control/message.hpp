// Control messages between a node and a SNAPT inside TLS. One message is type (1), length (2),
// body; a body is a sequence of fields: id (1), length (2), value. Unknown ids and types below 0x80
// are skipped, others refused. docs/PROTOCOL.md section 4.3.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/ip_address.hpp"
#include "common/base/path_mode.hpp"
#include "common/base/result.hpp"
#include "common/wire/constants.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace continuo::control {

inline constexpr size_t kMessageHeaderBytes = 3;
inline constexpr size_t kMaxMessageBodyBytes = 65535;
inline constexpr size_t kMaxNameBytes = 64;
inline constexpr size_t kMaxTextBytes = 256;
inline constexpr size_t kMaxUsageBytes = size_t{60} * 1024;
inline constexpr size_t kMaxVersions = 8;
inline constexpr size_t kMaxOffers = 8;
inline constexpr size_t kMaxPorts = 16;
inline constexpr size_t kMaxDeniedPrefixes = 64;
inline constexpr size_t kMaxApps = 1024;
inline constexpr size_t kMaxDirectoryEntries = 64;
inline constexpr size_t kMaxDirectoryAddresses = 16;
inline constexpr size_t kMaxHostNameBytes = 253;  // RFC 1035 section 2.3.4, as text
inline constexpr size_t kSessionIdBytes = 16;
inline constexpr size_t kNodeIdBytes = 16;
inline constexpr uint8_t kProtocolVersion = wire::kProtocolVersion;

// Values on the wire; the first three match crypto::Protection by meaning, not by number.
enum class ProtectionKind : uint8_t { Aes256Gcm = 1, ChaCha20Poly1305 = 2, HmacSha256 = 3 };

struct ProtectionOffer {
    ProtectionKind kind = ProtectionKind::ChaCha20Poly1305;
    uint8_t tag_bytes = 16;
    bool operator==(const ProtectionOffer&) const = default;
};

enum class MessageType : uint8_t {
    Hello = 0x01,
    Accept = 0x02,
    Reject = 0x03,
    Rekey = 0x04,
    RekeyOk = 0x05,
    RekeyWanted = 0x06,
    Apps = 0x07,
    Directory = 0x08,
    KeepaliveRequest = 0x09,
    UsageQuery = 0x0A,
    UsageReply = 0x0B,
    SessionQuery = 0x0C,
    SessionState = 0x0D,
    Ping = 0x0E,
    Pong = 0x0F,
    Close = 0x10,
    Data = 0x11,
    Allowance = 0x12,
};

using SessionId = std::array<uint8_t, kSessionIdBytes>;
using NodeId = std::array<uint8_t, kNodeIdBytes>;

// Limits of the state that the sender of this message holds for the peer.
struct ReceiverLimits {
    uint32_t kept_bytes = 512 * 1024;       // unlisted plaintext per slot
    uint32_t max_output_bytes = 64 * 1024;  // one decompressed section
    uint8_t live_generations = 4;           // per slot
    uint32_t flows = 65536;
    bool operator==(const ReceiverLimits&) const = default;
};
// This implementation keeps no plaintext and no generation.
inline constexpr ReceiverLimits kOwnLimits{0, 64 * 1024, 0, 65536};

// Names the association that a new handshake continues: its flows and leases stay.
struct Continuation {
    uint16_t wire_session_up = 0;  // as the SNAPT gave it
    uint32_t epoch = 0;            // latest that the node has keys for
    bool operator==(const Continuation&) const = default;
};

struct Hello {
    std::vector<uint8_t> versions;  // versions of the datagram format, preferred first
    std::string node;
    std::string software;
    SessionId session_id{};               // accounting: chosen by the node, the same on every SNAPT
    uint16_t wire_session_down = 0;       // chosen by the node, used in datagrams to it
    std::vector<ProtectionOffer> offers;  // preferred first
    ReceiverLimits limits;
    bool want_ipv4 = true;
    bool want_ipv6 = true;
    std::optional<Continuation> continuation;
    std::string snapt{};  // the wanted one; empty: any
    // Constant while the node is installed; distinguishes it from others of its user and name.
    std::optional<NodeId> node_id{};
    bool operator==(const Hello&) const = default;
};

// Text for a node that supports no version of the datagram format of this program; nothing for any
// other.
std::optional<std::string> version_refusal(const Hello& hello);

struct Accept {
    uint8_t version = kProtocolVersion;
    uint16_t wire_session_up = 0;  // chosen by the SNAPT, used in datagrams to it
    std::string snapt;
    std::string realm;
    uint32_t epoch = 0;
    bool continued = false;  // the association named in HELLO goes on
    ProtectionOffer protection;
    std::optional<base::IpAddress> lease_ipv4;
    std::optional<base::IpAddress> lease_ipv6;
    uint16_t inner_mtu = 1500;
    std::vector<uint16_t> udp_ports;  // empty: the port of the TCP connection
    uint32_t keepalive_s = 25;
    uint32_t rekey_s = 3600;
    uint64_t rekey_datagrams = uint64_t{1} << 27;
    uint32_t idle_timeout_s = 86400;
    ReceiverLimits limits;
    std::string node{};  // the SNAPT's name for the node; empty: the node's own
    // Private prefixes that it does not forward to; kMaxDeniedPrefixes at most.
    std::vector<base::IpPrefix> denied{};
    // Flows that it lets the node's user have at a time, on all its nodes; 0: none told.
    uint32_t user_flows = 0;

    bool has_lease(base::IpVersion ip) const {
        return (ip == base::IpVersion::V4 ? lease_ipv4 : lease_ipv6).has_value();
    }
    bool operator==(const Accept&) const = default;
};

enum class RejectReason : uint8_t {
    Unspecified = 0,
    NoCommonVersion = 1,
    NoCommonProtection = 2,
    SessionLimit = 3,
    UserDisabled = 4,
    QuotaExhausted = 5,
    NoLease = 6,
    Draining = 7,
    BadHello = 8,
    Internal = 9,
    OtherSnapt = 10,  // this is not the wanted SNAPT
    NodeInUse = 11,   // another node has the name and the id of this one
};
struct Reject {
    RejectReason reason = RejectReason::Unspecified;
    std::string text;
    bool operator==(const Reject&) const = default;
};

// Asks for keys of `epoch` (current + 1); RekeyOk grants them.
struct Rekey {
    uint32_t epoch = 0;
    bool operator==(const Rekey&) const = default;
};
struct RekeyOk {
    uint32_t epoch = 0;
    bool operator==(const RekeyOk&) const = default;
};
// SNAPT to node: please re-key (its sending direction nears a limit).
struct RekeyWanted {
    bool operator==(const RekeyWanted&) const = default;
};

struct App {
    uint32_t tag = 0;
    std::string name;
    bool operator==(const App&) const = default;
};
// Path mode in the direction down for flows with that tag; tag 0: flows without one.
struct AppMode {
    uint32_t tag = 0;
    base::PathMode mode = base::PathMode::Handover;
    bool operator==(const AppMode&) const = default;
};
// Adds to the names and modes known in this association; a tag may get another mode.
struct Apps {
    std::vector<App> apps;
    std::vector<AppMode> modes{};
    bool operator==(const Apps&) const = default;
};

// Host name of a SNAPT, to be looked up by the node.
struct HostName {
    std::string name;
    uint16_t port = 0;
    bool operator==(const HostName&) const = default;
};
inline constexpr uint8_t kBitIpv4 = 1;
inline constexpr uint8_t kBitIpv6 = 2;
struct VersionSet {
    bool ipv4 = false;
    bool ipv6 = false;

    bool has(base::IpVersion version) const { return version == base::IpVersion::V4 ? ipv4 : ipv6; }
    bool operator==(const VersionSet&) const = default;
};

struct DirectoryEntry {
    std::string snapt;
    std::string realm;
    std::vector<base::Endpoint> addresses;
    uint16_t load_permille = 0;
    uint32_t price_permille = 1000;  // share of the plan's price
    // With `addresses` one at least, kMaxDirectoryAddresses at most.
    std::vector<HostName> names{};
    VersionSet no_way_out{};  // the host of the SNAPT has no route for their packets
    bool operator==(const DirectoryEntry&) const = default;
};
// Replaces the directory known before.
struct Directory {
    std::vector<DirectoryEntry> entries;
    bool operator==(const Directory&) const = default;
};

// SNAPT to node: send something on the current path at once.
struct KeepaliveRequest {
    bool operator==(const KeepaliveRequest&) const = default;
};
struct UsageQuery {
    uint32_t request = 0;  // copied to the reply
    std::string json;
    bool operator==(const UsageQuery&) const = default;
};
struct UsageReply {
    uint32_t request = 0;
    std::string json;
    bool operator==(const UsageReply&) const = default;
};
// Node to SNAPT: does the data path still know the association of this connection?
struct SessionQuery {
    bool operator==(const SessionQuery&) const = default;
};
// The answer; also sent unasked when it is no longer known.
struct SessionState {
    bool known = false;
    bool operator==(const SessionState&) const = default;
};
struct Ping {
    uint64_t opaque = 0;
    bool operator==(const Ping&) const = default;
};
struct Pong {
    uint64_t opaque = 0;
    bool operator==(const Pong&) const = default;
};

enum class CloseReason : uint8_t {
    Unspecified = 0,
    Shutdown = 1,      // the program stops
    Disconnected = 2,  // by the operator or user
    ProtocolError = 3,
    Timeout = 4,
    Replaced = 5,    // a newer connection of the same association took over
    WrongSnapt = 6,  // name or realm is not the one expected
    IdleTimeout = 7,
    Draining = 8,
};
struct Close {
    CloseReason reason = CloseReason::Unspecified;
    std::string text;
    bool operator==(const Close&) const = default;
};

enum class AllowanceState : uint8_t {
    Free = 0,       // far from any limit
    Warned = 1,     // 80 % of the quota or credit are used
    Noted = 2,      // used up, without consequence
    Throttled = 3,  // used up: `rate_bits_per_s` holds
    Stopped = 4,    // used up: the SNAPT refuses the node's traffic
};
enum class AllowanceKind : uint8_t { Quota = 1, Credit = 2 };
// In micro-denarii, as all money.
struct AllowanceCredit {
    int64_t limit_ud = 0;     // how far the balance may be below zero
    int64_t unbooked_ud = 0;  // cost of usage that is not booked yet
    bool operator==(const AllowanceCredit&) const = default;
};
// SNAPT to node: the user's allowance. Replaces the previous one.
struct Allowance {
    AllowanceState state = AllowanceState::Free;
    AllowanceKind kind = AllowanceKind::Quota;
    uint64_t quota_bytes = 0;  // payload, both ways; of a Quota
    uint64_t used_bytes = 0;   // used of the quota when this was sent
    uint64_t until_s = 0;      // end of its period, Unix seconds; 0: unknown
    uint64_t rate_bits_per_s = 0;
    std::optional<int64_t> balance_ud;      // as it is booked; none: neither bookings nor credit
    std::optional<AllowanceCredit> credit;  // none: any balance will do
    bool operator==(const Allowance&) const = default;
};

// An outer datagram over TCP, byte for byte. A view into the buffer that was parsed.
struct Data {
    base::ByteView datagram;
};

using Message = std::variant<Hello,
                             Accept,
                             Reject,
                             Rekey,
                             RekeyOk,
                             RekeyWanted,
                             Apps,
                             Directory,
                             KeepaliveRequest,
                             UsageQuery,
                             UsageReply,
                             SessionQuery,
                             SessionState,
                             Ping,
                             Pong,
                             Close,
                             Data,
                             Allowance>;

// Appends one message. Errors: LimitReached when a string, list or the body is beyond its limit
// (nothing is appended).
base::Result<void> append_message(std::vector<uint8_t>& to, const Message& message);

// One body. Empty for a type that may be skipped.
// Errors: Malformed (also beyond a limit above), Unsupported (unknown type or field that may not be
// skipped).
base::Result<std::optional<Message>> parse_message(uint8_t type, base::ByteView body);

}  // namespace continuo::control
