// PathSet: the paths of one session and what is known of them (docs/PROTOCOL.md section 5). The
// node adds paths and chooses the active one; SNAPT learns them from authenticated datagrams and
// follows announcements. Pure: announcements, challenges and responses to send come out of
// next_probe().
//
// The state of a path follows from two facts (Path::settle):
//
//                Validation                          path::Health
//   Unknown      None: never used                    any
//   Challenged   Pending: add(), the first           Usable
//                datagram, a move; at a node also
//                activate(), probe(), on_pause()
//   Usable       Done: a RESPONSE came               Usable
//   Doubtful     Pending or Done                     Doubtful: silence, or no proof of arrival
//   Dead         Failed: remove(), give_up(),        any
//                more silence
//
// Silence is counted from the first datagram that should have been answered. At SNAPT it changes no
// state; SNAPT asks for a sign of life over control.
//
// SNAPT sends at most three times the bytes received to a tuple that has not answered a challenge.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/path/class_ways.hpp"
#include "common/path/delivery.hpp"
#include "common/session/path_types.hpp"
#include "common/wire/ack_ranges.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace continuo::session {

class PathSet {
  public:
    // `memory`: budget for the logs of datagrams under way (path::SentLog); null: no limit.
    PathSet(Role role, base::Random& random, base::MemoryBudget* memory = nullptr)
        : role_(role), random_(random), memory_(memory) {}

    // --- Node
    void add(uint8_t index, const base::Endpoint& remote, uint16_t mtu, base::TimePoint now);
    void remove(uint8_t index);
    // Moves the session to this path: announcements leave at once, whether or not there is data.
    void activate(uint8_t index, base::TimePoint now);
    // Sets the MTU of the path's uplink; SNAPT is told when it changes.
    void set_mtu(uint8_t index, uint16_t mtu, base::TimePoint now);
    // Asks a path that is not active whether it works, unless a question is open.
    void probe(uint8_t index, base::TimePoint now);
    // Asks a dead path at once and more often, since something in the network has changed.
    void ask_again(uint8_t index, base::TimePoint at);
    // SNAPT misses a sign of life; the node has had nothing to send since `idle_since`. If nothing
    // comes in either, the NAT mapping may be gone: announces the node. Packets that follow at once
    // show that they had been lost. False: the path works or is being asked already.
    bool on_request(base::TimePoint idle_since, base::TimePoint now);
    // Packets came on the path while the node had sent nothing since `idle_since`
    // (path::KeepaliveLearner).
    void on_packets(uint8_t index,
                    base::TimePoint idle_since,
                    base::Duration longest,
                    base::TimePoint now) {
        paths_[index].keepalive.on_packets(now - idle_since, longest, now);
    }
    // Node: a keepalive leaves on the active path, where lt-ld had sent nothing since `idle_since`.
    void on_keepalive(base::TimePoint idle_since, base::TimePoint now);
    // Node: SNAPT sees lt-ld of the active path at a new address.
    void on_remapped(base::Duration longest, base::TimePoint now) {
        if (active_) {
            paths_[*active_].keepalive.on_remapped(longest, now);
        }
    }
    // Interval of keepalives on the active path, at most `longest`.
    base::Duration keepalive(base::Duration longest) const {
        return active_ ? paths_[*active_].keepalive.interval(longest) : longest;
    }
    void try_longer_keepalive(base::Duration longest, base::TimePoint now) {
        if (active_) {
            paths_[*active_].keepalive.try_longer(longest, now);
        }
    }
    // Declares the path dead: it carries nothing until retry() is answered.
    void give_up(uint8_t index);
    // Asks a path that was given up once, at this address, whose port may differ from before.
    void retry(uint8_t index, const base::Endpoint& remote, base::TimePoint now);
    // Declares the path dead, and asks it at growing intervals like one that fell silent.
    void bury(uint8_t index, base::TimePoint now);
    // Moves the active path to another port of the SNAPT and announces it there.
    void redirect(const base::Endpoint& remote, base::TimePoint now);
    // Announces the active path once more, for instance after a route appeared.
    void announce_again(base::TimePoint now);
    // Paths that are not active are used as well: asks those that have not answered yet, and each
    // that was not heard for `longest`. This keeps mappings alive and detects dead paths.
    void keep_ready(base::Duration longest, base::TimePoint now);
    // `is_suspect`: a lower layer says that the path may soon carry nothing, so its silence is
    // believed sooner.
    void suspect(uint8_t index, bool is_suspect) { paths_[index].is_suspect = is_suspect; }
    // Asks whether the path works, whatever it is used for, unless a question is open.
    void ask(uint8_t index, base::TimePoint now);
    // This end was suspended: unanswered datagrams were not waited for, and mappings may be gone.
    // Announces the active path and asks the others, except dead ones.
    void on_pause(base::TimePoint now);

