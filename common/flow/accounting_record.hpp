// UsageRecord: the usage of one flow in one interval, as a SNAPT's ledger keeps it and every sink
// gets it. Field names are the column names of usage_record. Byte counters are sums of whole
// packets; times are microseconds UTC.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace continuo::flow {

// Why a record was cut. The numbers are stored.
enum class Cause : uint8_t {
    Interval = 0,
    Closed = 1,
    Idle = 2,
    SessionEnd = 3,
    ClassChange = 4,  // or change of SNAPT
    Admin = 5,
    Quota = 6,
    Recovered = 7,
};

namespace record_flag {
inline constexpr uint32_t kFirst = 1;      // first record of its flow
inline constexpr uint32_t kLast = 2;       // no record of its flow follows
inline constexpr uint32_t kRecovered = 4;  // made at the start after a crash
inline constexpr uint32_t kClockUnsynced = 8;
inline constexpr uint32_t kClockStepped = 16;
inline constexpr uint32_t kDelayUnknown = 32;
inline constexpr uint32_t kLateSeal = 64;    // the ledger could not be written when it was due
inline constexpr uint32_t kAggregate = 128;  // several flows of one session and class
// The hash also covers the account. Without: the record predates accounts, and was assigned to one
// later.
inline constexpr uint32_t kHasAccount = 256;
inline constexpr uint32_t kTunnel = 512;  // without a flow: only tun_up and tun_down
// Null values that were not measured.
inline constexpr uint32_t kJitterUnknown = 1024;
inline constexpr uint32_t kLossUnknown = 2048;
}  // namespace record_flag

// Components of `delay_us`.
namespace delay_source {
inline constexpr int64_t kTunnel = 1;
inline constexpr int64_t kRemote = 2;
inline constexpr int64_t kQueue = 4;
}  // namespace delay_source

using SessionKey = std::array<uint8_t, 16>;

struct UsageRecord {
    // Idempotency key; seq counts from 0 in each epoch without holes.
    std::string snapt_id;
    int64_t epoch = 0;
    int64_t seq = 0;

    std::string user_id;
    SessionKey session_id{};
    std::string cnapt_id;
    std::string sharer_id;  // gateway node that relayed for the user; empty: none
    int64_t flow_id = 0;    // unique in (snapt_id, epoch); flow::flow_number() of it
                            // stays while its class changes
    int64_t cls = 0;        // value of base::TrafficClass
    int64_t proto = 0;      // IANA protocol number
    std::optional<std::string> app;
    std::optional<int64_t> dport;
    std::optional<std::string> dst;
    int64_t t_start = 0;
    int64_t t_end = 0;  // exclusive: the record is booked at the microsecond before
    int64_t active_us = 0;
    int64_t pay_up = 0;
    int64_t pay_down = 0;
    int64_t inner_up = 0;
    int64_t inner_down = 0;
    int64_t pkt_up = 0;
    int64_t pkt_down = 0;
    int64_t pre = 0;
    int64_t post = 0;
    std::optional<int64_t> delay_us;      // mean, weighted by packets
    std::optional<int64_t> delay_max_us;  // largest of the flow so far
    std::optional<int64_t> delay_src;     // bits of delay_source
    std::optional<int64_t> jitter_us;     // how much the delay of the same packets varied
    int64_t handovers = 0;  // by the node while the flow carried data; by each flow of several
    std::optional<int64_t> lost_pkts;
    Cause cause = Cause::Interval;
    uint32_t flags = 0;
    int64_t account_id = 0;  // of the user; 0: not known
    // Inner bytes sent to the node while it was gone; in no other count. Unknown: the record is
    // older than the field.
    std::optional<int64_t> undelivered;
    // Outer bytes of datagrams without packets of their own: control, padding, copies, repeats.
    // Unknown as above; both or none.
    std::optional<int64_t> tun_up;
    std::optional<int64_t> tun_down;
};

}  // namespace continuo::flow
