#include "common/flow/index_allocator.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <bit>

namespace continuo::flow {
namespace {

constexpr size_t kBits = 64;

bool has(const std::vector<uint64_t>& bits, size_t index) {
    return index / kBits < bits.size() && (bits[index / kBits] >> (index % kBits) & 1U) != 0;
}

void flip(std::vector<uint64_t>& bits, size_t index) {
    bits[index / kBits] ^= uint64_t{1} << (index % kBits);
}

}  // namespace

IndexAllocator::IndexAllocator(size_t limit) : limit_(std::min(limit, kMaxIndices)) {}

std::optional<uint16_t> IndexAllocator::take() {
    while (first_open_word_ < taken_.size() && taken_[first_open_word_] == ~uint64_t{0}) {
        ++first_open_word_;
    }
    const uint64_t word = first_open_word_ < taken_.size() ? taken_[first_open_word_] : 0;
    const size_t index = first_open_word_ * kBits + static_cast<size_t>(std::countr_one(word));
    if (index >= limit_) {
        return std::nullopt;
    }
    if (first_open_word_ == taken_.size()) {
        taken_.push_back(0);
        rests_.push_back(0);
    }
    flip(taken_, index);
    ++in_use_;
    return static_cast<uint16_t>(index);
}

void IndexAllocator::release(uint16_t index) {
    CTN_ASSERT(has(taken_, index) && !has(rests_, index));
    flip(rests_, index);
    --in_use_;
    ++resting_;
}

void IndexAllocator::make_reusable(uint16_t index) {
    CTN_ASSERT(has(rests_, index));
    flip(rests_, index);
    flip(taken_, index);
    --resting_;
    first_open_word_ = std::min(first_open_word_, index / kBits);
}

}  // namespace continuo::flow
