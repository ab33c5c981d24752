// Randomness as a reference: the daemons pass the operating system's, tests a seeded one.
#pragma once

#include "common/base/bytes.hpp"

#include <array>

namespace continuo::base {

class Random {
  public:
    Random() = default;
    Random(const Random&) = delete;
    Random& operator=(const Random&) = delete;
    virtual ~Random() = default;

    virtual void fill(MutableByteView bytes) = 0;

    uint64_t u64() {
        std::array<uint8_t, 8> bytes{};
        fill(bytes);
        return load_big_endian<uint64_t>(bytes.data());
    }
    // Uniform in [0, bound); bound > 0. The bias of the modulus is below 2^-32 for bounds below
    // 2^32.
    uint64_t below(uint64_t bound) { return u64() % bound; }
};

// SplitMix64, for tests and emulation only: never for keys.
class SeededRandom final : public Random {
  public:
    explicit SeededRandom(uint64_t seed) : state_(seed) {}

    void fill(MutableByteView bytes) override {
        for (auto& byte : bytes) {
            byte = static_cast<uint8_t>(next() >> 32);
        }
    }

  private:
    uint64_t next() {
        state_ += 0x9E3779B97F4A7C15U;
        uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
        return mixed ^ (mixed >> 31);
    }
    uint64_t state_;
};

}  // namespace continuo::base
