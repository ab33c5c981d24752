// Reassembly of entries that were split over datagrams (docs/PROTOCOL.md section 3.4, FRAGMENT).
// Bounded in bytes and entries; when full, the oldest unfinished entry is dropped, and one that is
// not complete after kReassemblyTimeout is dropped too.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/drop_reason.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/wire/frame.hpp"

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace continuo::reception {

class Reassembly {
  public:
    static constexpr size_t kMaxEntries = 32;
    static constexpr size_t kMaxPieces = 64;

    explicit Reassembly(base::DropCounters& drops) : drops_(drops) {}

    struct Whole {
        base::ByteView entry;      // valid until the next call
        uint32_t outer_bytes = 0;  // all its pieces together
    };
    // Returns the whole entry when this piece completes it. `outer_bytes`: the piece's share of its
    // datagram's outer bytes.
    std::optional<Whole> add(base::TrafficClass traffic_class,
                             const wire::Fragment& fragment,
                             uint32_t outer_bytes,
                             base::TimePoint now);

  private:
    struct Partial {
        bool in_use = false;
        base::TrafficClass traffic_class = base::TrafficClass::LtLd;
        uint16_t id = 0;
        base::TimePoint started_at{};
        uint64_t have = 0;  // bit n: piece n is here
        std::optional<uint8_t> last_index;
        std::array<std::vector<uint8_t>, kMaxPieces> pieces;
        size_t bytes = 0;
        uint32_t outer_bytes = 0;
    };
    Partial& find_or_start(base::TrafficClass traffic_class, uint16_t id, base::TimePoint now);
    void drop(Partial& partial, base::DropReason reason);
    static void reset(Partial& partial);

    base::DropCounters& drops_;
    std::array<std::unique_ptr<Partial>, kMaxEntries> partials_;  // allocated when first needed
    std::vector<uint8_t> whole_;
    size_t bytes_ = 0;
};

}  // namespace continuo::reception
