// Processor time of a receiver for bodies of one kind, compared with that of padding of the same
// length.
#pragma once

#include "common/io/thread_time.hpp"
#include "common/wire/body.hpp"
#include "tests/support/hostile_peer.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::tests {

inline constexpr size_t kBodyBytes = 1400;
// Bounds, as multiples of the cost of padding, whose datagram is only opened.
inline constexpr int64_t kMostTimes = 60;
// Where two bytes, or one, name something that is looked up or delivered.
inline constexpr int64_t kMostTimesNamed = 200;

// Datagrams of one kind, of which the least disturbed is measured.
inline constexpr uint32_t kRounds = 10;

struct Measured {
    base::Duration cost = base::Duration::max();
    size_t bytes = 0;  // of a body
};

inline void measure(Victim& victim,
                    const wire::Space& space,
                    const std::vector<uint8_t>& body,
                    Measured& least) {
    const base::Duration before = io::thread_time();
    victim.receive_body(space, body);
    least.cost = std::min<base::Duration>(least.cost, io::thread_time() - before);
    least.bytes = body.size();
}

// Cost of datagrams with the bodies that `make(round)` gives. Each names other things, so that none
// is cheaper for the state that the one before has led to.
template <typename Make>
Measured cost_of(Victim& victim, const Make& make, uint32_t rounds = kRounds) {
    Measured least;
    for (uint32_t round = 0; round < rounds; ++round) {
        measure(victim, {base::TrafficClass::LtLd, 0, 0}, make(round), least);
    }
    return least;
}

inline Measured cost_of_padding(Victim& victim, size_t bytes) {
    return cost_of(victim, [bytes](uint32_t /*round*/) {
        std::vector<uint8_t> body(bytes);
        base::ByteWriter writer(body);
        wire::Pad{bytes}.serialize(writer);
        return body;
    });
}

// As many frames as fit, each as `write(ByteWriter&, number)` makes it.
template <typename Write>
std::vector<uint8_t> filled_with(const Write& write) {
    std::vector<uint8_t> body(kBodyBytes);
    base::ByteWriter writer(body);
    for (uint32_t i = 0;; ++i) {
        const size_t before = writer.size();
        if (!write(writer, i) || !writer.ok()) {
            writer.rewind(before);
            break;
        }
    }
    body.resize(writer.size());
    return body;
}

inline uint64_t bad_bodies(Victim& victim) {
    return victim.session().drops().count(base::DropReason::BadBody);
}

inline void record_cost(const Measured& of_body, size_t bytes, const std::string& what) {
    testing::Test::RecordProperty(
        "ps a byte, " + what,
        static_cast<int>(of_body.cost.count() * 1000 / static_cast<int64_t>(bytes)));
}

inline void expect_linear(Victim& victim,
                          const Measured& of_body,
                          const char* what,
                          int64_t most_times = kMostTimes) {
    const base::Duration of_padding = cost_of_padding(victim, of_body.bytes).cost;
    record_cost(of_body, of_body.bytes, what);
    EXPECT_LE(of_body.cost, of_padding * most_times)
        << what << ": " << of_body.cost.count() << " ns, padding " << of_padding.count() << " ns";
    EXPECT_EQ(bad_bodies(victim), 0U) << what;
}

}  // namespace continuo::tests
