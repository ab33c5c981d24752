#include "common/control/message_reader.hpp"

#include "common/control/message.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::control {

namespace {

constexpr size_t kStartBytes = 2048;  // enough for everything but USAGE, DIRECTORY and DATA
constexpr size_t kMaxMessageBytes = kMessageHeaderBytes + kMaxMessageBodyBytes;

}  // namespace

base::MutableByteView MessageReader::room() {
    if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ == buffer_.size()) {
        buffer_.resize(std::clamp(buffer_.size() * 2, kStartBytes, kMaxMessageBytes));
    }
    return base::MutableByteView(buffer_).subspan(end_);
}

void MessageReader::filled(size_t bytes) {
    CTN_ASSERT(bytes <= buffer_.size() - end_);
    end_ += bytes;
}

std::optional<RawMessage> MessageReader::next() {
    base::ByteReader reader(base::ByteView(buffer_).subspan(begin_, end_ - begin_));
    const uint8_t type = reader.u8();
    const uint16_t length = reader.u16();
    const base::ByteView body = reader.bytes(length);
    if (!reader.ok()) {
        return std::nullopt;
    }
    begin_ += kMessageHeaderBytes + length;
    return RawMessage{type, body};
}

}  // namespace continuo::control
