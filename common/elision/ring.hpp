// First-in first-out queue in one block that doubles when full, and halves when three quarters of
// it are empty; random access from the front. The caller bounds it.
#pragma once

#include "common/base/assert.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace continuo::elision {

template <typename T>
class Ring {
  public:
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](size_t position) { return slots_[(head_ + position) & (capacity_ - 1)]; }
    T& front() { return (*this)[0]; }
    T& back() { return (*this)[size_ - 1]; }
    void pop_front() {
        CTN_ASSERT(size_ > 0);
        head_ = (head_ + 1) & (capacity_ - 1);
        --size_;
        shrink();
    }
    void pop_back() {
        CTN_ASSERT(size_ > 0);
        --size_;
        shrink();
    }
    // A value-initialised element at the back.
    T& push_back() {
        if (size_ == capacity_) {
            resize(capacity_ == 0 ? kFewest : 2 * capacity_);
        }
        ++size_;
        return back() = T{};
    }
    // Gives the block back when nothing is in it.
    void release_memory() {
        if (size_ == 0) {
            slots_.reset();
            capacity_ = 0;
            head_ = 0;
        }
    }

  private:
    static constexpr size_t kFewest = 8;

    void shrink() {
        if (capacity_ > kFewest && size_ <= capacity_ / 4) {
            resize(capacity_ / 2);
        }
    }
    void resize(size_t capacity) {
        auto slots = std::make_unique<T[]>(capacity);
        for (size_t i = 0; i < size_; ++i) {
            slots[i] = std::move((*this)[i]);
        }
        slots_ = std::move(slots);
        capacity_ = capacity;
        head_ = 0;
    }

    std::unique_ptr<T[]> slots_;
    size_t capacity_ = 0;
    size_t head_ = 0;
    size_t size_ = 0;
};

}  // namespace continuo::elision
