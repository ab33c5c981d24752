// ReceivedMembers: the flows with packets in a datagram, each once, and their inner bytes. A flow
// stores its place, so the cost of a packet does not depend on the number of flows.
#pragma once

#include "common/elision/types.hpp"
#include "common/flow/flow.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace continuo::reception {

class ReceivedMembers {
  public:
    struct Member {
        flow::Flow* flow = nullptr;  // null once the flow has ended
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

}  // namespace continuo::reception
