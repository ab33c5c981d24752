// Unheard: accounts for datagrams that SNAPT sends while its node acknowledges nothing. After
// kSilentAfter they are not charged for the time being; after kGoneAfter they count as
// undelivered, and only a probe leaves now and then, whose acknowledgement ends this state. If the
// node is heard earlier, the datagrams count as delivered, also when it is heard from another
// address: SNAPT repeats them there. A node could withhold its acknowledgements, so data sent into
// silences is free only up to kFreeAtFirst bytes and a fraction of what was delivered.
#pragma once

#include "common/base/time.hpp"
#include "common/flow/flow.hpp"
#include "common/session/transmit_batch.hpp"

#include <vector>

namespace continuo::session {

// Flow::unheard holds the bytes of each flow; at most all flows of the session have some.
class Unheard {
  public:
    static constexpr base::Duration kSilentAfter = base::seconds(2);  // longer than a move takes
    static constexpr base::Duration kGoneAfter = base::seconds(10);   // a node gives up
    static constexpr base::Duration kProbeInterval = base::seconds(1);
    // Limit of uncharged inner bytes: kFreeAtFirst, plus 1/kFreeDivisor of the bytes delivered, at
    // most kMostFree at once. Probes to a node that is gone are always free.
    static constexpr uint64_t kFreeAtFirst = uint64_t{4} * 1024 * 1024;
    static constexpr uint64_t kMostFree = uint64_t{16} * 1024 * 1024;
    static constexpr uint64_t kFreeDivisor = 8;
    static constexpr uint64_t kProbeBytes = 1500;  // a larger run is more than a probe

    // A datagram with packets is ready. False: do not send it.
    bool may_send(base::TimePoint now);
    // The kernel accepted bytes of the flow, down.
    void on_sent(const Attribution& part);
    // Something authentic arrived.
    void on_heard();
    // Call at intervals: time has passed without either.
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
    base::TimePoint since_ = base::kNever;  // the first datagram since something was heard
    base::TimePoint probe_at_{};
    uint64_t free_bytes_ = kFreeAtFirst;
    std::vector<flow::Flow*> flows_;  // with unsettled bytes
};

}  // namespace continuo::session
