// FlowTable: the flows of one loop, by 5-tuple. Memory comes in slabs when first needed and is
// kept, addresses are stable, nothing is allocated for a packet. The table also runs each flow's
// life-cycle (flow.hpp) and its timeout.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/flow/flow.hpp"
#include "common/flow/flow_share.hpp"
#include "common/flow/flow_wheel.hpp"
#include "common/flow/host_shares.hpp"
#include "common/flow/slot_source.hpp"
#include "common/packet/rewrite.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace continuo::flow {

namespace timeout {
inline constexpr base::Duration kUdp = base::seconds(120);  // RFC 4787 REQ-5
inline constexpr base::Duration kUdpUnanswered =
    base::seconds(30);  // ours: below REQ-5, as thousands may be under way at once; the NAT
                        // behind the SNAPT goes on knowing the mapping
inline constexpr base::Duration kDns = base::seconds(10);  // REQ-5a: well-known port may be shorter
inline constexpr base::Duration kTcpTransitory =
    base::seconds(240);  // RFC 5382 REQ-5; RFC 7857 sections 2.1, 2.2
inline constexpr base::Duration kTcpEstablished =
    base::seconds(7440);                                        // RFC 5382 REQ-5: 2 hours 4 minutes
inline constexpr base::Duration kIcmpEcho = base::seconds(60);  // RFC 5508 REQ-2
inline constexpr base::Duration kRefused =
    base::seconds(10);  // ours; the policy is then asked again
inline constexpr base::Duration kEndedThere =
    base::seconds(2);  // ours: longer than TCP waits before it repeats a SYN (RFC 6298, 2.1)
}  // namespace timeout

// Most flows displaced for one, as after a limit was lowered: each takes time.
inline constexpr size_t kMostGiveWay = 64;

// A flow counts as active from one packet to the next, but no longer than this.
inline constexpr base::Duration kMaxActiveGap = base::seconds(1);

struct FlowTableOptions {
    uint64_t first_flow_id = 1;           // ids count upwards; loops of one process begin far apart
    uint64_t hash_seed = 0;               // random, so that nobody can aim at one bucket
    uint8_t writer = 0;                   // number of the loop
    base::DropCounters* drops = nullptr;  // FlowLimit is counted here, too
};

// The daemon's knowledge of a flow when it begins.
struct FlowOrigin {
    uint32_t session_number = 0;
    uint16_t app = 0;
    uint32_t index = 0;
    FlowShare* share = nullptr;  // outlives the flow; null: none
    // Down: it gives way and has no reserve until the node sends.
    Direction begun = Direction::Up;
};

// Whether a flow may have the reserve of a limit.
bool is_favoured(const packet::FiveTuple& tuple, base::TrafficClass traffic_class);

enum class PacketVerdict : uint8_t {
    Accepted,
    NewConnection,  // SYN for a flow that is closing: nothing was noted; erase the flow and create
                    // another
};

// Seeded, so that nobody can aim at a value.
uint64_t keyed_hash(const packet::FiveTuple& tuple, uint64_t seed);

class FlowTable {
  public:
    FlowTable(size_t max_flows, SlotSource& slots, const FlowTableOptions& options = {});
    FlowTable(const FlowTable&) = delete;
    FlowTable& operator=(const FlowTable&) = delete;
    ~FlowTable();  // releases the slots of what is left as SessionEnd

    // UTC microseconds minus monotonic microseconds, for the slots' times. Set before the first
    // flow and on clock steps.
    void set_utc_offset_us(int64_t offset_us) { utc_offset_us_ = offset_us; }
    int64_t utc_us(base::TimePoint at) const;  // by that offset

    Flow* find(const packet::FiveTuple& tuple) const;
    // A flow in state Opening; null, and counted, when the table or the slots are full. The tuple
    // must not be in the table.
    Flow* create(const packet::FiveTuple& tuple,
                 base::TrafficClass traffic_class,
                 base::TimePoint now,
                 const FlowOrigin& origin = {});
    // The flow's queue must be empty.
    void erase(Flow& flow, Cause cause = Cause::Closed);

    // Notes a packet of either direction: state, idle time, activity. Does not count bytes. An ICMP
    // error about the flow changes nothing (RFC 5508 REQ-7: it may be forged).
    PacketVerdict on_packet(Flow& flow,
                            Direction direction,
                            const packet::PacketSummary& summary,
                            base::TimePoint now);
    void refuse(Flow& flow, base::TimePoint now);
    // The other end has ended the flow, or one that had its index before: it ends here unless a
    // packet comes within timeout::kEndedThere.
    void on_ended_there(Flow& flow, base::TimePoint now);
    // Goes on counting in a slot of the new class with an id of its own, so that each record has
    // one class; the flow's number stays, up to kMostClassChanges. False when there is no slot: the
    // class stays.
    bool reclassify(Flow& flow, base::TrafficClass traffic_class, base::TimePoint now);

