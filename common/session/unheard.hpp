// Unheard: what SNAPT sends while its node says nothing, though each datagram with packets would be
// acknowledged. After T_doubt nobody is charged for it yet; after T_dead (docs/PROTOCOL.md section
// 5.1) it was not delivered, and nothing more leaves but a datagram now and then, whose
// acknowledgement ends that: that one is delivered. What is heard before makes it delivered, also
// when it came from another address: there SNAPT sends it again.
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

    void settle(flow::Flow& flow, bool is_delivered);
    void settle_all(bool is_delivered);

    State state_ = State::Heard;
    base::TimePoint since_ = base::kNever;  // the first datagram that nothing was heard after
    base::TimePoint probe_at_{};
    std::vector<flow::Flow*> flows_;  // that hold some
};

}  // namespace continuo::session
