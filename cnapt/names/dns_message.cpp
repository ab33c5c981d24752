#include "cnapt/names/dns_message.hpp"

#include <algorithm>
#include <optional>

namespace continuo::cnapt::names {

using base::Errc;
using base::Error;

namespace {

constexpr uint16_t kTypeA = 1;
constexpr uint16_t kTypeAaaa = 28;
constexpr uint16_t kTypeCname = 5;
constexpr uint16_t kClassIn = 1;
constexpr uint16_t kIsAnswer = 0x8000;
constexpr uint16_t kOperationMask = 0x7800;  // 0: a query
constexpr uint16_t kIsTruncated = 0x0200;
constexpr uint16_t kRecursionDesired = 0x0100;
constexpr uint16_t kCodeMask = 0x000F;
constexpr uint16_t kNameUnknown = 3;
constexpr size_t kHeaderBytes = 12;
constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxLabelBytes = 63;
constexpr uint8_t kPointer = 0xC0;
constexpr size_t kMaxPointers = 16;
constexpr size_t kMaxAliases = 8;

uint8_t lower(uint8_t byte) {
    return byte >= 'A' && byte <= 'Z' ? static_cast<uint8_t>(byte + ('a' - 'A')) : byte;
}

// Labels with their lengths, in lower case, without compression; nothing if it is no name.
// `position` moves behind the name.
std::optional<std::string> read_name(base::ByteView message, size_t& position) {
    std::string name;
    size_t at = position;
    bool has_jumped = false;
    for (size_t jumps = 0; at < message.size();) {
        const uint8_t length = message[at];
        if (length >= kPointer) {
            if (at + 1 >= message.size() || ++jumps > kMaxPointers) {
                return std::nullopt;
            }
            if (!has_jumped) {
                position = at + 2;
                has_jumped = true;
            }
            at = static_cast<size_t>(length & ~kPointer) << 8 | message[at + 1];
            continue;
        }
        const size_t end = at + 1 + length;
        if (length > kMaxLabelBytes || end > message.size() ||
            name.size() + length + 1 > kMaxNameBytes) {
            return std::nullopt;
        }
        name.push_back(static_cast<char>(length));
        for (size_t i = at + 1; i < end; ++i) {
            name.push_back(static_cast<char>(lower(message[i])));
        }
        at = end;
        if (length == 0) {
            position = has_jumped ? position : at;
            return name;
        }
    }
    return std::nullopt;
}

struct Record {
    std::string owner;
    uint16_t type = 0;
    base::ByteView data;
    size_t data_at = 0;
};

std::optional<Record> read_record(base::ByteView message, size_t& position) {
    Record record;
    const auto owner = read_name(message, position);
    if (!owner || position > message.size()) {
        return std::nullopt;
    }
    record.owner = *owner;
    base::ByteReader reader(message.subspan(position));
    record.type = reader.u16();
    const uint16_t record_class = reader.u16();
    static_cast<void>(reader.u32());  // time to live
    const uint16_t length = reader.u16();
    record.data_at = message.size() - reader.remaining();
    record.data = reader.bytes(length);
    if (!reader.ok()) {
        return std::nullopt;
    }
    position = message.size() - reader.remaining();
    if (record_class != kClassIn) {
        record.type = 0;
    }
    return record;
}

// Addresses of `name`, through its aliases.
std::vector<base::IpAddress>
collect(const std::vector<Record>& records, base::ByteView message, std::string name, bool is_v4) {
    std::vector<base::IpAddress> addresses;
    for (size_t step = 0; step <= kMaxAliases && addresses.empty(); ++step) {
        const Record* alias = nullptr;
        for (const Record& record : records) {
            if (record.owner != name) {
                continue;
            }
            if (is_v4 && record.type == kTypeA && record.data.size() == 4) {
                addresses.push_back(base::IpAddress::v4(record.data));
            } else if (!is_v4 && record.type == kTypeAaaa && record.data.size() == 16) {
                addresses.push_back(base::IpAddress::v6(record.data));
            } else if (record.type == kTypeCname) {
                alias = &record;
            }
            if (addresses.size() >= kMaxDnsAddresses) {
                break;
            }
        }
        if (alias == nullptr) {
            break;
        }
        size_t at = alias->data_at;
        const auto target = read_name(message, at);
        if (!target) {
            break;
        }
        name = *target;
    }
    return addresses;
}

}  // namespace

std::vector<uint8_t> make_dns_query(std::string_view name, base::IpVersion version, uint16_t id) {
    std::vector<uint8_t> query(kHeaderBytes, 0);
    base::store_big_endian(query.data(), id);
    base::store_big_endian(&query[2], kRecursionDesired);
    query[5] = 1;  // one question
    if (!name.empty() && name.back() == '.') {
        name.remove_suffix(1);
    }
    while (!name.empty()) {
        const std::string_view label = name.substr(0, name.find('.'));
        if (label.empty() || label.size() > kMaxLabelBytes) {
            return {};
        }
        query.push_back(static_cast<uint8_t>(label.size()));
        query.insert(query.end(), label.begin(), label.end());
        name.remove_prefix(std::min(label.size() + 1, name.size()));
        if (name.empty()) {
            query.push_back(0);
        }
    }
    if (query.size() == kHeaderBytes || query.size() - kHeaderBytes > kMaxNameBytes) {
        return {};
    }
    const uint16_t type = version == base::IpVersion::V4 ? kTypeA : kTypeAaaa;
    for (const uint16_t value : {type, kClassIn}) {
        query.push_back(static_cast<uint8_t>(value >> 8));
        query.push_back(static_cast<uint8_t>(value));
    }
    return query;
}

base::Result<std::vector<base::IpAddress>> parse_dns_answer(base::ByteView answer,
                                                            base::ByteView query) {
    const Error malformed{Errc::Malformed, "DNS answer", 0};
    if (answer.size() < query.size() || query.size() < kHeaderBytes ||
        answer.size() > kMaxDnsAnswerBytes) {
        return malformed;
    }
    base::ByteReader header(answer.first(kHeaderBytes));
    const uint16_t id = header.u16();
    const uint16_t flags = header.u16();
    const uint16_t questions = header.u16();
    const uint16_t count = header.u16();
    size_t position = kHeaderBytes;
    size_t own_position = kHeaderBytes;
    const auto asked = read_name(query, own_position);
    const auto name = read_name(answer, position);
    const bool is_answer = id == base::load_big_endian<uint16_t>(query.data()) &&
                           (flags & (kIsAnswer | kOperationMask)) == kIsAnswer && questions == 1 &&
                           asked && name == asked && position + 4 <= answer.size() &&
                           own_position + 4 <= query.size() &&
                           std::equal(query.begin() + static_cast<ptrdiff_t>(own_position),
                                      query.begin() + static_cast<ptrdiff_t>(own_position + 4),
                                      answer.begin() + static_cast<ptrdiff_t>(position));
    if (!is_answer) {
        return malformed;
    }
    const uint16_t code = flags & kCodeMask;
    if (code == kNameUnknown) {
        return std::vector<base::IpAddress>();
    }
    if (code != 0) {
        return Error{Errc::NotFound, "name server", 0};
    }
    if ((flags & kIsTruncated) != 0) {
        return Error{Errc::Truncated, "DNS answer", 0};
    }
    const bool is_v4 = base::load_big_endian<uint16_t>(&answer[position]) == kTypeA;
    position += 4;
    std::vector<Record> records;
    for (uint16_t i = 0; i < count; ++i) {
        auto record = read_record(answer, position);
        if (!record) {
            return malformed;
        }
        records.push_back(std::move(*record));
    }
    return collect(records, answer, *asked, is_v4);
}

}  // namespace continuo::cnapt::names
