#include "common/reception/reassembly.hpp"

#include "common/base/assert.hpp"
#include "common/wire/constants.hpp"
#include "common/wire/limits.hpp"

#include <algorithm>
#include <bit>

namespace continuo::reception {

using base::DropReason;

std::optional<Reassembly::Whole> Reassembly::add(base::TrafficClass traffic_class,
                                                 const wire::Fragment& fragment,
                                                 uint32_t outer_bytes,
                                                 base::TimePoint now) {
    if (fragment.index >= kMaxPieces) {
        drops_.add(DropReason::ReassemblyLimit);
        return std::nullopt;
    }
    Partial& partial = find_or_start(traffic_class, fragment.id, now);
    const uint64_t bit = uint64_t{1} << fragment.index;
    if ((partial.have & bit) == 0) {
        partial.have |= bit;
        partial.pieces[fragment.index].assign(fragment.piece.begin(), fragment.piece.end());
        partial.bytes += fragment.piece.size();
        bytes_ += fragment.piece.size();
        partial.outer_bytes += outer_bytes;
    }
    if (fragment.last) {
        partial.last_index = fragment.index;
    }
    if (partial.bytes > wire::kDefaultSectionOutputBytes || bytes_ > wire::kMaxReassemblyBytes) {
        drop(partial, DropReason::ReassemblyLimit);
        return std::nullopt;
    }
    if (!partial.last_index) {
        return std::nullopt;
    }
    const uint64_t all = ~uint64_t{0} >> (63 - *partial.last_index);
    if (partial.have != all) {
        return std::nullopt;
    }
    whole_.clear();
    for (size_t i = 0; i <= *partial.last_index; ++i) {
        whole_.insert(whole_.end(), partial.pieces[i].begin(), partial.pieces[i].end());
    }
    bytes_ -= partial.bytes;
    const uint32_t outer = partial.outer_bytes;
    reset(partial);
    return Whole{whole_, outer};
}

Reassembly::Partial&
Reassembly::find_or_start(base::TrafficClass traffic_class, uint16_t id, base::TimePoint now) {
    Partial* free = nullptr;
    Partial* oldest = nullptr;
    for (auto& place : partials_) {
        if (place == nullptr) {
            if (free == nullptr) {
                place = std::make_unique<Partial>();
                free = place.get();
            }
            break;
        }
        if (place->in_use && now - place->started_at > wire::kReassemblyTimeout) {
            drop(*place, DropReason::ReassemblyTimeout);
        }
        if (!place->in_use) {
            free = free == nullptr ? place.get() : free;
            continue;
        }
        if (place->traffic_class == traffic_class && place->id == id) {
            return *place;
        }
        if (oldest == nullptr || place->started_at < oldest->started_at) {
            oldest = place.get();
        }
    }
    if (free == nullptr) {
        CTN_ASSERT(oldest != nullptr);  // no place is free
        drop(*oldest, DropReason::ReassemblyLimit);
        free = oldest;
    }
    free->in_use = true;
    free->traffic_class = traffic_class;
    free->id = id;
    free->started_at = now;
    return *free;
}

void Reassembly::drop(Partial& partial, DropReason reason) {
    drops_.add(reason);
    bytes_ -= partial.bytes;
    reset(partial);
}

void Reassembly::reset(Partial& partial) {
    // Frees the memory as well: it counts against the limit only while in use.
    for (uint64_t left = partial.have; left != 0; left &= left - 1) {
        partial.pieces[static_cast<size_t>(std::countr_zero(left))] = {};
    }
    partial.in_use = false;
    partial.have = 0;
    partial.bytes = 0;
    partial.outer_bytes = 0;
    partial.last_index.reset();
}

}  // namespace continuo::reception
