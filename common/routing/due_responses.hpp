// DueResponses: answers to CHALLENGEs that are to leave, in a bounded stack (docs/PROTOCOL.md
// section 5.4). Pure.
#pragma once

#include "common/path/probe.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace continuo::routing {

class DueResponses {
  public:
    bool is_empty() const { return count_ == 0; }
    // `is_last`: leaves after all others; otherwise first.
    void push(const path::DueResponse& due, bool is_last) {
        auto* const end = due_.data() + count_;
        if (std::any_of(due_.data(), end, [&](const path::DueResponse& any) {
                return any.space == due.space && any.response.token == due.response.token;
            })) {
            return;
        }
        if (count_ < kMost) {
            auto* const place = is_last ? due_.data() : end;
            std::move_backward(place, end, end + 1);
            *place = due;
            ++count_;
            return;
        }
        // When many sendings of one challenge arrive at once, the newest is the best sample.
        auto* const oldest = std::find_if(
            due_.data(), end, [&](const path::DueResponse& any) { return any.space == due.space; });
        if (oldest != end) {
            *oldest = due;
        }
    }
    path::DueResponse pop() { return due_[--count_]; }

  private:
    static constexpr size_t kMost = 16;  // a challenge without room waits for its repetition

    std::array<path::DueResponse, kMost> due_{};
    size_t count_ = 0;
};

}  // namespace continuo::routing
