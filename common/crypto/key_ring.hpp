// KeyRing: the keys of one session, of at most two consecutive epochs. It seals and opens, counts
// what each key sealed and refuses to seal beyond the limit. Key material is erased wherever it
// passed. Not thread-safe. docs/PROTOCOL.md sections 3.1 and 3.2.
#pragma once

#include "common/crypto/datagram_cipher.hpp"
#include "common/wire/constants.hpp"

#include <optional>

namespace continuo::crypto {

// A key is retired when it has sealed so many datagrams, summed over its spaces.
inline constexpr uint64_t kMaxDatagramsPerKey = wire::kRekeyDatagrams;
// From here on the next epoch should be agreed upon, so that there is time before the limit.
inline constexpr uint64_t kRekeyAtDatagrams = kMaxDatagramsPerKey / 4 * 3;

struct EpochKeys {
    uint32_t epoch = 0;
    Protection protection = Protection::Aes256Gcm;
    size_t tag_bytes = kMaxTagBytes;
    KeyMaterial send;
    KeyMaterial receive;

    EpochKeys() = default;
    EpochKeys(const EpochKeys&) = delete;
    EpochKeys& operator=(const EpochKeys&) = delete;
    // Erases both keys.
    ~EpochKeys();
    void erase();
};

// The ciphers of one epoch. Address is stable until the epoch is retired.
class EpochCiphers {
  public:
    EpochCiphers(uint32_t epoch,
                 std::unique_ptr<DatagramCipher> sealer,
                 std::unique_ptr<DatagramCipher> opener)
        : epoch_(epoch), sealer_(std::move(sealer)), opener_(std::move(opener)) {}

    uint32_t epoch() const { return epoch_; }
    size_t tag_bytes() const { return sealer_->tag_bytes(); }
    uint64_t sealed() const { return sealed_; }
    bool wants_rekey() const { return sealed_ >= kRekeyAtDatagrams; }
    // All or none. False when the key would pass its limit: nothing was sealed.
    bool seal(std::span<SealedUnit> units);
    void open(std::span<SealedUnit> units) { opener_->open(units); }
    // Counts datagrams as sealed; for one key used by several objects, and for tests.
    void add_sealed(uint64_t datagrams) { sealed_ += datagrams; }

  private:
    uint32_t epoch_;
    uint64_t sealed_ = 0;
    std::unique_ptr<DatagramCipher> sealer_;
    std::unique_ptr<DatagramCipher> opener_;
};

class KeyRing {
  public:
    // Adds the keys of the next epoch (of any, when empty) and erases `keys`. The first epoch is
    // also the sending one. Errors: LimitReached (two are there), InvalidState (not the next
    // epoch), as make_cipher.
    base::Result<void> install(EpochKeys& keys);
    // Datagrams are sealed with this epoch from now on. False when it has no keys.
    bool send_with(uint32_t epoch);
    // Forgets an epoch. False when it has no keys or is the sending one while there is another.
    bool retire(uint32_t epoch);

    EpochCiphers* sending();
    // By the two bits of the datagram header; null when no such epoch has keys.
    EpochCiphers* receiving(uint8_t epoch_modulo);
    EpochCiphers* find(uint32_t epoch);
    size_t size() const { return (epochs_[0] ? 1U : 0U) + (epochs_[1] ? 1U : 0U); }

  private:
    std::array<std::optional<EpochCiphers>, 2> epochs_;  // by epoch mod 2
    uint32_t sending_ = 0;
};

}  // namespace continuo::crypto
