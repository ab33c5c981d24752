// The knobs of [class.TOKEN], which both daemons have for their send direction (aggregation, outer
// DSCP, compression; docs/man/cnapt.toml.5).
#pragma once

#include "common/base/path_mode.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/config/section.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::config {

inline constexpr uint8_t kMaxCompressionLevel = 19;

struct Compression {
    enum class Mode : uint8_t { Auto, Off, Level };
    Mode mode = Mode::Auto;
    uint8_t level = 0;  // 1 to kMaxCompressionLevel with Mode::Level

    bool operator==(const Compression&) const = default;
};

struct ClassKnobs {
    base::Duration hold{};                // longest time that a packet waits for others
    uint32_t min_bytes = 0;               // hold until this many bytes, or `hold`
    uint32_t max_bytes = 0;               // outer datagram; 0: path MTU
    std::optional<uint8_t> fill_percent;  // target of an aggregate, of the limit above; none: "mtu"
    uint8_t dscp = 0;                     // outer datagrams'
    Compression compression;
    base::Duration resequence{};  // longest wait of received packets of striped flows
    base::Striping striping = base::Striping::Packet;

    bool operator==(const ClassKnobs&) const = default;
};

using ClassKnobTable = std::array<ClassKnobs, base::kTrafficClasses>;  // by base::index_of

ClassKnobTable default_class_knobs();
// Reads [class.*] of `root`.
ClassKnobTable read_class_knobs(Section& root);
// Keys such as "class.lt-ld.hold_ms" whose values differ.
std::vector<std::string> changed_class_knobs(const ClassKnobTable& from, const ClassKnobTable& to);
// The four commented [class.*] tables.
std::string render_class_knobs(const ClassKnobTable& knobs, std::string_view direction);

// Name of a code point where it has one, else its number.
std::string dscp_text(uint8_t dscp);

}  // namespace continuo::config
