// PortalWatch: which uplink to check for a captive portal, and when (docs/PROTOCOL.md section 4.9).
// An uplink is checked when it has not worked for a few seconds: when it is new, and again when it
// stops. One behind a portal is checked until the SNAPT answers; one that is needed and does not
// work is checked repeatedly, since a portal may come later. Pure; one state per slot of Uplinks.
#pragma once

#include "common/base/time.hpp"
#include "common/control/portal_check.hpp"
#include "common/wire/constants.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace continuo::cnapt::bypass {

// Time that an uplink is given to work.
inline constexpr base::Duration kPortalGrace = base::seconds(3);
// Interval behind a portal; doubles.
inline constexpr base::Duration kFirstPortalInterval = base::seconds(2);
inline constexpr base::Duration kLongestPortalInterval = base::seconds(300);
// Interval without a portal.
inline constexpr base::Duration kFirstTroubleInterval = base::seconds(10);
// Interval while somebody logs in.
inline constexpr base::Duration kLoginInterval = base::seconds(2);

struct UplinkHealth {
    bool is_there = false;
    bool works = false;      // a SNAPT answers over it
    bool is_needed = false;  // data goes over it, or should
};

class PortalWatch {
  public:
    static constexpr size_t kSlots = wire::kTcpPath;

    // The network may have changed. Portals are checked at once.
    void on_network_changed(base::TimePoint now);
    void remove(uint8_t slot) { slots_[slot] = {}; }
    // Reports the state of the uplink; call about once a second.
    void observe(uint8_t slot, const UplinkHealth& health, base::TimePoint now);
    // The next slot to check, one at a time; it then waits for on_answer().
    std::optional<uint8_t> next(base::TimePoint now);
    // True when is_captive() or url() changed. Has no effect for an uplink that is gone.
    bool on_answer(uint8_t slot_number, const control::PortalAnswer& answer, base::TimePoint now);
    // Somebody logs in: check often until then.
    void hurry(base::TimePoint until) { hurry_until_ = until; }

    bool is_captive(uint8_t slot) const { return slots_[slot].is_captive; }
    const std::string& url(uint8_t slot) const { return slots_[slot].url; }

  private:
    struct Slot {
        bool is_known = false;
        bool works = false;
        bool is_needed = false;
        bool is_captive = false;
        bool is_asked = false;  // the answer is awaited
        base::TimePoint ask_at = base::kNever;
        base::TimePoint asked_at{};
        base::Duration interval{};
        std::string url;
    };
    void plan_next(Slot& slot, base::TimePoint now) const;

    std::array<Slot, kSlots> slots_;
    base::TimePoint hurry_until_{};
};

}  // namespace continuo::cnapt::bypass
