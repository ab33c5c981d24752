#include "common/path/path_validation.hpp"

#include <algorithm>

namespace continuo::path {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

const Tuple& PathValidation::current() const {
    const auto known = std::find_if(tuples_.begin(), tuples_.end(),
                                    [](const Tuple& any) { return any.is_known(); });
    return lt_ld().is_known() || known == tuples_.end() ? lt_ld() : *known;
}

bool PathValidation::is_known_at(const base::Endpoint& remote) const {
    return std::any_of(tuples_.begin(), tuples_.end(), [&](const Tuple& tuple) {
        return tuple.is_known() && tuple.remote() == remote;
    });
}

ClassMask PathValidation::silent_classes(Duration patience, TimePoint now) const {
    ClassMask silent = mask_of(TrafficClass::LtLd);
    for (const TrafficClass any : base::kAllTrafficClasses) {
        const bool is_heard = tuple(any).is_known() && now - tuple(any).heard_at() < patience;
        silent |= is_heard ? ClassMask{0} : mask_of(any);
    }
    return silent;
}

TimePoint PathValidation::deadline() const {
    TimePoint earliest = base::kNever;
    for (const Tuple& tuple : tuples_) {
        earliest = std::min(earliest, tuple.challenge().due_at());
    }
    return earliest;
}

void PathValidation::begin(const base::Endpoint& remote, TimePoint now) {
    state_ = Validation::Pending;
    tuples_.fill(Tuple::of_snapt(remote, now));
}

void PathValidation::redirect(const base::Endpoint& remote) {
    is_redirected_ = is_redirected_ || lt_ld().remote() != remote;
    for (Tuple& tuple : tuples_) {
        tuple.redirect(remote);
    }
}

void PathValidation::challenge(TrafficClass traffic_class, Asks asks, TimePoint now) {
    const bool is_node = context_.role == Role::Node;
    if (asks == Asks::Validation && (is_node || state_ != Validation::Done)) {
        if (state_ == Validation::Failed) {
            liveness_.begin_anew();
        }
        state_ = Validation::Pending;
    }
    tuple(traffic_class).challenge().start(context_.random, now);
}

void PathValidation::forget_other_tuples() {
    for (size_t i = 0; i < tuples_.size(); ++i) {
        if (i != kLtLd) {
            tuples_[i] = Tuple();
        }
    }
}

void PathValidation::on_answered(TimePoint now) {
    state_ = Validation::Done;
    has_answered_ = true;
    is_redirected_ = false;
    answered_at_ = now;
}

}  // namespace continuo::path
