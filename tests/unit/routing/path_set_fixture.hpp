// Ends with paths, for the tests of PathSet.
#pragma once

#include "common/routing/path_set.hpp"

#include <gtest/gtest.h>

namespace continuo::routing::path_tests {

using base::Endpoint;
using base::milliseconds;
using base::TimePoint;
using base::TrafficClass;

inline const Endpoint kSnapt = *Endpoint::parse("203.0.113.9:9347");
inline const Endpoint kHome = *Endpoint::parse("192.0.2.2:40000");
inline const Endpoint kAway = *Endpoint::parse("198.51.100.7:41000");
inline const Endpoint kLocal = kSnapt;

inline wire::Space space(uint8_t path, TrafficClass traffic_class = TrafficClass::LtLd) {
    return {traffic_class, path, 0};
}

inline wire::Announce announce(uint8_t path, uint16_t number) {
    wire::Announce announce;
    announce.path = path;
    announce.active = true;
    announce.number = number;
    announce.mtu = 1500;
    return announce;
}

struct Snapt {
    base::SeededRandom random{1};
    PathSet paths{Role::Snapt, random};
    TimePoint now{base::seconds(10)};

    // Hears the address on the path and lets it answer the challenge.
    void prove(uint8_t path, const Endpoint& from) {
        paths.on_authenticated(space(path), from, kLocal, 1200, true, now);
        const auto probe = paths.next_probe(now);
        ASSERT_TRUE(probe && probe->challenge);
        EXPECT_TRUE(
            paths.on_response(space(path), {probe->challenge->token}, now + milliseconds(30)));
        paths.on_authenticated(space(path), from, kLocal, 100, true, now + milliseconds(30));
    }
};

struct Node {
    base::SeededRandom random{1};
    PathSet paths{Role::Node, random};
    TimePoint now{base::seconds(10)};

    // Lets time go by without an answer on any path.
    void stay_silent(base::Duration span) {
        for (const TimePoint end = now + span; now < end; now += milliseconds(10)) {
            paths.on_time(now);
            while (paths.next_probe(now)) {
            }
        }
    }
};

inline void prove(Node& node) {
    node.paths.node().add(0, kSnapt, 1500, node.now);
    node.paths.node().activate(0, node.now);
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->challenge);
    while (node.paths.next_probe(node.now)) {
    }
    node.paths.on_authenticated(space(0), kSnapt, kLocal, 100, true, node.now);
    ASSERT_TRUE(node.paths.on_response(space(0), {probe->challenge->token}, node.now));
}

inline void send_in_vain(Node& node, base::Duration span) {
    node.paths.on_sent(*node.paths.selector().destination(TrafficClass::HtHd, node.now), 1000, true,
                       node.now);
    node.stay_silent(span);
}

}  // namespace continuo::routing::path_tests
