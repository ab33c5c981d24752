// What both daemons do to tell the flow of a packet from the kernel, and what they note of it when
// its packets go to the kernel.
#pragma once

#include "common/flow/flow_table.hpp"
#include "common/flow/fragment_cache.hpp"
#include "common/packet/coalescer.hpp"
#include "common/packet/header_fields.hpp"

#include <optional>

namespace continuo::dataplane {

// What a packet is and whose, a fragment like its first one; nothing, and a drop counted, when that
// cannot be said.
std::optional<packet::PacketSummary> identify(base::ByteView packet,
                                              packet::NodeSide side,
                                              flow::FragmentCache& fragments,
                                              base::DropCounters& drops,
                                              base::TimePoint now);

// Tells the table of a restored packet. Packets of one wake-up that change nothing are not told.
void track(flow::FlowTable& flows,
           flow::Flow& flow,
           flow::Direction direction,
           const packet::HeaderFields& fields,
           base::TimePoint now);

// Counts a frame that the kernel took for its flow, which it gives; null when there is none.
flow::Flow* count_written(const packet::FrameInfo& info, bool written, flow::Direction direction);

}  // namespace continuo::dataplane
