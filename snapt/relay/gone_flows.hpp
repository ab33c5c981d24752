// GoneFlows: flows that ended and were never answered, and left connections that gave way. The
// kernel's connection tracking remembers them for minutes or hours, and its table is shared, so it
// is told to forget them. Until then each counts against its user's limit, so that nobody can fill
// the table. Pure.
#pragma once

#include "common/packet/five_tuple.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace continuo::snapt::relay {

class GoneFlows {
  public:
    // Most flows of all users; further ones are left to the kernel's own time-outs, and counted.
    static constexpr size_t kMost = 131'072;
    // Flows forgotten at once: microseconds each, on a thread that also gives leases and that lets
    // data go first after every few (netfilter::NetfilterClient).
    static constexpr size_t kMostInOneGo = 256;

    struct Share {
        size_t flows = 0;  // not forgotten by the kernel yet
    };

    // Whether a user with `flows` flows may have another. `limit`: of its flows; 0: none. `most`:
    // of those that are not forgotten yet, beside it; ordinary flows leave an eighth of them to
    // favoured ones (flow::FlowShare).
    static bool
    has_room(const Share& share, size_t flows, size_t limit, size_t most, bool is_favoured);

    // `share` must live until it is empty.
    void add(const packet::FiveTuple& tuple, Share& share);
    // The flows to forget now, oldest first, except those that are active again; nothing while
    // others are in progress. Then call finish(): they are forgotten, or wait again.
    std::vector<packet::FiveTuple>
    take(const std::function<bool(const packet::FiveTuple&)>& is_back);
    void finish(bool are_forgotten);
    // More than are forgotten at once.
    bool has_many() const { return waiting_.size() > kMostInOneGo; }
    // Whether take() would return some now; not after finish(false).
    bool may_hurry() const { return taken_.empty() && !was_refused_; }

    uint64_t left() const { return left_; }  // left to the kernel so far

  private:
    struct Gone {
        packet::FiveTuple tuple;
        Share* share = nullptr;
    };

    std::deque<Gone> waiting_;
    std::vector<Gone> taken_;
    bool was_refused_ = false;
    uint64_t left_ = 0;
};

}  // namespace continuo::snapt::relay
