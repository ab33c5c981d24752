// Reading the fields of a control message: id (1), length (2), value (docs/PROTOCOL.md section
// 4.3). A malformed value fails its reader; nothing throws.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"

#include <algorithm>
#include <bitset>
#include <initializer_list>
#include <string>
#include <string_view>

namespace continuo::control {

inline constexpr uint8_t kCritical = 0x80;  // ids and types from here on may not be skipped

// Field ids that came; a field that is not a list comes at most once.
using Seen = std::bitset<256>;

inline base::Error malformed(std::string_view where) {
    return {base::Errc::Malformed, where};
}

// Calls visit(id, value) for each field; visit gives false for an unknown id, fails `value` for a
// bad value and leaves nothing of it unread. `lists` are the ids that may come more than once.
template <typename Visit>
base::Result<Seen>
read_fields(base::ByteView body, std::initializer_list<uint8_t> lists, const Visit& visit) {
    Seen seen;
    base::ByteReader reader(body);
    while (!reader.at_end()) {
        const uint8_t id = reader.u8();
        const uint16_t length = reader.u16();
        base::ByteReader value(reader.bytes(length));
        if (!reader.ok()) {
            return malformed("control field length");
        }
        if (!visit(id, value)) {
            if (id >= kCritical) {
                return base::Error{base::Errc::Unsupported, "control field"};
            }
            continue;
        }
        const bool is_list = std::find(lists.begin(), lists.end(), id) != lists.end();
        if (!value.ok() || !value.at_end() || (seen.test(id) && !is_list)) {
            return malformed("control field");
        }
        seen.set(id);
    }
    return seen;
}
base::Result<void> require(const Seen& seen, std::initializer_list<uint8_t> ids);

// 0 or 1.
bool read_bool(base::ByteReader& value);
// Eight bytes, two's complement.
int64_t read_signed(base::ByteReader& value);
std::string read_raw(base::ByteReader& value, size_t max_bytes);
// Bytes that may stand in a log line.
std::string read_text(base::ByteReader& value, size_t max_bytes);
// Such a text that is not empty, of kMaxNameBytes at most.
std::string read_name(base::ByteReader& value);

}  // namespace continuo::control
