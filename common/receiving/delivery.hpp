// Delivery: takes the packets of a received datagram to the daemon: finds their flow, writes the
// node's address, puts packets of striped flows in order, and shares the datagram's outer bytes
// among the flows. Pure.
#pragma once

#include "common/receiving/opened.hpp"
#include "common/reception/resequencer.hpp"
#include "common/session/session_core.hpp"

namespace continuo::receiving {

using reception::Resequencer;
using reception::ResequencerCounters;

class Delivery {
  public:
    // `core` must outlive this object.
    explicit Delivery(session::SessionCore& core);

    // Delivers the packets in the epoch's decoder, or holds them until earlier ones have come.
    void deliver(const Opened& opened, const BodyFacts& facts, base::TimePoint now);
    // The original's packets came before, as a copy, which opens no flow that it carries whole:
    // without this, such a flow would not be opened at all.
    void open_flows(const Opened& opened, base::TimePoint now);
    // Delivers held packets whose time is over. True when there were some.
    bool deliver_due(base::TimePoint now);
    // Call once a second: frees memory.
    void on_time(base::TimePoint now);
    // The flow ends, or another flow now has its index: its held packets are dropped (counted).
    void forget(uint32_t index);

    // When a held packet is delivered at the latest; kNever when none is held.
    base::TimePoint next_deadline() const { return resequencer_.next_deadline(); }
    const ResequencerCounters& resequencing() const { return resequencer_.counters(); }

  private:
    // ORDER of the current datagram; bit n is its n-th flow.
    struct Ordering {
        const wire::Order* order = nullptr;
        uint32_t met = 0;
        uint32_t waiting = 0;  // flows whose packets are held
    };
    flow::Flow* deliver_entry(const Opened& opened,
                              const elision::DecodedEntry& entry,
                              Ordering& ordering,
                              base::TimePoint now);
    flow::Flow* flow_of_entry(const Opened& opened,
                              const elision::DecodedEntry& entry,
                              packet::HeaderFields& fields,
                              base::TimePoint now);
    bool is_held(const Opened& opened,
                 const elision::DecodedEntry& entry,
                 flow::Flow& flow,
                 const packet::HeaderFields& fields,
                 Ordering& ordering,
                 base::TimePoint now);
    void deliver_held(uint32_t index, base::TimePoint now);
    void attribute(const Opened& opened, const BodyFacts& facts);

    session::SessionCore& core_;
    const session::SessionSettings& settings_;
    session::SessionHost& host_;
    session::SessionScratch& scratch_;
    base::DropCounters& drops_;
    session::SessionFlows& flows_;
    Resequencer resequencer_;
};

}  // namespace continuo::receiving
