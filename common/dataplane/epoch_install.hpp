// Ciphers of a session's epoch from the keys agreed over control.
#pragma once

#include "common/control/epoch_keys.hpp"
#include "common/record/recording.hpp"
#include "common/session/session_types.hpp"

namespace continuo::dataplane {

// Also receives the keys; null: none.
struct ExportAs {
    record::KeyExport* to = nullptr;
    uint16_t wire_session_up = 0;
    uint16_t wire_session_down = 0;
};

// The ciphers of one end: a node seals the direction up, a SNAPT down. Errors: as
// crypto::make_cipher.
base::Result<session::EpochInstall> make_install(path::Role role,
                                                 const control::ProtectionOffer& protection,
                                                 const control::EpochKeys& keys,
                                                 const ExportAs& exported = {});

}  // namespace continuo::dataplane