    // --- SNAPT
    // Returns once, after lt-ld of the active path was proven at a new address, the classes whose
    // old tuples are gone: datagrams under way to them are lost.
    ClassMask take_remapping() { return std::exchange(remapped_, ClassMask{0}); }
    // Those datagrams are already being repeated.
    void forget_remapping();
    // An authenticated datagram of `bytes` outer bytes arrived. `is_highest`: it has the highest
    // number of its space so far; only then may it move the tuple. Sends a challenge to a new
    // tuple. True when it ends a doubt (node).
    bool on_authenticated(const wire::Space& space,
                          const base::Endpoint& from,
                          const base::Endpoint& local,
                          uint64_t bytes,
                          bool is_highest,
                          base::TimePoint now);
    // Datagrams sent on the path have been unanswered for long and may be lost.
    bool is_overdue(uint8_t index, base::TimePoint now) const;
    // True when the return path moved.
    bool on_announce(uint8_t path, const wire::Announce& announce, base::TimePoint now);

    // A run of datagrams of one space left.
    void on_numbered(const path::SentRun& run, base::TimePoint now) {
        const auto space = wire::space_from_number(run.space.space);
        const uint8_t index = space.path;
        if (deliveries_[index] == nullptr && !run.has_packets) {
            return;  // a path that only announces itself costs nothing
        }
        delivery_of(index).on_sent(run, now);
        note_class_sent(index, space.traffic_class, run, now);
    }
    // A datagram that no ACK has named left again under its number on path `index`. If it left last
    // on another one, the log of `index` has it from now on.
    void on_sent_again(path::SentRun run, uint8_t index, base::TimePoint now);
    // The sender's queues are empty.
    void on_app_limited() {
        any_used([&](uint8_t index) {
            if (deliveries_[index] != nullptr) {
                deliveries_[index]->on_app_limited();
            }
            return false;
        });
    }
    // Datagrams sent before `now`, on any path, are excluded from rate samples: they are sent again
    // under the same number.
    void distrust_samples(base::TimePoint now);
    // Keys have changed: the peer owes no ACK for what left under the former ones.
    void forget_sent();
    // A range of an ACK for a space of that epoch, received on path `arrived_on`. Call
    // on_acks_read() after the last range of a datagram. `highest`: as in path::Delivery.
    void on_ack_range(uint32_t epoch,
                      const wire::Ack& ack,
                      const wire::AckRange& range,
                      uint8_t arrived_on);
    // After the ranges of a frame.
    void on_ack_count(uint32_t epoch, const wire::Ack& ack) {
        const uint32_t repeats = std::exchange(named_repeats_, 0U);
        if (deliveries_[ack.space.path] != nullptr) {
            deliveries_[ack.space.path]->on_count({epoch, wire::space_number(ack.space)},
                                                  ack.highest + 1 - ack.missing, repeats);
        }
    }
    void on_acks_read(base::TimePoint now);
    // An ACK on path `arrived_on` named a higher number of a space of path `index` than any before;
    // `outstanding` later ones were sent. True when it ends a doubt (node).
    bool on_feedback(uint8_t index, uint8_t arrived_on, uint64_t outstanding, base::TimePoint now);
    // Forgets acknowledgements that are too old.
    void forget_old_deliveries(base::TimePoint now);
    void on_duplicate(uint8_t index) { ++paths_[index].duplicate_datagrams; }
    // The path that carries the acknowledgements of path `index`: itself, unless it may not work.
    // None when no path is known.
    std::optional<uint8_t> acknowledges_by(uint8_t index, base::TimePoint now) const;

