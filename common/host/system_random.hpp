// SystemRandom: the operating system's random numbers (getrandom), fit for keys. Thread-safe.
#pragma once

#include "common/base/random.hpp"

namespace continuo::host {

class SystemRandom final : public base::Random {
  public:
    void fill(base::MutableByteView bytes) override;
};

}  // namespace continuo::host
