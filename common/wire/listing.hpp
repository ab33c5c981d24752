// The list of aggregates in a GENERATION: per space a first number and runs of listed and unlisted
// numbers. docs/PROTOCOL.md section 7.2.
#pragma once

#include "common/base/bytes.hpp"
#include "common/wire/frame.hpp"

#include <optional>

namespace continuo::wire {

struct ListedRun {
    Space space;
    SequenceRun run;
    bool operator==(const ListedRun&) const = default;
};

// Reads `Generation::listing`; the view must outlive it. Spaces and runs come in rising order.
class ListingReader {
  public:
    explicit ListingReader(base::ByteView listing) : reader_(listing) {}

    // Nothing at the end. Errors: Truncated, Malformed (spaces or runs out of order, numbers above
    // kMaxSequence).
    base::Result<std::optional<ListedRun>> next();

  private:
    base::ByteReader reader_;
    Space space_;
    std::optional<uint16_t> last_space_;
    uint32_t next_number_ = 0;
    uint8_t runs_left_ = 0;
    bool first_run_ = false;
};

// Writes the runs of one space: rising, at least one number apart, at most 255. False when it does
// not fit the writer or the runs break these rules; then nothing is written.
bool write_listed_space(base::ByteWriter& writer,
                        const Space& space,
                        std::span<const SequenceRun> runs);

}  // namespace continuo::wire
