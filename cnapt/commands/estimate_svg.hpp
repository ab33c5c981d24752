// Sums of an estimate, and their picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace continuo::cnapt::commands {

struct DirectionSums {
    uint64_t packets = 0;  // frames without the tunnel
    uint64_t datagrams = 0;
    uint64_t inner_bytes = 0;
    uint64_t wire_bytes = 0;
    uint64_t queue_drops = 0;

    DirectionSums operator+(const DirectionSums& more) const {
        return {packets + more.packets, datagrams + more.datagrams, inner_bytes + more.inner_bytes,
                wire_bytes + more.wire_bytes, queue_drops + more.queue_drops};
    }
};

// Nothing of nothing; negative where the tunnel costs more than it saves.
std::optional<double> saved_percent(uint64_t before, uint64_t after);

struct EstimateBar {
    std::string name;
    DirectionSums sums;
};
// Bytes of each class without and with the tunnel, as a picture that stands alone.
std::string estimate_svg(const std::vector<EstimateBar>& bars);

}  // namespace continuo::cnapt::commands
