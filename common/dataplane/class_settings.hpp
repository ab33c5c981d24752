// Converts the knobs of a configuration file to the settings of a session.
#pragma once

#include "common/config/class_knobs.hpp"
#include "common/session/session_types.hpp"

namespace continuo::dataplane {

inline constexpr int kAutomaticCompressionLevel = 3;

struct ClassTable {
    std::array<session::ClassSettings, base::kTrafficClasses> settings;
    std::array<uint8_t, base::kTrafficClasses> tos{};  // whole octet of outer datagrams
};

inline ClassTable class_table(const config::ClassKnobTable& knobs, uint64_t queue_bytes) {
    ClassTable table;
    for (size_t i = 0; i < knobs.size(); ++i) {
        const config::ClassKnobs& from = knobs[i];
        session::ClassSettings& to = table.settings[i];
        to.hold = from.hold;
        to.min_bytes = from.min_bytes;
        to.max_bytes = from.max_bytes;
        to.fill = from.fill_percent ? *from.fill_percent / 100.0 : 1.0;
        to.queue_bytes = queue_bytes;
        to.is_compression_automatic = from.compression.mode == config::Compression::Mode::Auto;
        switch (from.compression.mode) {
        case config::Compression::Mode::Auto:
            to.compression_level = kAutomaticCompressionLevel;
            break;
        case config::Compression::Mode::Off:
            to.compression_level = 0;
            break;
        case config::Compression::Mode::Level:
            to.compression_level = from.compression.level;
            break;
        }
        to.resequence = from.resequence;
        to.striping = from.striping;
        table.tos[i] = static_cast<uint8_t>(from.dscp << 2);
    }
    return table;
}

}  // namespace continuo::dataplane
