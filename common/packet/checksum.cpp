#include "common/packet/checksum.hpp"

#include <cstring>

namespace continuo::packet {
namespace {

template <std::unsigned_integral T>
uint64_t load_native(const uint8_t* from) {
    T value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// Ones' complement addition: the carry goes round. Zero only when both are zero.
void add_with_carry(uint64_t& sum, uint64_t value) {
    sum += value;
    sum += sum < value ? 1U : 0U;
}

// The byte order does not matter to a ones' complement sum (RFC 1071 section 2 B): the sum is made
// in native order, and its two bytes are swapped once.
static_assert(std::endian::native == std::endian::little);

}  // namespace

uint64_t sum_words(base::ByteView bytes, uint64_t initial) {
    constexpr size_t kStrideBytes = 32;
    const uint8_t* at = bytes.data();
    size_t left = bytes.size();
    // Four sums, so that the carries do not wait for each other.
    uint64_t sum = 0;
    uint64_t second = 0;
    uint64_t third = 0;
    uint64_t fourth = 0;
    while (left >= kStrideBytes) {
        add_with_carry(sum, load_native<uint64_t>(at));
        add_with_carry(second, load_native<uint64_t>(at + 8));
        add_with_carry(third, load_native<uint64_t>(at + 16));
        add_with_carry(fourth, load_native<uint64_t>(at + 24));
        at += kStrideBytes;
        left -= kStrideBytes;
    }
    add_with_carry(sum, second);
    add_with_carry(third, fourth);
    add_with_carry(sum, third);
    while (left >= sizeof(uint64_t)) {
        add_with_carry(sum, load_native<uint64_t>(at));
        at += sizeof(uint64_t);
        left -= sizeof(uint64_t);
    }
    if ((left & 4U) != 0) {
        add_with_carry(sum, load_native<uint32_t>(at));
        at += sizeof(uint32_t);
    }
    if ((left & 2U) != 0) {
        add_with_carry(sum, load_native<uint16_t>(at));
        at += sizeof(uint16_t);
    }
    if ((left & 1U) != 0) {
        add_with_carry(sum, *at);  // the low half in native order: padded with a zero byte
    }
    return initial + __builtin_bswap16(fold(sum));
}

uint16_t fold(uint64_t sum) {
    sum = (sum >> 32) + (sum & 0xFFFFFFFFU);
    sum = (sum >> 16) + (sum & 0xFFFFU);
    sum = (sum >> 16) + (sum & 0xFFFFU);
    sum = (sum >> 16) + (sum & 0xFFFFU);
    return static_cast<uint16_t>(sum);
}

uint64_t pseudo_header_sum(const base::IpAddress& source,
                           const base::IpAddress& destination,
                           uint8_t protocol,
                           size_t transport_bytes) {
    const uint64_t addresses = sum_words(destination.bytes(), sum_words(source.bytes()));
    return addresses + protocol + (transport_bytes >> 16) + (transport_bytes & 0xFFFFU);
}

uint16_t update_checksum(uint16_t field, base::ByteView from, base::ByteView to) {
    CTN_ASSERT(from.size() == to.size() && from.size() % 2 == 0);
    const uint64_t without = static_cast<uint16_t>(~fold(sum_words(from)));
    const uint64_t sum = static_cast<uint64_t>(static_cast<uint16_t>(~field)) + without;
    return static_cast<uint16_t>(~fold(sum_words(to, sum)));
}

}  // namespace continuo::packet
