// IndexAllocator: flow indices of one session, 0 to 65535, lowest free first so that they stay
// short on the wire. A released index rests until it is declared reusable: packets of its old flow
// may still be in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace continuo::flow {

class IndexAllocator {
  public:
    static constexpr size_t kMaxIndices = 65536;

    explicit IndexAllocator(size_t limit = kMaxIndices);

    // Empty when every index is in use or resting.
    std::optional<uint16_t> take();
    void release(uint16_t index);
    void make_reusable(uint16_t index);

    size_t in_use() const { return in_use_; }
    size_t resting() const { return resting_; }

  private:
    // Bits, in words that are added when first needed: an idle session holds nothing.
    std::vector<uint64_t> taken_;  // in use or resting
    std::vector<uint64_t> rests_;
    size_t limit_;
    size_t first_open_word_ = 0;  // every word before it is full
    size_t in_use_ = 0;
    size_t resting_ = 0;
};

}  // namespace continuo::flow
