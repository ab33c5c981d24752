// ReceivedMembers: the flows whose packets a datagram brought, each once, and how much of it is
// theirs. A flow knows its place, so that each packet costs the same however many flows there are.
#pragma once

#include "common/elision/types.hpp"
#include "common/flow/flow.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace continuo::session {

class ReceivedMembers {
  public:
    struct Member {
        flow::Flow* flow = nullptr;  // null once it ended
        uint32_t inner_bytes = 0;
        uint32_t packets = 0;
    };

    ReceivedMembers() { members_.reserve(elision::kMaxEntries); }

    void clear() { members_.clear(); }
    void add(flow::Flow& flow, uint32_t inner_bytes) {
        if (!has(flow)) {
            flow.received_place = static_cast<uint32_t>(members_.size());
            members_.push_back({&flow, 0, 0});
        }
        members_[flow.received_place].inner_bytes += inner_bytes;
        ++members_[flow.received_place].packets;
    }
    // The flow ends.
    void forget(const flow::Flow& flow) {
        if (has(flow)) {
            members_[flow.received_place].flow = nullptr;
        }
    }
    std::span<const Member> all() const { return members_; }

  private:
    bool has(const flow::Flow& flow) const {
        return flow.received_place < members_.size() && members_[flow.received_place].flow == &flow;
    }

    std::vector<Member> members_;
};

}  // namespace continuo::session
