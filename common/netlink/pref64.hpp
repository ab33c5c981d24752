// PREF64 (RFC 8781): the NAT64 prefixes in router advertisements, as the kernel passes them on
// (RTM_NEWNDUSEROPT, linux/rtnetlink.h). The kernel only passes on advertisements that it processes
// itself, not those left to a program (accept_ra = 0). Pure.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/time.hpp"
#include "common/netlink/netlink.hpp"

#include <optional>
#include <span>
#include <vector>

namespace continuo::netlink {

// Most prefixes of all interfaces together; further ones are left out (counted). A choice: a
// network has one. RFC 8781, section 5.
inline constexpr size_t kMaxPref64 = 16;

struct Pref64 {
    base::IpPrefix prefix;      // 96, 64, 56, 48, 40 or 32 bits long
    base::Duration lifetime{};  // in steps of 8 s; 0: withdrawn

    bool operator==(const Pref64&) const = default;
};

// A sequence of neighbour discovery options (RFC 4861, section 4.6). Skips other options, and those
// that RFC 8781 says to ignore; stops at a truncated one. At most kMaxPref64.
std::vector<Pref64> parse_pref64(base::ByteView options);

struct Pref64Notice {
    uint32_t interface_index = 0;
    std::vector<Pref64> prefixes;
};
// Empty when the message is of another kind or has no prefix.
std::optional<Pref64Notice> parse_pref64_notice(const NetlinkMessage& message);

// The opinion of a prefix: the better first.
enum class Pref64Standing : uint8_t {
    Told,       // or proven
    ToldAgain,  // since it was doubted; or what came in its place has led nowhere either
    Doubted,    // it has led nowhere
};

struct KnownPref64 {
    base::IpPrefix prefix;
    Pref64Standing standing = Pref64Standing::Told;

    bool operator==(const KnownPref64&) const = default;
};

// The prefixes that are valid. A router may go without a word, and leave one behind that nobody
// serves until its lifetime ends: who finds that doubts it.
class Pref64Table {
  public:
    void note(const Pref64Notice& notice, base::TimePoint now);
    // Sets the interfaces that are in a network, sorted. Prefixes of one that has left it are
    // forgotten. One that never was is left alone: a router may be heard before the interface has
    // its address.
    void follow(std::vector<uint32_t> connected);
    // The one of the best standing; of several the one that has had it for longest.
    std::optional<KnownPref64> best(uint32_t interface_index, base::TimePoint now) const;
    // Each applies to the prefix on all interfaces. One that is doubted comes after those that were
    // before.
    void doubt(const base::IpPrefix& prefix);
    void reconsider(const base::IpPrefix& prefix);
    void prove(const base::IpPrefix& prefix);
    uint64_t left_out() const { return left_out_; }

  private:
    struct Known {
        uint32_t interface_index = 0;
        base::IpPrefix prefix;
        base::TimePoint valid_until{};
        Pref64Standing standing = Pref64Standing::Told;
    };
    void note(uint32_t interface_index, const Pref64& told, base::TimePoint now);

    void set_standing(const base::IpPrefix& prefix, Pref64Standing standing);

    std::vector<Known> known_;  // within a standing the oldest first
    std::vector<uint32_t> connected_;
    uint64_t left_out_ = 0;
};

}  // namespace continuo::netlink
