#include "common/control/handshake_limiter.hpp"

#include "common/control/control_link.hpp"

#include <algorithm>

namespace continuo::control {

namespace {

constexpr size_t kIpv6PrefixBytes = 8;

base::IpAddress prefix_of(base::IpAddress address) {
    if (!address.is_v4()) {
        std::fill(address.octets.begin() + kIpv6PrefixBytes, address.octets.end(), uint8_t{0});
    }
    return address;
}

}  // namespace

std::optional<HandshakeLimiter::Admitted> HandshakeLimiter::begin(const base::IpAddress& from,
                                                                  base::TimePoint now) {
    const base::IpAddress prefix = prefix_of(from);
    Slot* free_slot = nullptr;
    Slot* oldest = slots_.data();
    size_t of_prefix = 0;
    for (Slot& slot : slots_) {
        if (slot.ticket != 0 && slot.expires_at <= now) {
            slot.ticket = 0;
            --used_;
        }
        if (slot.ticket == 0) {
            free_slot = &slot;
        } else {
            of_prefix += slot.prefix == prefix ? 1U : 0U;
            oldest = slot.ticket < oldest->ticket ? &slot : oldest;
        }
    }
    if (of_prefix >= kMaxUnfinishedPerPrefix) {
        ++refused_;
        return std::nullopt;
    }
    Admitted admitted{++last_ticket_, 0};
    if (free_slot == nullptr) {
        admitted.displaced = oldest->ticket;
        free_slot = oldest;
    } else {
        ++used_;
    }
    *free_slot = {admitted.ticket, prefix, now + kHandshakeTimeout};
    return admitted;
}

void HandshakeLimiter::end(Ticket ticket) {
    const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                   [ticket](const Slot& s) { return s.ticket == ticket; });
    if (ticket != 0 && slot != slots_.end()) {
        slot->ticket = 0;
        --used_;
    }
}

}  // namespace continuo::control
