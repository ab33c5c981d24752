// Epochs: the keys of a session, current and previous (docs/PROTOCOL.md section 5). Decides under
// which of them this end sends and when the previous ones end; counts the datagrams that never
// came. Nothing else owns an EpochState: pointers to one hold until install() or on_time(). Pure.
#pragma once

#include "common/session/epoch_state.hpp"
#include "common/session/session_types.hpp"
#include "common/wire/unsealed.hpp"

#include <memory>
#include <optional>

namespace continuo::session {

class Epochs {
  public:
    // How a new epoch follows the current one.
    enum class Succession : uint8_t {
        First,  // it shares nothing with the one before, if any
        Anew,   // it has the number of the current one, which it replaces
        Next,
    };

    // Lost datagrams are counted in `counters`. All arguments must outlive this object.
    Epochs(const SessionSettings& settings,
           elision::DecodeScratch& scratch,
           SessionCounters& counters)
        : settings_(settings), scratch_(scratch), counters_(counters) {}

    // --- Choice
    // Null: none.
    EpochState* current() const { return current_.get(); }
    // The number of that one.
    std::optional<uint32_t> newest() const {
        return current_ ? std::optional(current_->number) : std::nullopt;
    }
    // The one that new datagrams are sealed in. A node uses the newest at once, SNAPT when it has
    // heard the node do so.
    EpochState* sending() const;
    // The same for a copy, which names its original under the keys of epoch `number`. A node's
    // copies come behind new keys where the path that takes over is a new connection.
    EpochState* sealing(uint32_t number) const;
    EpochState* find(uint32_t number) const;
    // By the bits of the number that a header has.
    EpochState* of_header(uint8_t modulo) const;
    // The one before `epoch`.
    EpochState* before(const EpochState& epoch) const {
        return &epoch == current_.get() ? previous_.get() : nullptr;
    }
    // Datagrams of the previous epoch come late: once the current one was heard, they move nothing.
    bool may_move(const EpochState& epoch) const {
        return &epoch == current_.get() || !current_ || !current_->is_heard;
    }
    // Calls visit(EpochState&), the newest first.
    template <typename Visit>
    void each(const Visit& visit) const {
        for (EpochState* epoch : {current_.get(), previous_.get()}) {
            if (epoch != nullptr) {
                visit(*epoch);
            }
        }
    }

    // --- Life
    // SNAPT: whether an epoch of that number may come next. An epoch that was granted but never
    // heard is granted anew, since the node may not have received it.
    bool may_grant(uint32_t number) const;
    bool wants_rekey() const;
    Succession succession(uint32_t number) const;
    EpochState& install(EpochInstall keys, base::Duration skew, base::TimePoint now);
    // The first authenticated datagram of the epoch came. True: the previous one ends at
    // `retire_at`.
    bool on_heard(EpochState& epoch, base::TimePoint retire_at);
    // A call uses epochs: none may end meanwhile.
    void set_in_use(bool is_in_use) { is_in_use_ = is_in_use; }
    // Call once a second: judges losses, ends the previous epoch.
    void on_time(base::TimePoint now);

    // --- Losses
    // `datagrams` numbers are missing that were sent while their path was silent.
    void on_silent_gap(uint64_t datagrams) { lost_in_silence_ += datagrams; }
    // Datagrams that are lost or may still come, excluding those sent while their path was silent.
    uint64_t missing_datagrams() const;
    // Whether the datagram whose header an unsealed message quotes can have been sent recently
    // (docs/PROTOCOL.md section 3.6).
    bool may_have_sent(const wire::Quote& quote) const;

  private:
    void judge_losses();

    const SessionSettings& settings_;
    elision::DecodeScratch& scratch_;
    SessionCounters& counters_;
    std::unique_ptr<EpochState> current_;
    std::unique_ptr<EpochState> previous_;
    bool is_in_use_ = false;
    uint64_t lost_in_silence_ = 0;
    uint64_t retired_losses_ = 0;  // in epochs that have ended
};

}  // namespace continuo::session
