// PathSet: the paths of one session, and what concerns several of them (docs/PROTOCOL.md section
// 5): which is active, which answers or carries copies in its place, withdrawals. What concerns one
// alone is path::Path's. The node adds paths and chooses the active one; SNAPT learns them from
// authenticated datagrams and follows announcements. Pure: announcements, challenges and responses
// to send come out of next_probe().
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/session/due_responses.hpp"
#include "common/session/path_logs.hpp"
#include "common/session/path_types.hpp"
#include "common/session/withdrawals.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

namespace continuo::session {

class PathSet {
  public:
    // `memory`: budget for the logs of datagrams under way (path::SentLog); null: no limit.
    PathSet(Role role, base::Random& random, base::MemoryBudget* memory = nullptr)
        : context_{role, random, memory}
        , paths_(make_paths(context_, std::make_index_sequence<wire::kMaxPaths>())) {}

    std::optional<uint8_t> active() const { return active_; }
    const Path& path(uint8_t index) const { return paths_[index]; }
    Path& path(uint8_t index) { return paths_[index]; }
    // Null: none.
    const Path* active_path() const { return active_ ? &paths_[*active_] : nullptr; }
    Path* active_path() { return active_ ? &paths_[*active_] : nullptr; }
    uint16_t announcement_number() const { return announcement_number_; }
    PathLogs& logs() { return logs_; }
    const PathLogs& logs() const { return logs_; }

    // --- Node
    void add(uint8_t index, const base::Endpoint& remote, uint16_t mtu, base::TimePoint now);
    void remove(uint8_t index);
    // Moves the session to this path: announcements leave at once, whether or not there is data.
    void activate(uint8_t index, base::TimePoint now);
    // Sets the MTU of the path's uplink; SNAPT is told when it changes.
    void set_mtu(uint8_t index, uint16_t mtu, base::TimePoint now);
    // A hint that the path may not work: asks it, by a PING if it is the active one.
    void ask(uint8_t index, base::TimePoint now);
    // SNAPT misses a sign of life; the node has had nothing to send since `idle_since`. If nothing
    // comes in either, the NAT mapping may be gone: announces the node. Packets that follow at once
    // show that they had been lost. False: the path works or is being asked already.
    bool on_request(base::TimePoint idle_since, base::TimePoint now) {
        return active_ && paths_[*active_].on_request(idle_since, now);
    }
    // Moves the active path to another port of the SNAPT and announces it there.
    void redirect(const base::Endpoint& remote, base::TimePoint now);
    // Announces the active path once more, for instance after a route appeared.
    void announce_again(base::TimePoint now);
    // Paths that are not active are used as well: asks those that have not answered yet, and each
    // that was not heard for `longest`. This keeps mappings alive and detects dead paths.
    void keep_ready(base::Duration longest, base::TimePoint now);
    // This end was suspended: unanswered datagrams were not waited for, and mappings may be gone.
    // Announces the active path and asks the others, except dead ones.
    void on_pause(base::TimePoint now);

    // --- SNAPT
    // Returns once, after lt-ld of the active path was proven at a new address, the classes whose
    // old tuples are gone: datagrams under way to them are lost.
    ClassMask take_remapping() { return std::exchange(remapped_, ClassMask{0}); }
    // Those datagrams are already being repeated.
    void forget_remapping();
    // Datagrams sent on the path have been unanswered for long and may be lost.
    bool is_overdue(uint8_t index, base::TimePoint now) const {
        return active_ == index && paths_[index].is_overdue(now);
    }
    // True when the return path moved.
    bool on_announce(uint8_t path, const wire::Announce& announce, base::TimePoint now);

    // --- Both: datagrams
    // An authenticated datagram of `bytes` outer bytes arrived. `is_highest`: it has the highest
    // number of its space so far; only then may it move the tuple. Sends a challenge to a new
    // tuple.
    void on_authenticated(const wire::Space& space,
                          const base::Endpoint& from,
                          const base::Endpoint& local,
                          uint64_t bytes,
                          bool is_highest,
                          base::TimePoint now);
    // `is_doubted`: it asks for a size or a way, or repeats, so that its answer leaves without
    // DSCP. `is_mere_question`: it asks for a size or a way; such are answered in their order, and
    // after all others, of which the newest is the best sample.
    void on_challenge(const wire::Space& space,
                      const wire::Challenge& challenge,
                      bool was_padded,
                      bool is_doubted,
                      bool is_mere_question = false) {
        responses_.push({space, {challenge.token}, was_padded, is_doubted}, is_mere_question);
    }
    // True when this made the path usable, or (node) when the active path fails and this one may
    // take its place.
    bool on_response(const wire::Space& space, const wire::Response& response, base::TimePoint now);
    // `wants_answer`: the datagram carries packets, so an answer should come, if only to a
    // challenge.
    void
    on_sent(const Destination& destination, uint64_t bytes, bool wants_answer, base::TimePoint now);
    // The own host refuses datagrams of this size: the path takes the next smaller usual size.
    void on_too_big(uint8_t index, uint32_t outer_bytes, base::TimePoint now);
    // Checks the paths for silence. Returns one that just became doubtful or dead, or on which
    // SNAPT misses a sign of life; at most one per call.
    std::optional<uint8_t> on_time(base::TimePoint now);
    std::optional<Probe> next_probe(base::TimePoint now);
    base::TimePoint next_deadline() const;
    // A black hole was found on a path since the last call.
    bool take_narrowed() { return std::exchange(has_narrowed_, false); }

