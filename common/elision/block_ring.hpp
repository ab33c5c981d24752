// First-in first-out queue in blocks of a pool that queues share; random access from the front. The
// pool's blocks are in a memory budget, whether or not they are in use.
#pragma once

#include "common/base/memory_budget.hpp"
#include "common/elision/ring.hpp"

#include <array>
#include <vector>

namespace continuo::elision {

template <typename T>
class BlockPool {
  public:
    static constexpr size_t kElements = 16;  // in a block
    // Free blocks that are kept; a queue that gives back more frees them.
    static constexpr size_t kMostFree = 32;
    using Block = std::array<T, kElements>;
    // A ring holds at most four times as many pointers as it has blocks.
    static constexpr size_t kBlockBytes = sizeof(Block) + 4 * sizeof(std::unique_ptr<Block>);

    // `budget` must outlive this; null: no limit.
    explicit BlockPool(base::MemoryBudget* budget) : memory_(budget) {}

    // Makes that many blocks free, kMostFree at most. False: there is no memory for them.
    bool reserve(size_t blocks) {
        while (free_.size() < blocks) {
            if (!memory_.take(kBlockBytes)) {
                return false;
            }
            free_.push_back(std::make_unique<Block>());
        }
        return true;
    }
    size_t free() const { return free_.size(); }
    // A free one.
    std::unique_ptr<Block> take() {
        CTN_ASSERT(!free_.empty());
        std::unique_ptr<Block> block = std::move(free_.back());
        free_.pop_back();
        return block;
    }
    void give_back(std::unique_ptr<Block> block) {
        if (free_.size() < kMostFree) {
            free_.push_back(std::move(block));
        } else {
            memory_.give_back(kBlockBytes);
        }
    }
    void release_memory() {
        memory_.give_back(free_.size() * kBlockBytes);
        free_.clear();
    }

  private:
    base::MemoryShare memory_;
    std::vector<std::unique_ptr<Block>> free_;
};

// All calls of one queue name the same pool.
template <typename T>
class BlockRing {
  public:
    using Pool = BlockPool<T>;

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](size_t position) {
        const size_t at = head_ + position;
        return (*blocks_[at / Pool::kElements])[at % Pool::kElements];
    }
    T& front() { return (*this)[0]; }
    T& back() { return (*this)[size_ - 1]; }
    void pop_front(Pool& pool) {
        CTN_ASSERT(size_ > 0);
        --size_;
        if (++head_ == Pool::kElements) {
            pool.give_back(std::move(blocks_.front()));
            blocks_.pop_front();
            head_ = 0;
        }
        free_last_blocks(pool);
    }
    // A value-initialised element at the back. The pool has a free block.
    T& push_back(Pool& pool) {
        if (head_ + size_ == blocks_.size() * Pool::kElements) {
            blocks_.push_back() = pool.take();
        }
        ++size_;
        return back() = T{};
    }
    // Removes the elements that `is_removed` says; the others keep their order.
    template <typename Predicate>
    void remove_if(Pool& pool, Predicate is_removed) {
        size_t kept = 0;
        for (size_t i = 0; i < size_; ++i) {
            if (!is_removed((*this)[i])) {
                if (kept != i) {
                    (*this)[kept] = std::move((*this)[i]);
                }
                ++kept;
            }
        }
        size_ = kept;
        free_last_blocks(pool);
    }
    // Gives the list of blocks back when nothing is in it.
    void release_memory() { blocks_.release_memory(); }

  private:
    void free_last_blocks(Pool& pool) {
        head_ = size_ == 0 ? 0 : head_;
        while (blocks_.size() * Pool::kElements >= head_ + size_ + Pool::kElements) {
            pool.give_back(std::move(blocks_.back()));
            blocks_.pop_back();
        }
    }

    Ring<std::unique_ptr<typename Pool::Block>> blocks_;
    size_t head_ = 0;  // index in the first block
    size_t size_ = 0;
};

}  // namespace continuo::elision
