// BodyDecoder: reads the body of an authentic datagram. Frames are collected, sections inflated and
// packets decoded against the state before the datagram; a body with any fault is void as a whole.
// Bounds what a node's bodies may expand to. Changes only the decoder's draft, the expansion budget
// and what pieces of packets need. Pure.
#pragma once

#include "common/reception/expansion_budget.hpp"
#include "common/reception/reassembly.hpp"
#include "common/session/opened.hpp"
#include "common/session/session_core.hpp"

namespace continuo::session {

using reception::ExpansionBudget;
using reception::Reassembly;

class BodyDecoder {
  public:
    // `core` must outlive this object.
    explicit BodyDecoder(SessionCore& core);

    // Leaves the frames in SessionScratch::frames and the packets in the epoch's decoder. False:
    // the body is void (counted), and the decoder is as before.
    bool decode(const Opened& opened, BodyFacts& facts, base::TimePoint now);

  private:
    bool decode_items(const Opened& opened, BodyFacts& facts, base::TimePoint now);
    bool take_frame(const Opened& opened, const wire::BodyItem& item, BodyFacts& facts);
    bool decode_fragments(const Opened& opened,
                          size_t section_bytes,
                          BodyFacts& facts,
                          base::TimePoint now);
    bool decode_section(EpochState& epoch, const wire::Section& section, base::TimePoint now);
    base::ByteView inflate(base::ByteView content, base::TimePoint now);
    bool pays_for_packets(const Opened& opened, base::TimePoint now);

    const SessionSettings& settings_;
    SessionScratch& scratch_;
    base::DropCounters& drops_;
    Reassembly reassembly_;
    ExpansionBudget expansion_;  // SNAPT: of what the node sends
    // The current body:
    size_t paid_bytes_ = 0;  // inner bytes outside the budget
    size_t arena_used_ = 0;  // of SessionScratch::decompressed
};

}  // namespace continuo::session
