// RelayControl: commands in words, on an emulated link of two directions, and their answers. A
// command that is wrong changes nothing. Pure, but that "trace" reads its file.
//
//   [a-to-b|b-to-a|both] SETTING...   e.g. "a-to-b rate 2M loss 0.1 b-to-a mtu 1280"; both at first
//   stats                             one line of JSON
#pragma once

#include "tests/support/link/link_model.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace continuo::tests {

// Counters of a direction's carrier outside the model.
struct CarrierCounters {
    uint64_t kernel_drops = 0;
    uint64_t send_failures = 0;
};

class RelayControl {
  public:
    using Carrier = std::function<CarrierCounters(size_t direction)>;

    // The models must outlive this; 0 is a-to-b, 1 is b-to-a.
    RelayControl(std::array<LinkModel*, 2> directions, Carrier carrier)
        : directions_(directions), carrier_(std::move(carrier)) {}

    // "ok", the JSON, or "error: why"; no line end.
    std::string answer(std::string_view command, base::TimePoint now);
    std::string stats();

  private:
    std::array<LinkModel*, 2> directions_;
    Carrier carrier_;
};

}  // namespace continuo::tests
