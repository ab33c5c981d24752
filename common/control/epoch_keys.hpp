// Datagram keys of one epoch, exported from the TLS connection of the association. docs/PROTOCOL.md
// section 4.5.
#pragma once

#include "common/base/result.hpp"
#include "common/base/secret.hpp"
#include "common/control/message.hpp"
#include "common/control/tls_channel.hpp"

#include <string_view>

namespace continuo::control {

inline constexpr std::string_view kDatagramKeyLabel = "EXPORTER-continuo-datagram";

enum class Direction : uint8_t { Up = 0, Down = 1 };

struct DirectionKeys {
    base::Secret<32> key;
    base::Secret<12> iv;
    bool operator==(const DirectionKeys&) const = default;
};

struct EpochKeys {
    uint32_t epoch = 0;
    DirectionKeys up;    // node to SNAPT
    DirectionKeys down;  // SNAPT to node
    bool operator==(const EpochKeys&) const = default;
};

// The name of an association in the exporter context.
struct AssociationId {
    SessionId session_id{};
    uint16_t wire_session_up = 0;
    uint16_t wire_session_down = 0;
};

// Errors: as TlsChannel::export_keys.
base::Result<EpochKeys>
export_epoch_keys(const TlsChannel& channel, const AssociationId& association, uint32_t epoch);

}  // namespace continuo::control
