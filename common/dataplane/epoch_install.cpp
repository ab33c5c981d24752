#include "common/dataplane/epoch_install.hpp"

namespace continuo::dataplane {

namespace {

crypto::KeyMaterial material(const control::DirectionKeys& keys) {
    crypto::KeyMaterial result;
    result.key = keys.key;
    result.iv = keys.iv;
    return result;
}

crypto::Protection protection_of(control::ProtectionKind kind) {
    switch (kind) {
    case control::ProtectionKind::Aes256Gcm:
        return crypto::Protection::Aes256Gcm;
    case control::ProtectionKind::ChaCha20Poly1305:
        return crypto::Protection::ChaCha20Poly1305;
    case control::ProtectionKind::HmacSha256:
        return crypto::Protection::HmacSha256;
    }
    return crypto::Protection::ChaCha20Poly1305;
}

}  // namespace

base::Result<session::EpochInstall> make_install(path::Role role,
                                                 const control::ProtectionOffer& protection,
                                                 const control::EpochKeys& keys,
                                                 const ExportAs& exported) {
    const bool is_node = role == path::Role::Node;
    const control::DirectionKeys& sending = is_node ? keys.up : keys.down;
    const control::DirectionKeys& receiving = is_node ? keys.down : keys.up;
    const crypto::Protection kind = protection_of(protection.kind);
    session::EpochInstall install;
    install.epoch = keys.epoch;
    install.sealer = CTN_TRY(crypto::make_cipher(kind, material(sending), protection.tag_bytes));
    install.opener = CTN_TRY(crypto::make_cipher(kind, material(receiving), protection.tag_bytes));
    if (exported.to != nullptr) {
        exported.to->add({exported.wire_session_up, exported.wire_session_down, protection}, keys);
    }
    return install;
}

}  // namespace continuo::dataplane
