// Unheard: what SNAPT sends while its node says nothing, though each datagram with packets would be
// acknowledged. After T_doubt nobody is charged for it yet; after T_dead (docs/PROTOCOL.md section
// 5.1) it was not delivered, and nothing more leaves but a datagram now and then, whose
// acknowledgement ends that: that one is delivered. What is heard before makes it delivered, also
// when it came from another address: there SNAPT sends it again. A node could hide its
// acknowledgements: what is sent into silences costs nothing up to kFreeAtFirst bytes and a part of
// what was delivered.
#pragma once

#include "common/base/time.hpp"
#include "common/flow/flow.hpp"
#include "common/session/transmit_batch.hpp"

#include <vector>

namespace continuo::session {

// Bytes of each flow are held in Flow::unheard; there are no more flows with some than the session
// has flows.
class Unheard {
  public:
    static constexpr base::Duration kSilentAfter = base::seconds(2);  // longest T_doubt
    static constexpr base::Duration kGoneAfter = base::seconds(10);   // T_dead
    static constexpr base::Duration kProbeInterval = base::seconds(1);
    // Inner bytes of silences that are not charged: so many, and a kFreeDivisor-th of what was
    // delivered, kMostFree at once. The datagrams that ask a node that is gone are always free.
    static constexpr uint64_t kFreeAtFirst = uint64_t{4} * 1024 * 1024;
    static constexpr uint64_t kMostFree = uint64_t{16} * 1024 * 1024;
    static constexpr uint64_t kFreeDivisor = 8;
    static constexpr uint64_t kProbeBytes = 1500;  // a run of datagrams is more than a question

    // A datagram with packets is ready. False: it shall not leave.
    bool may_send(base::TimePoint now);
    // The kernel took something of the flow, down.
    void on_sent(const Attribution& part);
    // Something authentic came.
    void on_heard();
    // Time passes without either. Call now and then.
    void look(base::TimePoint now);
    // The flow ends.
    void forget(flow::Flow& flow);

    bool is_gone() const { return state_ == State::Gone; }

  private:
    enum class State : uint8_t { Heard, Silent, Gone };

    void deliver(flow::Flow& flow, const flow::UnheardBytes& bytes);
    void settle(flow::Flow& flow, bool is_delivered);
    void settle_all(bool is_delivered);

    State state_ = State::Heard;
    base::TimePoint since_ = base::kNever;  // the first datagram that nothing was heard after
    base::TimePoint probe_at_{};
    uint64_t free_bytes_ = kFreeAtFirst;
    std::vector<flow::Flow*> flows_;  // that hold some
};

}  // namespace continuo::session
