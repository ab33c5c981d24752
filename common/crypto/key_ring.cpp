#include "common/crypto/key_ring.hpp"

#include <openssl/crypto.h>

namespace continuo::crypto {

using base::Errc;
using base::Error;
using base::Result;

EpochKeys::~EpochKeys() {
    erase();
}

void EpochKeys::erase() {
    OPENSSL_cleanse(&send, sizeof send);
    OPENSSL_cleanse(&receive, sizeof receive);
}

bool EpochCiphers::seal(std::span<SealedUnit> units) {
    if (units.size() > kMaxDatagramsPerKey || sealed_ > kMaxDatagramsPerKey - units.size()) {
        return false;
    }
    sealer_->seal(units);
    sealed_ += units.size();
    return true;
}

Result<void> KeyRing::install(EpochKeys& keys) {
    if (size() == epochs_.size()) {
        return Error{Errc::LimitReached, "epochs"};
    }
    const EpochCiphers* const present = sending();
    if (present != nullptr && keys.epoch != present->epoch() + 1) {
        return Error{Errc::InvalidState, "epoch is not the next"};
    }
    auto sealer = CTN_TRY(make_cipher(keys.protection, keys.send, keys.tag_bytes));
    auto opener = CTN_TRY(make_cipher(keys.protection, keys.receive, keys.tag_bytes));
    if (present == nullptr) {
        sending_ = keys.epoch;
    }
    epochs_[keys.epoch % 2].emplace(keys.epoch, std::move(sealer), std::move(opener));
    keys.erase();
    return {};
}

bool KeyRing::send_with(uint32_t epoch) {
    if (find(epoch) == nullptr) {
        return false;
    }
    sending_ = epoch;
    return true;
}

bool KeyRing::retire(uint32_t epoch) {
    if (find(epoch) == nullptr || (epoch == sending_ && size() > 1)) {
        return false;
    }
    epochs_[epoch % 2].reset();
    return true;
}

EpochCiphers* KeyRing::sending() {
    return find(sending_);
}

EpochCiphers* KeyRing::receiving(uint8_t epoch_modulo) {
    auto& slot = epochs_[epoch_modulo % 2U];
    return slot && slot->epoch() % wire::kEpochModulus == epoch_modulo ? &*slot : nullptr;
}

EpochCiphers* KeyRing::find(uint32_t epoch) {
    auto& slot = epochs_[epoch % 2];
    return slot && slot->epoch() == epoch ? &*slot : nullptr;
}

}  // namespace continuo::crypto
