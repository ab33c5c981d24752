// The sender's side of a flow (docs/PROTOCOL.md section 6.5): two references, of which at most one
// is current, and how many records of datagrams in flight use each.
//
//   Closed --add_flow--> Opening --OPEN with SET acknowledged--> Open --SET acknowledged--> Open
//   (other reference)
//      ^--------------------'--------------- remove_flow ---------'
//
// Users outlive remove_flow: an index opens again only when both references have none.
#pragma once

#include "common/elision/paged_table.hpp"

namespace continuo::elision {

struct FlowContext {
    FlowStatics statics;
    std::array<PacketValues, 2> references{};
    std::array<uint16_t, 2> users{};  // records, below kMaxRecords
    uint16_t section_position = 0;  // in the encoder's list of flows of the section; checked there
    uint16_t last_payload_bytes = 0;
    uint16_t app = 0;
    bool is_added : 1 = false;
    bool continues : 1 = false;
    bool is_open : 1 = false;  // reference `current` is valid
    bool is_set_pending : 1 = false;
    bool current : 1 = false;
    bool is_mismatched : 1 = false;    // the last packet had other statics
    bool had_dead_user_0 : 1 = false;  // since the reference was last set and acknowledged
    bool had_dead_user_1 : 1 = false;

    bool had_dead_user(uint32_t reference) const {
        return reference == 0 ? had_dead_user_0 : had_dead_user_1;
    }
    void set_had_dead_user(uint32_t reference, bool value) {
        if (reference == 0) {
            had_dead_user_0 = value;
        } else {
            had_dead_user_1 = value;
        }
    }
};
static_assert(sizeof(FlowContext) <= 96);

}  // namespace continuo::elision
