#include "common/queueing/compression_governor.hpp"

#include <string>

#include <gtest/gtest.h>

namespace continuo::queueing {
namespace {

using base::Duration;
using base::microseconds;
using base::milliseconds;
using base::TimePoint;

constexpr TimePoint kStart{base::seconds(1000)};
constexpr double kMega = 1e6;

TimePoint g_clock = kStart;
TimePoint read_clock() {
    return g_clock;
}

// Load of a loop on which a byte costs so much.
CompressionLoad load_of(double ns_per_byte) {
    CompressionLoad load;
    load.measure_with(read_clock);
    for (int i = 0; i < 1000; ++i) {
        load.begin();
        load.note_compressing();
        g_clock += Duration(static_cast<int64_t>(1000 * ns_per_byte));
        load.end(1000, TimePoint{});
    }
    return load;
}

// Super-packets at so many bytes a second for `span`, one a millisecond; gives what became of the
// last, and how often that changed.
struct Stream {
    CompressionGovernor governor;
    TimePoint now = kStart;
    uint32_t changes = 0;
    bool is_compressed = true;
    Duration shortest_stay = Duration::max();
    TimePoint changed_at{};

    bool run(const CompressionLoad& load, double bytes_per_s, PathPace path, Duration span) {
        for (const TimePoint end = now + span; now < end; now += milliseconds(1)) {
            governor.on_arrival(static_cast<uint64_t>(bytes_per_s / 1000), now);
            if (governor.may_compress(load, path, now) != is_compressed) {
                is_compressed = !is_compressed;
                ++changes;
                shortest_stay = std::min(shortest_stay, now - changed_at);
                changed_at = now;
            }
        }
        return is_compressed;
    }
};

TEST(RecentSum, CountsTheLastHundredMilliseconds) {
    RecentSum recent;
    EXPECT_EQ(recent.sum(kStart), 0U);
    for (int i = 0; i < 1000; ++i) {
        recent.add(10, kStart + milliseconds(i));
    }
    EXPECT_EQ(recent.sum(kStart + milliseconds(999)), 1000U);
    EXPECT_EQ(recent.newest(kStart + milliseconds(999)), 100U);
    EXPECT_EQ(recent.newest(kStart + milliseconds(1000)), 0U);
    EXPECT_EQ(recent.sum(kStart + milliseconds(1039)), 600U);
    EXPECT_EQ(recent.sum(kStart + milliseconds(1090)), 0U);
    recent.add(7, kStart + base::seconds(100));
    EXPECT_EQ(recent.sum(kStart + base::seconds(100)), 7U);
}

TEST(CompressionGovernor, CompressesWhatTheProcessorHasTimeFor) {
    struct Row {
        const char* what;
        double ns_per_byte;
        double arrives;  // bytes a second
        PathPace path;
        bool is_compressed;
    };
    const Row rows[] = {
        {"10 Mbit/s of text, twice that to compress", 10, 2.5 * kMega, {}, true},
        {"just below a quarter of a core", 10, 24 * kMega, {}, true},
        {"just above it", 10, 29 * kMega, {}, false},
        {"a fast link", 10, 500 * kMega, {}, false},
        {"a slow processor: a quarter is 2.5 MB/s", 100, 2 * kMega, {}, true},
        {"and no more", 100, 3 * kMega, {}, false},
        {"a path of 200 Mbit/s that is full", 10, 50 * kMega, {true, 25'000'000}, true},
        {"the same, not full", 10, 50 * kMega, {false, 25'000'000}, false},
        {"full, but nobody knows of what", 10, 50 * kMega, {true, 0}, false},
        {"a full path as fast as what the compressor makes",
         10,
         50 * kMega,
         {true, 40'000'000},
         false},
        {"a full path that cannot have slowed down what came",
         10,
         90 * kMega,
         {true, 25'000'000},
         false},
        {"a slow processor before a full path of 20 Mbit/s",
         100,
         5 * kMega,
         {true, 2'500'000},
         true},
        {"the same path at 100 Mbit/s", 100, 12.5 * kMega, {true, 12'500'000}, false},
    };
    for (const Row& row : rows) {
        const CompressionLoad load = load_of(row.ns_per_byte);
        ASSERT_NEAR(load.ns_per_byte(), row.ns_per_byte, row.ns_per_byte / 100);
        Stream stream;
        EXPECT_EQ(stream.run(load, row.arrives, row.path, base::seconds(1)), row.is_compressed)
            << row.what;
        EXPECT_LE(stream.changes, 2U) << row.what;
    }
}

TEST(CompressionGovernor, ChangesAtMostOnceInTwoHundredMilliseconds) {
    const CompressionLoad load = load_of(10);
    Stream stream;
    stream.run(load, 100 * kMega, {}, milliseconds(300));
    for (int i = 0; i < 200; ++i) {
        const bool is_slow = i % 2 == 0;
        stream.run(load, is_slow ? kMega : 100 * kMega, {},
                   milliseconds(37 + i) + (is_slow ? CompressionGovernor::kFastFor : Duration{}));
    }
    EXPECT_GT(stream.changes, 20U);
    EXPECT_GE(stream.shortest_stay, CompressionGovernor::kShortestStay);
}

TEST(CompressionGovernor, AStreamThatIsFastAtOnceIsGivenUpAtOnce) {
    const CompressionLoad load = load_of(10);
    Stream stream;
    EXPECT_TRUE(stream.run(load, 500 * kMega, {}, milliseconds(1)));
    EXPECT_FALSE(stream.run(load, 500 * kMega, {}, milliseconds(1)));
    EXPECT_FALSE(stream.run(load, 500 * kMega, {}, milliseconds(500)));
    // And after a pause again, since it could have been compressed all the while.
    stream.now += base::seconds(1);
    EXPECT_TRUE(stream.run(load, 500 * kMega, {}, milliseconds(1)));
    EXPECT_FALSE(stream.run(load, 500 * kMega, {}, milliseconds(1)));
}

// Arrivals are `speed` times as fast while compressed; a quarter of a core is 12.5 MB/s.
TEST(CompressionGovernor, OnAFullPathItGoesOnOnlyIfMoreComesThanBefore) {
    struct Row {
        double raw;
        double speed;
        int least_ms;  // of 9 s, that it is compressed
        int most_ms;
    };
    for (const Row& row : {Row{13 * kMega, 2, 8500, 9000}, Row{18 * kMega, 0.75, 200, 1000}}) {
        const CompressionLoad load = load_of(20);
        const PathPace path{true, static_cast<uint64_t>(row.raw)};
        Stream stream;
        int compressed_ms = 0;
        for (int i = 0; i < 9000; ++i) {
            const double rate = (stream.is_compressed ? row.speed : 1.0) * row.raw;
            compressed_ms += stream.run(load, rate, path, milliseconds(1)) ? 1 : 0;
        }
        EXPECT_GE(compressed_ms, row.least_ms) << row.raw;
        EXPECT_LE(compressed_ms, row.most_ms) << row.raw;
    }
}

TEST(CompressionGovernor, WhatOtherSessionsCompressIsNotLeftToThisOne) {
    CompressionLoad load = load_of(10);
    Stream stream;
    const auto others_compress = [&](double bytes_per_s) {
        load.begin();
        load.note_compressing();
        g_clock += Duration(static_cast<int64_t>(bytes_per_s / 1000 * 10));
        load.end(static_cast<uint64_t>(bytes_per_s / 1000), stream.now);
    };
    for (int i = 0; i < 500; ++i) {
        others_compress(20 * kMega);
        stream.run(load, 10 * kMega, {}, milliseconds(1));
    }
    EXPECT_FALSE(stream.is_compressed) << "20 and 10 MB/s are more than 25";
    for (int i = 0; i < 1000; ++i) {
        others_compress(10 * kMega);
        stream.run(load, 10 * kMega, {}, milliseconds(1));
    }
    EXPECT_TRUE(stream.is_compressed);
    for (int i = 0; i < 500; ++i) {  // its own
        others_compress(20 * kMega);
        stream.governor.on_compressed(microseconds(200), stream.now);
        stream.run(load, 20 * kMega, {}, milliseconds(1));
    }
    EXPECT_TRUE(stream.is_compressed) << "what it compresses itself counts once";
}

// The loop has to share its core: what it compresses is 15 MB/s, of 100 that it could send.
TEST(CompressionGovernor, WhatCompressingHoldsUpIsNotTakenForSlow) {
    const CompressionLoad load = load_of(10);
    Stream stream;
    for (int i = 0; i < 1000; ++i) {
        const bool was_compressed = stream.is_compressed;
        if (was_compressed) {
            stream.governor.on_compressed(microseconds(700), stream.now);
        }
        stream.run(load, (was_compressed ? 15 : 100) * kMega, {}, milliseconds(1));
    }
    EXPECT_FALSE(stream.is_compressed);
    EXPECT_EQ(stream.changes, 1U);
}

// It comes as fast as it is compressed, which is all that the processor has time for.
TEST(CompressionGovernor, AStreamThatTakesTheWholeProcessorIsGivenUpWithinASlot) {
    for (const PathPace& path : {PathPace{}, PathPace{true, 5'000'000}}) {
        const CompressionLoad load = load_of(10);
        Stream stream;
        int compressed_ms = 0;
        for (int i = 0; i < 100 && stream.is_compressed; ++i) {
            stream.governor.on_compressed(microseconds(900), stream.now);
            compressed_ms += stream.run(load, 70 * kMega, path, milliseconds(1)) ? 1 : 0;
        }
        if (path.is_full) {
            EXPECT_GT(compressed_ms, 20) << "where a thin path is full that may be a stall";
        } else {
            EXPECT_LE(compressed_ms, 10);
        }
    }
}

// A machine that others keep busy stalls now and then, and so does TCP while it waits for its
// timer. What the stream would have carried uncompressed it carries, but for a little.
TEST(CompressionGovernor, AFastStreamThatStallsStaysFast) {
    for (const int stall_ms : {90, 120, 250, 400}) {
        const CompressionLoad load = load_of(10);
        Stream stream;
        constexpr double kRaw = 200 * kMega;
        constexpr double kCompressed = 70 * kMega;  // all that the processor has time for
        double sent = 0;
        int ms = 0;
        for (int i = 0; i < 3000; ++i) {
            if (i % 400 == 399) {
                stream.now += milliseconds(stall_ms);
            }
            const double rate = stream.is_compressed ? kCompressed : kRaw;
            if (stream.is_compressed) {
                stream.governor.on_compressed(microseconds(900), stream.now);
            }
            stream.run(load, rate, {}, milliseconds(1));
            sent += rate / 1000;
            ++ms;
        }
        EXPECT_GE(sent, 0.95 * kRaw / 1000 * ms) << stall_ms;
    }
}

TEST(CompressionLoad, MeasuresWhatIsCompressedAndNothingElse) {
    CompressionLoad load;
    const auto send = [&](bool is_compressed, Duration spent) {
        load.begin();
        g_clock += base::seconds(1);  // what comes before counts as little
        if (is_compressed) {
            load.note_compressing();
            load.note_compressing();
        }
        g_clock += spent;
        EXPECT_EQ(load.end(1400, kStart).has_value(), is_compressed);
    };
    send(true, milliseconds(1));
    EXPECT_EQ(load.ns_per_byte(), CompressionLoad::kAssumedNsPerByte) << "without a clock";
    load.measure_with(read_clock);
    for (int i = 0; i < 1000; ++i) {
        send(false, milliseconds(1));
    }
    EXPECT_EQ(load.ns_per_byte(), CompressionLoad::kAssumedNsPerByte) << "raw ones tell nothing";
    for (int i = 0; i < 1000; ++i) {
        send(true, microseconds(42));
    }
    EXPECT_NEAR(load.ns_per_byte(), 30, 0.5);
    EXPECT_NEAR(load.share(kStart), 0.42, 0.001);
    send(true, milliseconds(50));
    EXPECT_LT(load.ns_per_byte(), 32) << "one in which others had the core counts little there";
    EXPECT_NEAR(load.share(kStart), 0.92, 0.001) << "but took its time";
}

}  // namespace
}  // namespace continuo::queueing