    // The tuple of that class is proven by other means: TCP proves an address by itself.
    void trust(const wire::Space& space);

    // --- Both
    // An authenticated datagram of `outer_bytes` arrived.
    void on_received(uint8_t index, uint64_t outer_bytes) {
        paths_[index].received_bytes += outer_bytes;
    }
    // Bytes that may be sent on the path; the sender sets it from its socket.
    void set_room(uint8_t index, uint64_t bytes) { paths_[index].room_bytes = bytes; }
    // `is_doubted`: it asks for a size or a way, or repeats, so that its answer leaves without
    // DSCP. `is_mere_question`: it asks for a size or a way; such are answered in their order, and
    // after all others, of which the newest is the best sample.
    void on_challenge(const wire::Space& space,
                      const wire::Challenge& challenge,
                      bool was_padded,
                      bool is_doubted,
                      bool is_mere_question = false);
    // True when this made the path usable, or (node) when the active path fails and this one may
    // take its place.
    bool on_response(const wire::Space& space, const wire::Response& response, base::TimePoint now);
    // `wants_answer`: the datagram carries packets, so an answer should come, if only to a
    // challenge.
    void
    on_sent(const Destination& destination, uint64_t bytes, bool wants_answer, base::TimePoint now);
    // Datagrams with packets left, each of `outer_bytes`. The MTU search uses this; TCP does not
    // need it.
    void
    on_data_sent(uint8_t index, uint32_t outer_bytes, uint64_t total_bytes, base::TimePoint now) {
        paths_[index].packets_sent_at = now;
        paths_[index].sent_bytes += total_bytes;
        if (index != wire::kTcpPath) {
            paths_[index].search.on_sent(outer_bytes, now);
        }
    }
    // The own host refuses datagrams of this size: the path takes the next smaller usual size.
    void on_too_big(uint8_t index, uint32_t outer_bytes, base::TimePoint now);
    // Checks the paths for silence. Returns one that just became doubtful or dead, or on which
    // SNAPT misses a sign of life; at most one per call.
    std::optional<uint8_t> on_time(base::TimePoint now);

