#include "common/turns/frame_backlog.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::turns {

bool FrameBacklog::push(base::ByteView frame,
                        const packet::FrameInfo& info,
                        const packet::FiveTuple& tuple) {
    const size_t added = sizeof(Record) + frame.size();
    if (bytes_.size() + added > kLimitBytes) {
        return false;
    }
    if (bytes_.size() + added > memory_.bytes() && !grow(bytes_.size() + added)) {
        return false;
    }
    const Record record{tuple, info.inner_bytes, info.payload_bytes, info.packets,
                        static_cast<uint32_t>(frame.size())};
    const size_t at = bytes_.size();
    bytes_.resize(at + added);
    std::memcpy(&bytes_[at], &record, sizeof record);
    std::memcpy(&bytes_[at + sizeof record], frame.data(), frame.size());
    packets_ += info.packets;
    return true;
}

bool FrameBacklog::grow(size_t wanted) {
    size_t room = std::max(memory_.bytes(), kFirstBytes);
    while (room < wanted) {
        room *= 2;
    }
    room = std::min(room, kLimitBytes);
    if (!memory_.take(room - memory_.bytes())) {
        return false;
    }
    bytes_.reserve(room);
    return true;
}

void FrameBacklog::clear() {
    memory_.give_back(memory_.bytes());
    bytes_ = {};
    next_ = 0;
    packets_ = 0;
}

}  // namespace continuo::turns
