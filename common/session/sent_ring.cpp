#include "common/session/sent_ring.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::session {

namespace {

constexpr size_t kFirstBytes = size_t{32} * 1024;
constexpr size_t kFirstEntries = 32;

}  // namespace

void SentRing::push(SentEntry entry, base::ByteView bytes, base::TimePoint keep_from) {
    while (count_ > 0 && at(0).sent_at < keep_from && !at(0).is_due) {
        pop();
    }
    size_t offset = 0;
    if (!make_room(bytes.size(), offset)) {
        return;
    }
    std::memcpy(bytes_.get() + offset, bytes.data(), bytes.size());
    entry.offset = offset;
    entry.length = static_cast<uint32_t>(bytes.size());
    tail_ = offset + bytes.size();
    ++count_;
    at(count_ - 1) = entry;
}

// Returns false if there is not enough memory.
bool SentRing::make_room(size_t length, size_t& offset) {
    if (count_ == entries_.size() && !grow_entries()) {
        if (count_ == 0) {
            return false;
        }
        pop();
    }
    while (!reserve(length, offset)) {
        if (grow_bytes(length)) {
            continue;
        }
        if (length > capacity_) {
            return false;
        }
        pop();
    }
    return true;
}

// Finds room for `length` contiguous bytes behind the newest entry.
bool SentRing::reserve(size_t length, size_t& offset) {
    if (count_ == 0) {
        offset = 0;
        return length <= capacity_;
    }
    const size_t head = at(0).offset;
    if (tail_ > head) {
        if (length <= capacity_ - tail_) {
            offset = tail_;
            return true;
        }
        offset = 0;
        return length <= head;
    }
    offset = tail_;
    return length <= head - tail_;
}

bool SentRing::grow_bytes(size_t length) {
    if (capacity_ == kMaxSentRingBytes) {
        return false;
    }
    size_t capacity = std::max(capacity_ * 2, kFirstBytes);
    while (capacity < length) {
        capacity *= 2;
    }
    CTN_ASSERT(capacity <= kMaxSentRingBytes);
    if (!memory_.take(capacity - capacity_)) {
        return false;
    }
    move_bytes(capacity);
    return true;
}

void SentRing::move_bytes(size_t capacity) {
    auto other = std::make_unique<uint8_t[]>(capacity);
    size_t used = 0;
    for (size_t i = 0; i < count_; ++i) {
        SentEntry& entry = at(i);
        std::memcpy(other.get() + used, bytes_.get() + entry.offset, entry.length);
        entry.offset = used;
        used += entry.length;
    }
    bytes_ = std::move(other);
    capacity_ = capacity;
    tail_ = used;
}

size_t SentRing::used_bytes() const {
    if (count_ == 0) {
        return 0;
    }
    const size_t head = entries_[first_].offset;
    return tail_ > head ? tail_ - head : capacity_ - head + tail_;
}

bool SentRing::grow_entries() {
    const size_t size = std::max(entries_.size() * 2, kFirstEntries);
    if (size > kMaxSentRingEntries || !memory_.take((size - entries_.size()) * sizeof(SentEntry))) {
        return false;
    }
    move_entries(size);
    return true;
}

void SentRing::move_entries(size_t size) {
    std::vector<SentEntry> other(size);
    for (size_t i = 0; i < count_; ++i) {
        other[i] = at(i);
    }
    entries_ = std::move(other);
    first_ = 0;
}

// Halves the memory when a quarter is enough, so that a trickle does not keep what a burst took.
void SentRing::shrink() {
    if (capacity_ > kFirstBytes && used_bytes() <= capacity_ / 4) {
        memory_.give_back(capacity_ / 2);
        move_bytes(capacity_ / 2);
    }
    if (entries_.size() > kFirstEntries && count_ <= entries_.size() / 4) {
        memory_.give_back(entries_.size() / 2 * sizeof(SentEntry));
        move_entries(entries_.size() / 2);
    }
}

void SentRing::pop() {
    due_ -= at(0).is_due ? 1U : 0U;
    first_ = (first_ + 1) % entries_.size();
    --count_;
    ++popped_;
}

SentEntry& SentRing::next_due() {
    CTN_ASSERT(due_ > 0);
    for (;; ++cursor_) {
        cursor_ = std::max(cursor_, popped_);
        if (cursor_ == popped_ + count_) {
            CTN_ASSERT(is_low_delay_turn_);
            is_low_delay_turn_ = false;
            cursor_ = popped_;
        }
        SentEntry& entry = at(static_cast<size_t>(cursor_ - popped_));
        if (entry.is_due && base::is_low_delay(entry.traffic_class) == is_low_delay_turn_) {
            return entry;
        }
    }
}

void SentRing::keep_newest(size_t entries) {
    while (count_ > entries) {
        pop();
    }
}

void SentRing::forget_flow(uint32_t index) {
    for (size_t i = 0; i < count_; ++i) {
        SentEntry& entry = at(i);
        if (entry.flow_index == index) {
            entry.flow_index = SentEntry::kNoFlow;
            forget(entry);
        }
    }
}

// The entry stays in its place, but is not sent again.
void SentRing::forget(SentEntry& entry) {
    due_ -= entry.is_due ? 1U : 0U;
    entry.is_due = false;
}

void SentRing::done(SentEntry& entry, base::TimePoint now) {
    forget(entry);
    entry.sent_at = now;
    ++entry.repeats;
}

void SentRing::release(base::TimePoint keep_from) {
    if (count_ > 0 && at(count_ - 1).sent_at >= keep_from) {
        shrink();
        return;
    }
    clear();
}

void SentRing::clear() {
    bytes_.reset();
    capacity_ = 0;
    tail_ = 0;
    std::vector<SentEntry>().swap(entries_);
    first_ = 0;
    count_ = 0;
    due_ = 0;
    popped_ = 0;
    cursor_ = 0;
    is_low_delay_turn_ = true;
    memory_.give_back(memory_.bytes());
}

}  // namespace continuo::session