    // Where traffic of that class goes now; nothing when there is no path. While the active path is
    // in doubt and its budget is used up, low-delay classes take the second one.
    std::optional<Destination> destination(base::TrafficClass traffic_class,
                                           base::TimePoint now) const;
    // The same for one path, active or not; nothing when none of its tuples is known.
    std::optional<Destination>
    destination_on(uint8_t index, base::TrafficClass traffic_class, base::TimePoint now) const;
    // Where lone acknowledgements go: by the active path, unless only others were heard lately.
    std::optional<Destination> upkeep_destination(base::TimePoint now) const;
    // Where datagrams for `original` are copied to: while the active path is in doubt, or `always`.
    std::optional<Destination> copy_destination(base::TrafficClass traffic_class,
                                                uint8_t original,
                                                bool always,
                                                base::TimePoint now) const;
    // The paths over which traffic may be spread: only the active one when there is no other, none
    // when there is none. Paths slower than the fastest by more than `difference`, one way and
    // without queues, are left out.
    PathMask spread(base::Duration difference, base::TimePoint now) const;
    // Those of `paths` that sent packets recently: some may be under way.
    PathMask carrying(PathMask paths, base::TimePoint now) const;
    // Leaves out paths that have been silent for `patience` beyond a probe time-out. If that is all
    // of them, keeps the one that fell silent last.
    PathMask answering(PathMask paths, base::Duration patience, base::TimePoint now) const;
    // Those of `paths` with room for a datagram of the class now; all if none has.
    PathMask with_room(PathMask paths, base::TrafficClass traffic_class) const;
    // An ACK has named that number, or a higher one, and it is not lost.
    bool is_named(uint32_t epoch, uint16_t space, uint64_t sequence) const {
        const auto& delivery = deliveries_[wire::space_from_number(space).path];
        return delivery != nullptr &&
               delivery->is_named({epoch, space}, static_cast<uint32_t>(sequence)) &&
               !is_lost(epoch, space, sequence);
    }
    bool is_lost(uint32_t epoch, uint16_t space, uint64_t sequence) const {
        const uint8_t own = wire::space_from_number(space).path;
        return any_in(static_cast<PathMask>(repeating_ | mask_of(own)), [&](uint8_t index) {
            return deliveries_[index] != nullptr &&
                   deliveries_[index]->is_lost({epoch, space}, static_cast<uint32_t>(sequence));
        });
    }
    // The number left last as a repeat, on whatever path, and no ACK has named it yet.
    bool is_repeated(uint32_t epoch, uint16_t space, uint64_t sequence) const {
        return any_in(repeating_, [&](uint8_t index) {
            return deliveries_[index]->is_repeated({epoch, space}, static_cast<uint32_t>(sequence));
        });
    }
    // A black hole was found on a path since the last call.
    bool take_narrowed() { return std::exchange(has_narrowed_, false); }
    // The path of `paths` on which a datagram sent now arrives first, or hardly later on one with
    // room; nothing while the delays are not known for all.
    std::optional<uint8_t>
    soonest(PathMask paths, base::TrafficClass traffic_class, base::TimePoint now) const;
    // A path that delivers while the active one does not.
    std::optional<uint8_t> heard_instead(base::TimePoint now) const;
    std::optional<uint8_t> second_path(base::TimePoint now) const;
    bool is_in_doubt(base::TimePoint now) const;
    // Whether the peer is at `from`, judged by its latest authenticated datagrams.
    bool is_known(const base::Endpoint& from) const {
        return any_used([&](uint8_t index) {
            const auto& tuples = paths_[index].tuples;
            return std::any_of(tuples.begin(), tuples.end(), [&](const Tuple& tuple) {
                return tuple.is_known && tuple.remote == from;
            });
        });
    }
    std::optional<Probe> next_probe(base::TimePoint now);
    // The challenge exceeds the tuple's limit; it is sent when more bytes were received.
    void on_withheld(const Probe& probe);
    base::TimePoint next_deadline() const;

    // An acknowledgement owed by that path did not come in time.
    bool has_timed_out(uint8_t index) const {
        return deliveries_[index] != nullptr && deliveries_[index]->liveness().timeouts() > 0;
    }
    // The judgement of its probe time-outs; Usable while it carries no packets.
    path::Health health(uint8_t index, base::TimePoint now) const {
        return deliveries_[index] != nullptr ? deliveries_[index]->liveness().health(now)
                                             : path::Health::Usable;
    }
    // Node: datagrams of that class have taken another socket, so that the SNAPT sees them at
    // another address although nothing has moved.
    bool has_changed_socket(const wire::Space& space, base::TimePoint now) const {
        const auto& ways = class_ways_[space.path];
        return ways != nullptr &&
               ways->has_taken_detour(space.traffic_class, kChallengeLifetime, now);
    }
    path::ClassWay way_of(uint8_t index, base::TrafficClass traffic_class) const {
        const auto& ways = class_ways_[index];
        return ways == nullptr ? path::ClassWay::Own : ways->way(traffic_class);
    }
    // The ways that the classes take on the path; null: each its own.
    const path::ClassWays* class_ways(uint8_t index) const { return class_ways_[index].get(); }
    std::optional<uint8_t> active() const { return active_; }
    // Null for a path that carries no packets.
    const path::Delivery* delivery(uint8_t index) const { return deliveries_[index].get(); }
    const Path& path(uint8_t index) const { return paths_[index]; }
    // Largest and smallest smoothed RTT of the paths in use.
    base::Duration largest_rtt() const;
    base::Duration smallest_rtt() const;
    uint16_t announcement_number() const { return announcement_number_; }

