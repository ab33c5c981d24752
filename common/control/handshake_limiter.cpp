#include "common/control/handshake_limiter.hpp"

#include "common/control/control_link.hpp"

#include <algorithm>

namespace continuo::control {

namespace {

constexpr size_t kIpv4Bytes = 4;
constexpr size_t kIpv6PrefixBytes = 8;
constexpr size_t kIpv4NetworkBytes = 3;
constexpr size_t kIpv6NetworkBytes = 6;

base::IpAddress first_bytes(base::IpAddress address, size_t of_ipv4, size_t of_ipv6) {
    std::fill(address.octets.begin() + (address.is_v4() ? of_ipv4 : of_ipv6), address.octets.end(),
              uint8_t{0});
    return address;
}

}  // namespace

std::optional<HandshakeLimiter::Admitted> HandshakeLimiter::begin(const base::IpAddress& from,
                                                                  base::TimePoint now) {
    const base::IpAddress prefix = first_bytes(from, kIpv4Bytes, kIpv6PrefixBytes);
    Slot* free_slot = nullptr;
    size_t of_prefix = 0;
    for (Slot& slot : slots_) {
        if (slot.ticket != 0 && slot.expires_at <= now) {
            release(slot);
        }
        if (slot.ticket == 0) {
            free_slot = &slot;
        } else {
            of_prefix += slot.prefix == prefix ? 1U : 0U;
        }
    }
    if (of_prefix >= kMaxUnfinishedPerPrefix) {
        ++refused_;
        return std::nullopt;
    }
    Admitted admitted{++last_ticket_, 0};
    if (free_slot == nullptr) {
        free_slot = &draw();
        admitted.displaced = free_slot->ticket;
        release(*free_slot);
    }
    *free_slot = {admitted.ticket, prefix, first_bytes(from, kIpv4NetworkBytes, kIpv6NetworkBytes),
                  0, now + kHandshakeTimeout};
    occupy(*free_slot);
    return admitted;
}

void HandshakeLimiter::occupy(Slot& slot) {
    for (Slot& other : slots_) {
        if (other.ticket != 0 && &other != &slot && other.network == slot.network) {
            slot.of_network = ++other.of_network;
        }
    }
    slot.of_network = std::max<size_t>(slot.of_network, 1);
    ++used_;
}

void HandshakeLimiter::release(Slot& slot) {
    slot.ticket = 0;
    for (Slot& other : slots_) {
        if (other.ticket != 0 && other.network == slot.network) {
            --other.of_network;
        }
    }
    --used_;
}

HandshakeLimiter::Slot& HandshakeLimiter::draw() {
    size_t most = 0;
    for (const Slot& slot : slots_) {
        most = std::max(most, slot.of_network);
    }
    const size_t least = most >= kCrowd ? most : 1;
    const auto is_candidate = [least](const Slot& slot) { return slot.of_network >= least; };
    auto remaining = random_.below(
        static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), is_candidate)));
    return *std::find_if(slots_.begin(), slots_.end(),
                         [&](const Slot& slot) { return is_candidate(slot) && remaining-- == 0; });
}

void HandshakeLimiter::end(Ticket ticket) {
    const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                   [ticket](const Slot& s) { return s.ticket == ticket; });
    if (ticket != 0 && slot != slots_.end()) {
        release(*slot);
    }
}

}  // namespace continuo::control
