// PathValidation: at which addresses the other end is on one path, and whether they are known to
// work (RFC 9000 sections 8.2 and 9.3; docs/PROTOCOL.md section 5.4). Pure.
//
//   None --first datagram or begin()--> Pending --RESPONSE--> Done
//   A new address makes it Pending again. Failed, until a RESPONSE: the path was removed, given up,
//   or is dead.
#pragma once

#include "common/path/path_state.hpp"
#include "common/path/tuple.hpp"

#include <array>

namespace continuo::path {

class PathValidation {
  public:
    using Tuples = std::array<Tuple, base::kTrafficClasses>;
    // Question: a path that is validated stays so.
    enum class Asks : uint8_t { Validation, Question };

    // `context` and `liveness` must outlive this object. A failed path that is asked again gets a
    // new judgement of `liveness`.
    PathValidation(const PathContext& context, recovery::Liveness& liveness)
        : context_(context), liveness_(liveness) {}

    Validation state() const { return state_; }
    // A challenge was answered since the path was added or was last dead.
    bool has_answered() const { return has_answered_; }
    // A RESPONSE of lt-ld, or an ACK that came back by this path.
    base::TimePoint answered_at() const { return answered_at_; }
    const Tuples& tuples() const { return tuples_; }
    const Tuple& tuple(base::TrafficClass traffic_class) const {
        return tuples_[base::index_of(traffic_class)];
    }
    Tuple& tuple(base::TrafficClass traffic_class) {
        return tuples_[base::index_of(traffic_class)];
    }
    const Tuple& lt_ld() const { return tuples_[kLtLd]; }
    Tuple& lt_ld() { return tuples_[kLtLd]; }
    // The tuple by which the path is used: that of lt-ld, unless the path was heard only in others.
    const Tuple& current() const;
    // In any class.
    bool is_known_at(const base::Endpoint& remote) const;
    // Classes whose mappings a NAT that lost the mapping of lt-ld may have lost as well.
    ClassMask silent_classes(base::Duration patience, base::TimePoint now) const;
    // When the next challenge is due.
    base::TimePoint deadline() const;

    // Node: the SNAPT is there.
    void begin(const base::Endpoint& remote, base::TimePoint now);
    // Node: the SNAPT is asked at another address or port from now on.
    void redirect(const base::Endpoint& remote);
    void challenge(base::TrafficClass traffic_class, Asks asks, base::TimePoint now);
    void fail() { state_ = Validation::Failed; }
    void forget_answers() { has_answered_ = false; }
    // SNAPT: the address is new.
    void invalidate() { state_ = Validation::Pending; }
    // SNAPT: the other classes may have other mappings. lt-ld serves them until they are heard.
    void forget_other_tuples();
    // lt-ld has answered.
    void on_answered(base::TimePoint now);
    // An ACK came back by this path and named something for the first time.
    void on_acknowledged(base::TimePoint now) {
        answered_at_ = is_redirected_ ? answered_at_ : now;
    }

  private:
    const PathContext& context_;
    recovery::Liveness& liveness_;
    Validation state_ = Validation::None;
    bool has_answered_ = false;
    bool is_redirected_ = false;  // asked at another port, and not answered there yet
    base::TimePoint answered_at_{};
    Tuples tuples_;
};

}  // namespace continuo::path
