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
    while (!reserve(bytes.size(), offset)) {
        if (capacity_ < kMaxSentRingBytes) {
            grow_bytes(bytes.size());
        } else {
            pop();
        }
    }
    if (count_ == entries_.size()) {
        if (count_ < kMaxSentRingEntries) {
            grow_entries();
        } else {
            pop();
        }
    }
    std::memcpy(bytes_.get() + offset, bytes.data(), bytes.size());
    entry.offset = offset;
    entry.length = static_cast<uint32_t>(bytes.size());
    tail_ = offset + bytes.size();
    ++count_;
    at(count_ - 1) = entry;
}

// A place for `length` bytes in one piece, behind the newest.
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

void SentRing::grow_bytes(size_t length) {
    size_t capacity = std::max(capacity_ * 2, kFirstBytes);
    while (capacity < length) {
        capacity *= 2;
    }
    CTN_ASSERT(capacity <= kMaxSentRingBytes);
    auto larger = std::make_unique<uint8_t[]>(capacity);
    size_t used = 0;
    for (size_t i = 0; i < count_; ++i) {
        SentEntry& entry = at(i);
        std::memcpy(larger.get() + used, bytes_.get() + entry.offset, entry.length);
        entry.offset = used;
        used += entry.length;
    }
    bytes_ = std::move(larger);
    capacity_ = capacity;
    tail_ = used;
}

void SentRing::grow_entries() {
    std::vector<SentEntry> larger(std::max(entries_.size() * 2, kFirstEntries));
    for (size_t i = 0; i < count_; ++i) {
        larger[i] = at(i);
    }
    entries_ = std::move(larger);
    first_ = 0;
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
            due_ -= entry.is_due ? 1U : 0U;
            entry.is_due = false;
        }
    }
}

void SentRing::done(SentEntry& entry, base::TimePoint now) {
    due_ -= entry.is_due ? 1U : 0U;
    entry.is_due = false;
    entry.sent_at = now;
}

void SentRing::release(base::TimePoint keep_from) {
    if (count_ > 0 && at(count_ - 1).sent_at >= keep_from) {
        return;
    }
    *this = SentRing();
}

}  // namespace continuo::session