    // Erases the flows whose time is up after `on_expired` saw each, with state Closed. It must not
    // erase that one itself, but may erase or create others. Returns their number. A flow with
    // queued packets stays for another idle time.
    template <typename OnExpired>
    size_t expire(base::TimePoint now, OnExpired&& on_expired) {
        size_t expired = 0;
        while (Flow* flow = next_expired(now)) {
            const bool was_closing = flow->state == FlowState::Closing;
            flow->state = FlowState::Closed;
            on_expired(*flow);
            erase(*flow, was_closing ? Cause::Closed : Cause::Idle);
            ++expired;
        }
        return expired;
    }
    base::TimePoint next_deadline() const { return wheel_.next_deadline(); }

    // `visitor` may erase the flow it is given.
    template <typename Visitor>
    void for_each(Visitor&& visitor) {
        for (size_t cursor = 0; cursor != kEnd;) {
            cursor = visit(cursor, kFlowsPerSlab, visitor);
        }
    }
    // For snapshots in pieces: looks at up to `places` places from `cursor` (0 at first) and
    // returns where to go on, or kEnd. A flow that lives from begin to end is seen once.
    static constexpr size_t kEnd = ~size_t{0};
    template <typename Visitor>
    size_t visit(size_t cursor, size_t places, Visitor&& visitor) {
        const size_t end = slabs_.size() * kFlowsPerSlab;
        for (; cursor < end && places > 0; ++cursor, --places) {
            Flow& flow = slabs_[cursor / kFlowsPerSlab][cursor % kFlowsPerSlab];
            if (flow.counters != nullptr) {
                visitor(flow);
            }
        }
        return cursor < end ? cursor : kEnd;
    }

    // Makes room for another flow in the table, where it may have `most`, and in `share`, whose
    // limit 0 means none. Flows that were never answered, or are closed, are displaced by `end`,
    // which erases each. False: there is no room, which is counted as by create().
    template <typename End>
    bool make_room(
        bool is_favoured, FlowShare* share, size_t share_limit, End&& end, size_t most = SIZE_MAX) {
        const bool has_room = make_room_in(share, share_limit, is_favoured, end) &&
                              make_room_in(&all_, std::min(most, max_flows_), is_favoured, end);
        if (!has_room) {
            count_refusal();
        }
        return has_room;
    }

    // Whether an ordinary flow has a free place in a table of `most`, of which none gives way.
    bool has_free_place(size_t most) const {
        return all_.has_room(std::min(most, max_flows_), false);
    }

    // The same as make_room() for `hosts`, that have `limit` flows of the table together.
    template <typename End>
    bool make_room(bool is_favoured, const HostShares& hosts, size_t limit, End&& end) {
        limit = std::min(limit, max_flows_);
        for (size_t i = 0; i < kMostGiveWay && !all_.has_room(limit, is_favoured); ++i) {
            Flow* flow = hosts.gives_way_to(is_favoured, all_.leaves_reserve(limit), limit);
            flow = flow == nullptr ? all_.gives_way_to(is_favoured) : flow;
            if (flow == nullptr) {
                break;
            }
            ++gave_way_;
            end(*flow);
        }
        const bool has_room = all_.has_room(limit, is_favoured);
        if (!has_room) {
            count_refusal();
        }
        return has_room;
    }
    // The flow counts in that share from now on.
    static void set_share(Flow& flow, FlowShare& share);

    uint64_t gave_way() const { return gave_way_; }  // displaced flows so far
    size_t size() const { return size_; }
    size_t max_flows() const { return max_flows_; }
    uint64_t limit_hits() const { return limit_hits_; }  // flows refused for lack of room

  private:
    static constexpr size_t kFlowsPerSlab = 64;

    template <typename End>
    bool make_room_in(FlowShare* share, size_t limit, bool is_favoured, End& end) {
        if (share == nullptr) {
            return true;
        }
        if (limit != 0 && share->running() >= limit) {
            return false;  // whatever gave way, it would not be enough
        }
        for (size_t i = 0; i < kMostGiveWay && !share->has_room(limit, is_favoured); ++i) {
            Flow* flow = share->gives_way_to(is_favoured);
            if (flow == nullptr) {
                return false;
            }
            ++gave_way_;
            end(*flow);
        }
        return share->has_room(limit, is_favoured);
    }
    void count_refusal();
    void join_shares(Flow& flow);
    void leave_shares(Flow& flow);
    void set_standing(Flow& flow, bool gives_way, bool is_favoured);
    size_t bucket_of(const packet::FiveTuple& tuple) const;
    Flow* next_expired(base::TimePoint now);
    Flow* take_flow();
    void give_back(Flow& flow);
    LiveSlot* take_slot(const Flow& flow, uint32_t session_number, uint64_t id, base::TimePoint at);

    SlotSource& slots_;
    FlowTableOptions options_;
    size_t max_flows_;
    std::vector<Flow*> buckets_;  // a power of two
    std::vector<std::unique_ptr<Flow[]>> slabs_;
    Flow* free_ = nullptr;  // linked by next_in_bucket
    FlowWheel wheel_;
    size_t size_ = 0;
    uint64_t next_flow_id_;
    uint64_t limit_hits_ = 0;
    uint64_t gave_way_ = 0;
    FlowShare all_{ShareLevel::Table};
    int64_t utc_offset_us_ = 0;
};
// 256 bytes would be the goal together with the bucket; the queue and the links take their part.
static_assert(sizeof(Flow) + sizeof(Flow*) <= 512);

}  // namespace continuo::flow
