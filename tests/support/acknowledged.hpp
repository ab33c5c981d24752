// A PathSet is told what acknowledgements say of a path, without a peer.
#pragma once

#include "common/routing/path_set.hpp"
#include "common/wire/ack_ranges.hpp"

namespace continuo::tests {

struct Acknowledged {
    routing::PathSet& paths;
    uint32_t epoch = 1;
    wire::Space space{};

    void send(uint32_t first, uint8_t count, uint16_t bytes, base::TimePoint now) const {
        recovery::SentRun run;
        run.space = {epoch, wire::space_number(space)};
        run.first = first;
        run.count = count;
        run.bytes = run.last_bytes = bytes;
        run.has_packets = true;
        paths.on_numbered(run, now);
    }
    // Numbers from `first` to `last` came; `clock`: when, by the peer's clock, which is the same.
    void acknowledge(uint32_t first,
                     uint32_t last,
                     base::TimePoint now,
                     std::optional<uint32_t> clock = std::nullopt,
                     uint32_t interval_ms = 0) const {
        wire::Ack ack;
        ack.space = space;
        ack.highest = last;
        ack.interval_ms = interval_ms;
        ack.clock = clock.value_or(recovery::RelativeDelay::clock_at(now));
        paths.logs().on_ack_range(epoch, ack, {first, last, wire::AckKind::Applied}, space.path);
        paths.logs().on_acks_read(now);
    }
    // The path delivers at that rate for a second, with a round trip of 100 ms. `is_full`: the
    // sender always had more to send. `wait(span)` lets time go by and gives the time then.
    template <typename Wait>
    void deliver_at(uint64_t bytes_per_s,
                    bool is_full,
                    uint32_t first,
                    base::TimePoint now,
                    const Wait& wait) const {
        constexpr uint8_t kCount = 20;
        const auto bytes = static_cast<uint16_t>(bytes_per_s / 10 / kCount);
        send(first, kCount, bytes, now);
        for (int round = 0; round < 10; ++round, first += kCount) {
            now = wait(base::milliseconds(100));
            if (!is_full) {
                paths.on_app_limited();
            }
            send(first + kCount, kCount, bytes, now);
            acknowledge(first, first + kCount - 1, now);
        }
    }
};

}  // namespace continuo::tests
