#include "common/control/field_reader.hpp"

#include "common/control/message.hpp"

namespace continuo::control {

using base::ByteReader;
using base::ByteView;

base::Result<void> require(const Seen& seen, std::initializer_list<uint8_t> ids) {
    for (const uint8_t id : ids) {
        if (!seen.test(id)) {
            return malformed("control field missing");
        }
    }
    return {};
}

bool read_bool(ByteReader& value) {
    const uint8_t byte = value.u8();
    if (byte > 1) {
        value.fail();
    }
    return byte == 1;
}

int64_t read_signed(ByteReader& value) {
    return static_cast<int64_t>(value.u64());
}

std::string read_raw(ByteReader& value, size_t max_bytes) {
    if (value.remaining() > max_bytes) {
        value.fail();
    }
    const ByteView bytes = value.bytes(value.remaining());
    return {bytes.begin(), bytes.end()};
}

std::string read_text(ByteReader& value, size_t max_bytes) {
    std::string text = read_raw(value, max_bytes);
    if (std::any_of(text.begin(), text.end(), [](char c) {
            const auto byte = static_cast<uint8_t>(c);
            return byte < 0x20 || byte == 0x7F;
        })) {
        value.fail();
    }
    return text;
}

std::string read_name(ByteReader& value) {
    std::string name = read_text(value, kMaxNameBytes);
    if (name.empty()) {
        value.fail();
    }
    return name;
}

}  // namespace continuo::control
