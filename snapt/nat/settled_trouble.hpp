// SettledTrouble: faults that block packets of nodes, without short ones, such as a firewall being
// reloaded: a fault is reported to nodes, which then move new flows elsewhere. Pure.
#pragma once

#include "common/control/message.hpp"

#include <string>
#include <vector>

namespace continuo::snapt::nat {

// Consecutive checks, one a second, after which a fault counts, and after which it is over.
inline constexpr unsigned kLooksToBegin = 2;
inline constexpr unsigned kLooksToEnd = 3;

class SettledTrouble {
  public:
    // Takes the result of a check; empty: no fault. True when a fault begins or ends with it.
    bool note(const std::string& found) {
        const bool has_found = !found.empty();
        if (has_found == !text_.empty()) {
            looks_ = 0;
            text_ = found;  // the latest wording
            return false;
        }
        if (++looks_ < (has_found ? kLooksToBegin : kLooksToEnd)) {
            return false;
        }
        looks_ = 0;
        text_ = found;
        return true;
    }
    // At the start: the first check counts.
    void begin(const std::string& found) { text_ = found; }
    // Empty: there is none.
    const std::string& text() const { return text_; }

  private:
    std::string text_;
    unsigned looks_ = 0;  // consecutive, for the opposite state
};

// Result of a check.
struct ForwardingTroubles {
    std::string all;  // why packets of nodes do not pass
    // Why those of that version have no way out of this host.
    std::string no_way_out4{};
    std::string no_way_out6{};
    std::vector<base::IpVersion> carried{};  // versions that leases have
    bool had_ipv6 = true;                    // a way out for it, since the start

    std::string& of(base::IpVersion version) {
        return version == base::IpVersion::V4 ? no_way_out4 : no_way_out6;
    }
};

class SettledForwarding {
  public:
    // As for SettledTrouble, for each of the troubles by itself.
    bool note(const ForwardingTroubles& found) {
        take(found);
        const bool all = all_.note(found.all);
        const bool four = four_.note(found.no_way_out4);
        const bool six = six_.note(found.no_way_out6);
        return all || four || six;
    }
    void begin(const ForwardingTroubles& found) {
        take(found);
        all_.begin(found.all);
        four_.begin(found.no_way_out4);
        six_.begin(found.no_way_out6);
    }
    control::VersionSet no_way_out() const { return {!four_.text().empty(), !six_.text().empty()}; }
    // Packets of one version at least pass.
    bool forwards() const {
        bool has_way = carried_.empty();
        for (const base::IpVersion version : carried_) {
            has_way = has_way || !no_way_out().has(version);
        }
        return all_.text().empty() && has_way;
    }
    // An operator has to act. Many hosts have no IPv6, and leases have it by default.
    bool is_serious() const {
        return !forwards() || no_way_out().ipv4 || (no_way_out().ipv6 && had_ipv6_);
    }
    // Empty: there is no trouble.
    std::string text() const {
        std::string text = all_.text();
        const auto add = [&text](const char* version, const std::string& why) {
            if (!why.empty()) {
                text += (text.empty() ? "no way out for " : "; no way out for ") +
                        std::string(version) + ": " + why;
            }
        };
        add("IPv4", four_.text());
        add("IPv6", six_.text());
        return text;
    }

  private:
    void take(const ForwardingTroubles& found) {
        carried_ = found.carried;
        had_ipv6_ = found.had_ipv6;
    }

    SettledTrouble all_;
    SettledTrouble four_;
    SettledTrouble six_;
    std::vector<base::IpVersion> carried_;
    bool had_ipv6_ = true;
};

}  // namespace continuo::snapt::nat