  private:
    // A mere question leaves the state of the path as it is.
    enum class Asks : uint8_t { Validation, Question };
    void start_challenge(Path& path, Tuple& tuple, Asks asks, base::TimePoint now);
    void announce_anew(Asks asks, base::TimePoint now);
    static bool mend(Path& path);
    static wire::Challenge stamp_challenge(Tuple& tuple, base::TimePoint now);
    static std::optional<path::ClassWay> way_of_sending(const Tuple& tuple);
    void note_answered(uint8_t index, const Tuple& tuple, uint32_t sending, base::TimePoint now);
    void move_tuple(const wire::Space& space,
                    const base::Endpoint& from,
                    const base::Endpoint& local,
                    base::TimePoint now);
    static void forget_other_tuples(Path& path);
    void expect_answer(Path& path, base::TimePoint now);
    static void note_sign_of_life(Path& path, base::TimePoint now);
    void ask_others(base::TimePoint now);
    void ask_active_or_other(uint8_t index, base::TimePoint now);
    ClassMask silent_classes(const Path& path, base::TimePoint now) const;
    static base::Duration ask_after(const Path& path);
    static base::Duration doubt_after(const Path& path);
    static void note_unconfirmed(Path& path, base::TimePoint now);
    static bool confirm(Path& path, uint64_t outstanding, base::TimePoint now);
    base::TimePoint proof_deadline(uint8_t index) const;
    void ask_for_proof(uint8_t index, base::TimePoint now);
    bool on_proof_missing(uint8_t index, base::TimePoint now);
    static void expect_nothing(Path& path);
    void distrust_round_trip(uint8_t index, base::TimePoint now);
    base::Duration base_rtt(uint8_t index) const;
    base::Duration expected_rtt(uint8_t index) const;
    static void note_rtt_bound(Path& path, base::Duration at_most);
    using PathDelays = std::array<base::Duration, wire::kMaxPaths>;
    bool delays_beyond_fastest(PathMask paths, PathDelays& more) const;
    struct Arrival {
        uint8_t path = 0;
        base::TimePoint at{};
    };
    std::optional<Arrival>
    soonest_arrival(PathMask paths, const PathDelays& more, base::TimePoint now) const;
    std::optional<base::Duration> delay_beyond(uint8_t path, uint8_t other) const;
    path::Delivery& delivery_of(uint8_t index) {
        auto& delivery = deliveries_[index];
        if (delivery == nullptr) {
            delivery =
                std::make_unique<path::Delivery>(paths_[index].rtt, &paths_[index].search, memory_);
        }
        return *delivery;
    }
    void forget_delivery(uint8_t index);
    bool is_probed(uint8_t index) const;
    bool is_other_heard(uint8_t index, PathMask paths) const;
    base::TimePoint silent_since(uint8_t index, PathMask paths, base::TimePoint now) const;
    base::TimePoint ping_deadline(uint8_t index) const;
    bool take_ping(uint8_t index);
    std::optional<Probe> ping_probe(uint8_t index);
    void forget_round_trips(uint8_t index);
    // Nothing has been answered for as long as makes a path doubtful.
    bool is_late(uint8_t index, base::TimePoint now) const;
    base::TimePoint silence_deadline(const Path& path) const;
    // The deadline has passed. True when the caller must be told.
    bool on_silence(uint8_t index, base::TimePoint now);
    std::optional<Probe> announce_probe(uint8_t index, base::TimePoint now);
    std::optional<Probe> challenge_probe(uint8_t index, base::TimePoint now);
    std::optional<Probe> mtu_probe(uint8_t index, base::TimePoint now);
    // path_classes.cpp
    bool asks_by_class(uint8_t index) const;
    static const Tuple& current_tuple(const Path& path);
    path::ClassWays::Times class_times(uint8_t index) const;
    void note_class_sent(uint8_t index,
                         base::TrafficClass traffic_class,
                         const path::SentRun& run,
                         base::TimePoint now);
    void note_class_arrived(uint8_t index, base::TimePoint now);
    void note_unmarked_answered(uint8_t index, base::TimePoint since);
    bool has_unconfirmed_class(uint8_t index, base::TimePoint now) const;
    std::optional<Destination> destination_by(uint8_t index,
                                              base::TrafficClass traffic_class,
                                              path::ClassWay way,
                                              base::TimePoint now) const;
    std::optional<Probe> class_probe(uint8_t index, base::TimePoint now);
    static void set_limit(Path& path, uint16_t mtu);
    bool is_live(const Path& path) const;
    // Another path than `index` is the active one, and fails.
    bool has_failing_active(uint8_t index) const {
        return active_ && active_ != index && paths_[*active_].is_failing();
    }
    void use(uint8_t index) { used_ |= mask_of(index); }
    // The path has ended: forgets everything about it.
    void forget(uint8_t index);
    // Calls `visit` for the paths that may have something to do, by index, until it returns true.
    template <typename Visit>
    bool any_used(const Visit& visit) const {
        return any_in(used_, visit);
    }
    template <typename Visit>
    static bool any_in(PathMask paths, const Visit& visit) {
        for (unsigned left = paths; left != 0; left &= left - 1) {
            if (visit(static_cast<uint8_t>(std::countr_zero(left)))) {
                return true;
            }
        }
        return false;
    }
    bool may_copy_on(uint8_t index, base::TimePoint now) const;
    bool may_spread_on(uint8_t index, base::TimePoint now) const;
    bool is_second_better(uint8_t candidate, uint8_t other, base::TimePoint now) const;
    static void want_copies(Path& path, base::TimePoint now);
    void end_copies();
    void end_doubt();
    std::optional<Probe> withdrawal_probe();
    // Whether withdrawals may be sent: the active path has answered, so SNAPT has left the old one.
    bool has_withdrawals() const {
        return withdrawing_ != 0 && active_ &&
               paths_[*active_].tuples[0].challenged_at == base::kNever;
    }
    void withdraw_again();
    std::optional<wire::Announce> copies_frame(uint8_t path) const;
    static uint64_t room_for(const Path& path, base::TrafficClass traffic_class);

