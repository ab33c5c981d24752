// Cuts a plaintext stream into messages. Holds at most one message.
#pragma once

#include "common/base/bytes.hpp"

#include <optional>
#include <vector>

namespace continuo::control {

struct RawMessage {
    uint8_t type = 0;
    base::ByteView body;  // valid until the next call on the reader
};

class MessageReader {
  public:
    // Room for the next bytes of the stream: read into it, then call filled(). Never empty after
    // next() gave nothing.
    base::MutableByteView room();
    void filled(size_t bytes);
    // The next whole message, or nothing: then more bytes are needed.
    std::optional<RawMessage> next();

  private:
    std::vector<uint8_t> buffer_;
    size_t begin_ = 0;  // first byte not yet given out
    size_t end_ = 0;    // end of the bytes that are there
};

}  // namespace continuo::control
