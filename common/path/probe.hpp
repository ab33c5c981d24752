// Probe: a datagram without packets that the session shall send on a path. Destination: where
// traffic of a class goes.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/traffic_class.hpp"
#include "common/path/class_ways.hpp"
#include "common/wire/frame.hpp"

#include <optional>

namespace continuo::path {

struct Probe {
    uint8_t path = 0;
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    base::Endpoint to;
    base::Endpoint from;
    std::optional<wire::Announce> announce{};
    std::optional<wire::Announce> copies{};  // the path that is to carry copies meanwhile
    std::optional<wire::Challenge> challenge{};
    std::optional<wire::Response> response{};
    bool has_ping = false;     // a probe of recovery::Liveness
    bool wants_ack = false;    // a PING as well; it is repeated with the question, not by a timer
    bool is_padded = false;    // to kAnnounceBodyBytes
    uint16_t outer_bytes = 0;  // pad the outer packet to this size; 0: no
    // The tuple that the datagram takes, where it is another class's.
    std::optional<base::TrafficClass> tuple_class{};
    std::optional<ClassWay> way{};   // nothing: the one that its class takes
    bool is_class_question = false;  // asked by path::ClassWays: its answer proves no tuple

    // A challenge to a tuple.
    bool asks_tuple() const { return challenge && !is_class_question && outer_bytes == 0; }
    // Announcements, question and answer.
    void serialize(base::ByteWriter& body) const;
};

struct Destination {
    uint8_t path = 0;
    base::TrafficClass tuple_class = base::TrafficClass::LtLd;
    base::Endpoint to;
    base::Endpoint from;
    uint16_t mtu = 1500;
    uint64_t budget_bytes = UINT64_MAX;  // an unproven tuple, or TCP, may still be sent this much
    bool is_unmarked = false;            // DSCP 0 in place of that of the class
};

// A RESPONSE that is to leave.
struct DueResponse {
    wire::Space space;
    wire::Response response;
    bool is_padded = false;
    bool is_doubted = false;
};

}  // namespace continuo::path