    Role role_;
    base::Random& random_;
    base::MemoryBudget* memory_;
    std::array<Path, wire::kMaxPaths> paths_;
    PathMask used_ = 0;  // saves a look at all paths for each packet
    // Null for a path that carries no packets.
    std::array<std::unique_ptr<path::Delivery>, wire::kMaxPaths> deliveries_;
    // Null likewise, and for TCP; kept while the path is in the same network.
    std::array<std::unique_ptr<path::ClassWays>, wire::kMaxPaths> class_ways_;
    PathMask pings_due_ = 0;
    bool has_narrowed_ = false;
    // Paths named by the acknowledgements being read.
    PathMask acknowledged_ = 0;
    PathMask answered_ = 0;        // of these for the first time, by themselves
    uint8_t acknowledged_by_ = 0;  // the path that brought them
    PathMask repeating_ = 0;       // paths with repeats in their logs
    uint32_t named_repeats_ = 0;   // repeated datagrams that this frame named
    base::Duration acknowledged_interval_{};
    std::optional<uint8_t> active_;
    std::optional<uint8_t> former_;  // node: the path before a move that is not answered yet
    uint16_t announcement_number_ = 0;
    bool has_announcement_ = false;
    ClassMask remapped_ = 0;
    // Node: how many more times to report, on the active path, that a path has ended.
    std::array<uint8_t, wire::kMaxPaths> withdrawals_due_{};
    PathMask withdrawing_ = 0;                   // paths with withdrawals due
    PathMask ended_ = 0;                         // paths reported as withdrawn
    bool tells_withdrawals_ = false;             // SNAPT may use paths that are not active
    std::optional<uint16_t> activation_number_;  // SNAPT: of the latest announcement of a move

    static constexpr size_t kMaxResponses = 16;  // the oldest challenge waits for its repetition
    struct DueResponse {
        wire::Space space;
        wire::Response response;
        bool is_padded = false;
        bool is_doubted = false;
    };
    Probe response_probe(const DueResponse& due, base::TimePoint now);
    std::array<DueResponse, kMaxResponses> responses_{};
    size_t response_count_ = 0;
};

}  // namespace continuo::session
