// ReplayWindow: which sequence numbers of one space have arrived (RFC 6479, 4096 numbers back). An
// unused space costs a pointer. Not thread-safe: a space belongs to the worker that opens its
// datagrams; other threads read the counters through a snapshot that the worker makes.
#pragma once

#include "common/crypto/sequence_bitmap.hpp"

#include <memory>
#include <optional>

namespace continuo::crypto {

enum class ReplayVerdict : uint8_t {
    Fresh,
    Duplicate,
    Late,  // below the window: may have arrived before or not
};

class ReplayWindow {
  public:
    // Before authentication, to save the cipher's work. Changes and counts nothing, since the
    // sender is not known; two equal numbers in one batch both pass.
    ReplayVerdict check(uint64_t sequence) const;
    // After authentication. This verdict decides and is counted; only Fresh moves the window.
    ReplayVerdict mark(uint64_t sequence);
    // mark() for callers that only need to know whether the datagram is accepted.
    bool check_and_mark(uint64_t sequence) { return mark(sequence) == ReplayVerdict::Fresh; }

    // Whether a number arrived. Below the window this is unknown, so those count as arrived.
    bool has(uint64_t sequence) const { return check(sequence) != ReplayVerdict::Fresh; }

    // Highest accepted number + 1, or 0: the base from which short sequence numbers are completed.
    uint64_t next() const { return state_ ? state_->seen.next() : 0; }
    std::optional<uint64_t> highest() const {
        return next() > 0 ? std::optional(next() - 1) : std::nullopt;
    }
    uint64_t accepted() const { return state_ ? state_->accepted : 0; }
    // Numbers below the highest that have not arrived, including reordered ones: can decrease.
    uint64_t missing() const { return next() - accepted(); }
    // The lowest number that is not late.
    uint64_t low() const { return state_ ? state_->seen.low() : 0; }
    // Those below `number`, which is in [low(), next()].
    uint64_t missing_below(uint64_t number) const;
    // Numbers that left the window without arriving: never decreases.
    uint64_t lost() const;
    uint64_t duplicates() const { return state_ ? state_->duplicates : 0; }
    uint64_t late() const { return state_ ? state_->late : 0; }

  private:
    struct State {
        SequenceBitmap seen;
        uint64_t accepted = 0;
        uint64_t duplicates = 0;
        uint64_t late = 0;
    };
    std::unique_ptr<State> state_;  // made by the first authenticated datagram
};

}  // namespace continuo::crypto
