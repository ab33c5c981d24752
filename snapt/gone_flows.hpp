// GoneFlows: flows that ended and were never answered. The kernel's connection tracking remembers
// them for minutes, and its table is everybody's, so it is told to forget them. Until it has, each
// counts for its user's limit of flows: nobody fills the table with what is not answered. Pure.
#pragma once

#include "common/packet/five_tuple.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace continuo::snapt {

class GoneFlows {
  public:
    // Flows of one user that are not forgotten yet, beside as many flows as it may have. Ordinary
    // flows leave an eighth of it to favoured ones (flow::FlowShare).
    static constexpr size_t kMostOfUser = 1024;
    // Flows of all users; more are left to the kernel's own time-outs, and counted.
    static constexpr size_t kMost = 131'072;
    // Flows that are forgotten at once: microseconds each, on a thread that gives leases, too.
    static constexpr size_t kMostInOneGo = 4096;

    struct Share {
        size_t flows = 0;  // that the kernel has still to forget
    };

    // Whether a user with `flows` flows may have another one. `limit`: of its flows; 0: none.
    static bool has_room(const Share& share, size_t flows, size_t limit, bool is_favoured);

    // `share` must live until it has none.
    void add(const packet::FiveTuple& tuple, Share& share);
    // Those to be forgotten now, the oldest first, but for those that are back; nothing while
    // others are at it. Say then finish(): they are forgotten, or not: they wait again.
    std::vector<packet::FiveTuple>
    take(const std::function<bool(const packet::FiveTuple&)>& is_back);
    void finish(bool are_forgotten);
    // More than are forgotten at once.
    bool has_many() const { return waiting_.size() > kMostInOneGo; }
    // Whether take() would give some at once; not after finish(false).
    bool may_hurry() const { return taken_.empty() && !was_refused_; }

    uint64_t left() const { return left_; }  // to the kernel, so far

  private:
    struct Gone {
        packet::FiveTuple tuple;
        Share* share = nullptr;
    };

    std::vector<Gone> waiting_;
    std::vector<Gone> taken_;
    bool was_refused_ = false;
    uint64_t left_ = 0;
};

}  // namespace continuo::snapt
