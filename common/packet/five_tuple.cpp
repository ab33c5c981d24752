#include "common/packet/five_tuple.hpp"

namespace continuo::packet {
namespace {

uint64_t load(const uint8_t* from) {
    uint64_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// One step of multiply and fold: every input bit reaches both halves of the product.
uint64_t mix(uint64_t state, uint64_t value) {
    state = (state ^ value) * 0x9E3779B97F4A7C15U;
    return state ^ (state >> 29);
}

}  // namespace

size_t hash_value(const FiveTuple& tuple) {
    const uint64_t ports = static_cast<uint64_t>(tuple.local_port) << 32 |
                           static_cast<uint64_t>(tuple.remote_port) << 16 |
                           static_cast<uint64_t>(tuple.local.version) << 8 |
                           static_cast<uint64_t>(tuple.protocol);
    uint64_t state = mix(0xD6E8FEB86659FD93U, ports);
    state = mix(state, load(tuple.local.octets.data()));
    state = mix(state, load(tuple.remote.octets.data()));
    if (!tuple.local.is_v4()) {
        state = mix(state, load(tuple.local.octets.data() + 8));
        state = mix(state, load(tuple.remote.octets.data() + 8));
    }
    return mix(state, state >> 32);
}

}  // namespace continuo::packet