    // --- Both: acknowledgements
    // A run of datagrams of one space left.
    void on_numbered(const path::SentRun& run, base::TimePoint now) {
        const auto space = wire::space_from_number(run.space.space);
        paths_[space.path].on_numbered(space.traffic_class, run, now);
    }
    // The sender's queues are empty.
    void on_app_limited() {
        any_used([&](uint8_t index) {
            if (path::Delivery* const delivery = paths_[index].delivery()) {
                delivery->on_app_limited();
            }
            return false;
        });
    }
    // The path that carries the acknowledgements of path `index`: itself, unless it may not work.
    // None when no path is known.
    std::optional<uint8_t> acknowledges_by(uint8_t index, base::TimePoint now) const;

    // --- Which path
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
    std::optional<uint8_t> second_path(base::TimePoint now) const;
    bool is_in_doubt(base::TimePoint now) const;
    // Whether the peer is at `from`, judged by its latest authenticated datagrams.
    bool is_known(const base::Endpoint& from) const {
        return any_used([&](uint8_t index) { return paths_[index].is_known_at(from); });
    }
    // Largest smoothed RTT of the paths in use.
    base::Duration largest_rtt() const;
    // Node: how often a TCP connection was activated. What was in the one before is lost.
    uint32_t connections() const { return connections_; }

  private:
    template <size_t... Index>
    static std::array<Path, sizeof...(Index)> make_paths(const path::PathContext& context,
                                                         std::index_sequence<Index...> /*all*/) {
        return {Path(context, static_cast<uint8_t>(Index))...};
    }
    // The path has ended: another one begins with its index.
    void renew(uint8_t index);
    void forget(uint8_t index);
    void ask_others(base::TimePoint now);
    void end_copies();
    std::optional<wire::Announce> copies_frame(uint8_t path) const;
    std::optional<Probe> withdrawal_probe();
    // Whether withdrawals may be sent: the active path has answered, so SNAPT has left the old one.
    bool has_withdrawals() const {
        return withdrawals_.has_due() && active_ && !paths_[*active_].lt_ld().challenge().is_open();
    }
    // Another path than `index` is the active one, and fails.
    bool has_failing_active(uint8_t index) const {
        return active_ && active_ != index && paths_[*active_].is_failing();
    }
    void use(uint8_t index) { used_ |= mask_of(index); }
    // Calls `visit` for the paths that may have something to do, by index, until it returns true.
    template <typename Visit>
    bool any_used(const Visit& visit) const {
        return any_in(used_, visit);
    }
    // path_choice.cpp
    std::optional<uint8_t> heard_instead(base::TimePoint now) const;
    base::Duration base_rtt(uint8_t index) const;
    bool is_other_heard(uint8_t index, PathMask paths) const;
    base::TimePoint silent_since(uint8_t index, PathMask paths, base::TimePoint now) const;
    bool may_copy_on(uint8_t index, base::TimePoint now) const;
    bool may_spread_on(uint8_t index, base::TimePoint now) const;
    bool is_second_better(uint8_t candidate, uint8_t other, base::TimePoint now) const;

    const path::PathContext context_;
    Paths paths_;
    PathLogs logs_{paths_};
    PathMask used_ = 0;  // saves a look at all paths for each packet
    bool has_narrowed_ = false;
    std::optional<uint8_t> active_;
    std::optional<uint8_t> former_;  // node: the path before a move that is not answered yet
    uint16_t announcement_number_ = 0;
    uint32_t connections_ = 0;
    bool has_announcement_ = false;
    ClassMask remapped_ = 0;
    Withdrawals withdrawals_;                    // node
    bool tells_withdrawals_ = false;             // SNAPT may use paths that are not active
    std::optional<uint16_t> activation_number_;  // SNAPT: of the latest announcement of a move
    DueResponses responses_;
};

}  // namespace continuo::session
