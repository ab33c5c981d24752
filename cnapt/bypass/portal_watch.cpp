#include "cnapt/bypass/portal_watch.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::bypass {

using base::TimePoint;
using control::PortalVerdict;

void PortalWatch::on_network_changed(TimePoint now) {
    for (Slot& slot : slots_) {
        if (!slot.is_known) {
            continue;
        }
        slot.interval = {};
        if (slot.is_captive) {
            slot.ask_at = std::max(now, slot.asked_at + kFirstPortalInterval);
        } else if (!slot.works && slot.is_needed) {
            slot.ask_at = std::max(now + kPortalGrace, slot.asked_at + kFirstTroubleInterval);
        }
    }
}

void PortalWatch::observe(uint8_t slot, const UplinkHealth& health, TimePoint now) {
    Slot& state = slots_[slot];
    if (!health.is_there) {
        state = {};
        return;
    }
    const bool is_new = !std::exchange(state.is_known, true);
    const bool did_work = std::exchange(state.works, health.works);
    const bool was_needed = std::exchange(state.is_needed, health.is_needed);
    if (state.is_captive) {  // the nonce alone tells
        if (health.works && !did_work) {
            state.ask_at = now;
        }
        return;
    }
    if (health.works) {
        state.ask_at = base::kNever;
        state.interval = {};
    } else if (is_new || did_work || (health.is_needed && !was_needed)) {
        state.ask_at = std::min(state.ask_at, now + kPortalGrace);
    }
}

std::optional<uint8_t> PortalWatch::next(TimePoint now) {
    const auto is_waited_for = [](const Slot& slot) { return slot.is_asked; };
    if (std::any_of(slots_.begin(), slots_.end(), is_waited_for)) {
        return std::nullopt;
    }
    Slot* first = nullptr;
    for (Slot& slot : slots_) {
        if (slot.is_captive && now < hurry_until_) {
            slot.ask_at = std::min(slot.ask_at, now + kLoginInterval);
        }
        if (slot.ask_at <= now && (first == nullptr || slot.ask_at < first->ask_at)) {
            first = &slot;
        }
    }
    if (first == nullptr) {
        return std::nullopt;
    }
    first->is_asked = true;
    first->asked_at = now;
    first->ask_at = base::kNever;
    return static_cast<uint8_t>(first - slots_.data());
}

void PortalWatch::plan_next(Slot& slot, TimePoint now) const {
    const base::Duration least = slot.is_captive ? kFirstPortalInterval : kFirstTroubleInterval;
    slot.interval = std::clamp<base::Duration>(2 * slot.interval, least, kLongestPortalInterval);
    slot.ask_at = now + (slot.is_captive && now < hurry_until_ ? kLoginInterval : slot.interval);
}

bool PortalWatch::on_answer(uint8_t slot_number,
                            const control::PortalAnswer& answer,
                            TimePoint now) {
    Slot& slot = slots_[slot_number];
    if (!std::exchange(slot.is_asked, false) || !slot.is_known) {
        return false;
    }
    const bool was_captive = slot.is_captive;
    std::string url = slot.url;
    if (answer.verdict == PortalVerdict::Portal) {
        slot.is_captive = true;
        url = answer.url;
    } else if (answer.verdict != PortalVerdict::None) {
        slot.is_captive = false;
        url.clear();
    }
    if (was_captive != slot.is_captive) {
        slot.interval = {};
    }
    // An uplink that nobody needs is not asked again: an idle node stays silent.
    if (slot.is_captive || (slot.is_needed && !slot.works)) {
        plan_next(slot, now);
    }
    return std::exchange(slot.url, url) != url || was_captive != slot.is_captive;
}

}  // namespace continuo::cnapt::bypass
