// SnaptPath: what only a SNAPT does with one path: it follows the node to new addresses, bounded by
// what they sent, asks for a sign of life over control, and remembers where the node wants copies
// (docs/PROTOCOL.md sections 5.1, 5.4 and 5.5). Pure.
#pragma once

#include "common/path/copy_request.hpp"
#include "common/path/life_requests.hpp"
#include "common/path/path_parts.hpp"

namespace continuo::path {

class SnaptPath {
  public:
    // `parts` must outlive this object.
    explicit SnaptPath(PathParts& parts) : parts_(parts) {}

    const LifeRequests& life_requests() const { return life_requests_; }
    CopyRequest& copy_request() { return copy_request_; }
    const CopyRequest& copy_request() const { return copy_request_; }
    // Datagrams sent on the return path have been unanswered for long and may be lost.
    bool is_overdue(base::TimePoint now) const;
    // It was silent when the node announced another path, and has not been heard since.
    bool was_left_silent() const { return was_left_silent_; }

    // The node has announced another path, or this one.
    void on_left(base::TimePoint now);
    void on_chosen(base::TimePoint now);
    // The node has said that the path has ended.
    void on_withdrawn() { parts_.validation.fail(); }
    // A move has been announced here for the first time: the index is used with other sockets.
    void on_moved_here() { parts_.validation.forget_other_tuples(); }
    void forget_remapping() { parts_.validation.lt_ld().forget_remapping(); }
    // The class is proven by other means: TCP proves an address by itself.
    void trust(base::TrafficClass traffic_class) { parts_.validation.tuple(traffic_class).trust(); }

    // --- By Path
    // As Path::on_authenticated().
    bool on_authenticated(base::TrafficClass traffic_class,
                          const base::Endpoint& from,
                          const base::Endpoint& local,
                          uint64_t bytes,
                          bool is_highest,
                          base::TimePoint now);
    // The class whose tuple a datagram takes; `wanted`: the one whose turn it is by its way.
    base::TrafficClass tuple_class(base::TrafficClass traffic_class,
                                   base::TrafficClass wanted,
                                   base::TimePoint now) const;
    // When a sign of life is missed.
    base::TimePoint deadline(bool is_active) const;
    // True if it is missed now.
    bool on_time(bool is_active, base::TimePoint now);

  private:
    void move_tuple(base::TrafficClass traffic_class,
                    const base::Endpoint& from,
                    const base::Endpoint& local,
                    base::TimePoint now);

    PathParts& parts_;
    LifeRequests life_requests_;
    CopyRequest copy_request_;
    bool was_left_silent_ = false;
};

}  // namespace continuo::path
