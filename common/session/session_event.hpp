// SessionEvent: what a session tells its owner, who takes it with Session::poll_event() after each
// input and deadline.
#pragma once

#include "common/wire/constants.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace continuo::session {

struct SessionEvent {
    enum class Kind : uint8_t {
        PathChanged,     // the path answered (node), or the return path moved there (SNAPT)
        PathSilent,      // node: it is doubtful or dead now; SNAPT: a sign of life is missed
        PathChallenged,  // node: SNAPT sees another address there, new to it
        HeldDelivered,   // packets that had waited for their order were delivered
        PeerClosed,
    };
    static constexpr size_t kKindsOfPaths = 3;
    Kind kind = Kind::PathChanged;
    uint8_t path = 0;

    bool operator==(const SessionEvent&) const = default;
};

// In the order in which they happened. An event is held once: one that happens again takes the
// place of the former. So all that can happen has room.
class SessionEvents {
  public:
    void push(const SessionEvent& event) {
        const auto last = events_.begin() + static_cast<std::ptrdiff_t>(count_);
        count_ = static_cast<size_t>(std::remove(events_.begin(), last, event) - events_.begin());
        events_[count_++] = event;
    }
    std::optional<SessionEvent> pop() {
        if (count_ == 0) {
            return std::nullopt;
        }
        const SessionEvent first = events_.front();
        std::shift_left(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count_--),
                        1);
        return first;
    }

  private:
    std::array<SessionEvent, SessionEvent::kKindsOfPaths * wire::kMaxPaths + 2> events_{};
    size_t count_ = 0;
};

}  // namespace continuo::session
