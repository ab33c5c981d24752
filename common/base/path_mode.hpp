// How the packets of a flow use the paths of its session (docs/PROTOCOL.md section 5.9). The values
// are those of the control message APPS.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace continuo::base {

enum class PathMode : uint8_t {
    Handover,   // the active path; low-delay classes are copied while it is in doubt
    Redundant,  // the active path, and always copied to a second one
    Flow,       // one path for as long as it delivers; flows are spread
    Packet,     // each datagram goes its own way; the receiver restores the order
};
inline constexpr size_t kPathModes = 4;

// Packets of a TCP flow in mode Packet that are striped; the others take the active path. Other
// protocols have data only.
enum class Striping : uint8_t {
    Packet,   // all
    DataAck,  // the same: each datagram's path is chosen for itself
    Data,     // data only
    Ack,      // pure acknowledgements only
};

constexpr std::string_view to_string(PathMode mode) {
    constexpr std::array<std::string_view, kPathModes> kNames = {"handover", "redundant", "flow",
                                                                 "packet"};
    return kNames[static_cast<size_t>(mode) % kPathModes];
}

}  // namespace continuo::base
