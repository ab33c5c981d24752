// Common to both daemons: finding the flow of a packet from the kernel, and noting packets that go
// to the kernel.
#pragma once

#include "common/flow/flow_table.hpp"
#include "common/flow/fragment_cache.hpp"
#include "common/packet/coalescer.hpp"
#include "common/packet/header_fields.hpp"

#include <optional>

namespace continuo::dataplane {

// The kind and flow of a packet; a fragment is treated like its first one. Nothing, and a counted
// drop, when they are unknown.
std::optional<packet::PacketSummary> identify(base::ByteView packet,
                                              packet::NodeSide side,
                                              flow::FragmentCache& fragments,
                                              base::DropCounters& drops,
                                              base::TimePoint now);

// Notes a restored packet in the table. Packets of one wake-up that change nothing are skipped.
void track(flow::FlowTable& flows,
           flow::Flow& flow,
           flow::Direction direction,
           const packet::HeaderFields& fields,
           base::TimePoint now);

// Counts a frame that the kernel took for its flow, which it gives; null when there is none.
flow::Flow* count_written(const packet::FrameInfo& info, bool written, flow::Direction direction);

}  // namespace continuo::dataplane
