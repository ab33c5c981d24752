#include "common/wire/listing.hpp"

#include "common/wire/frame_fields.hpp"

#include <limits>

namespace continuo::wire {

using base::Errc;
using base::Error;

base::Result<std::optional<ListedRun>> ListingReader::next() {
    if (runs_left_ == 0) {
        if (reader_.ok() && reader_.at_end()) {
            return std::optional<ListedRun>{};
        }
        space_ = detail::read_own_space(reader_);
        next_number_ = detail::read_sequence(reader_);
        runs_left_ = reader_.u8();
        const uint16_t number = space_number(space_);
        if (!reader_.ok() || runs_left_ == 0 || (last_space_ && number <= *last_space_)) {
            reader_.fail();
            return Error{Errc::Malformed, "space of GENERATION"};
        }
        last_space_ = number;
        first_run_ = true;
    }
    uint64_t first = next_number_;
    if (!first_run_) {
        // next_number_ is one above the run before; at least that one is not listed.
        const uint64_t gap = reader_.varint();
        first = gap > kMaxSequence ? uint64_t{kMaxSequence} + 1 : first + gap + 1;
    }
    const uint64_t above = reader_.varint();
    if (!reader_.ok() || first > kMaxSequence || above > kMaxSequence - first) {
        reader_.fail();
        return Error{Errc::Malformed, "run of GENERATION"};
    }
    const auto last = static_cast<uint32_t>(first + above);
    first_run_ = false;
    --runs_left_;
    next_number_ = last + 1;
    return std::optional<ListedRun>{
        ListedRun{space_, SequenceRun{static_cast<uint32_t>(first), last}}};
}

bool write_listed_space(base::ByteWriter& writer,
                        const Space& space,
                        std::span<const SequenceRun> runs) {
    constexpr size_t kMaxRuns = std::numeric_limits<uint8_t>::max();
    if (!writer.ok() || runs.empty() || runs.size() > kMaxRuns) {
        return false;
    }
    const size_t begin = writer.size();
    detail::write_space(writer, space);
    writer.varint(runs.front().first);
    writer.u8(static_cast<uint8_t>(runs.size()));
    for (size_t i = 0; i < runs.size(); ++i) {
        const bool in_order = runs[i].first <= runs[i].last && runs[i].last <= kMaxSequence &&
                              (i == 0 || runs[i].first > runs[i - 1].last + uint64_t{1});
        if (!in_order) {
            writer.rewind(begin);
            return false;
        }
        if (i > 0) {
            writer.varint(runs[i].first - runs[i - 1].last - 2);
        }
        writer.varint(runs[i].last - runs[i].first);
    }
    if (!writer.ok()) {
        writer.rewind(begin);
        return false;
    }
    return true;
}

}  // namespace continuo::wire
