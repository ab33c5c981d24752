#include "common/dataplane/frame_backlog.hpp"

#include <cstring>

namespace continuo::dataplane {

bool FrameBacklog::push(base::ByteView frame,
                        const packet::FrameInfo& info,
                        const packet::FiveTuple& tuple) {
    const size_t added = sizeof(Record) + frame.size();
    if (bytes_.size() + added > kLimitBytes) {
        return false;
    }
    if (bytes_.capacity() == 0) {
        if (!memory_.take(kLimitBytes)) {
            return false;
        }
        bytes_.reserve(kLimitBytes);
    }
    const Record record{tuple, info.inner_bytes, info.payload_bytes, info.packets,
                        static_cast<uint32_t>(frame.size())};
    const size_t at = bytes_.size();
    bytes_.resize(at + added);
    std::memcpy(&bytes_[at], &record, sizeof record);
    std::memcpy(&bytes_[at + sizeof record], frame.data(), frame.size());
    return true;
}

void FrameBacklog::clear() {
    memory_.give_back(memory_.bytes());
    bytes_ = {};
    next_ = 0;
}

}  // namespace continuo::dataplane
