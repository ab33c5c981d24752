// Epochs: the keys of a session, two epochs at most (docs/PROTOCOL.md section 5.2): the newest, and
// the one before for as long as something of it may still come. Pure.
#pragma once

#include "common/session/epoch_state.hpp"
#include "common/session/path_types.hpp"

#include <memory>
#include <utility>

namespace continuo::session {

// How an epoch that is installed follows those before.
enum class EpochKind : uint8_t {
    First,       // no other is there, or it shares nothing with that
    Next,        // the newest until now becomes the one before
    AnewHeard,   // its number again, with other keys; something came under the former ones
    AnewUnheard  // the same; the peer may never have had the former ones
};

class Epochs {
  public:
    explicit Epochs(Role role) : role_(role) {}

    EpochKind kind_of(uint32_t number) const {
        if (current_ != nullptr && current_->number == number) {
            return current_->is_heard ? EpochKind::AnewHeard : EpochKind::AnewUnheard;
        }
        return current_ != nullptr && current_->number + 1 == number ? EpochKind::Next
                                                                     : EpochKind::First;
    }
    void install(std::unique_ptr<EpochState> epoch);
    // Whether an epoch of that number may come next, also anew if it was never heard.
    bool may_grant(uint32_t number) const {
        return current_ == nullptr || kind_of(number) == EpochKind::Next ||
               kind_of(number) == EpochKind::AnewUnheard;
    }
    // An authenticated datagram of the epoch came. The one before lives until `retire_at`.
    void on_heard(EpochState& epoch, base::TimePoint retire_at) {
        epoch.is_heard = true;
        if (&epoch == current_.get() && previous_ != nullptr) {
            previous_->retire_at = retire_at;
        }
    }
    void retire(base::TimePoint now);

    bool is_empty() const { return current_ == nullptr; }
    EpochState* current() const { return current_.get(); }
    EpochState* previous() const { return previous_.get(); }
    // The node sends in the newest at once; SNAPT when it heard the node do so.
    EpochState* sending() const {
        const bool waits = role_ == Role::Snapt && current_ && !current_->is_heard && previous_;
        return waits ? previous_.get() : current_.get();
    }
    // Null: there is none.
    EpochState* numbered(uint32_t number) const;
    EpochState* of_header(uint8_t modulo) const;
    // Nothing newer was heard: else what comes of it is late, and moves nothing.
    bool is_newest_heard(const EpochState& epoch) const {
        return &epoch == current_.get() || !current_ || !current_->is_heard;
    }
    // Calls visit(EpochState&), the newest first.
    template <typename Visit>
    void each(const Visit& visit) const {
        for (EpochState* const epoch : {current_.get(), previous_.get()}) {
            if (epoch != nullptr) {
                visit(*epoch);
            }
        }
    }

    // Datagrams of the peer, in all epochs that were: a number is lost when it is missing still a
    // second or more after a higher one came, which is when judge() is called again.
    uint64_t judge();
    // Lost, or may still come.
    uint64_t missing() const;

  private:
    Role role_;
    std::unique_ptr<EpochState> current_;
    std::unique_ptr<EpochState> previous_;
    uint64_t retired_losses_ = 0;  // of epochs that have ended
};

}  // namespace continuo::session
