#include "common/netlink/pref64.hpp"

#include "common/base/bytes.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace continuo::netlink {

namespace {

using base::ByteView;
using base::IpAddress;
using base::IpPrefix;

// RFC 4861, section 4.6, and RFC 8781, section 4.
constexpr size_t kOptionUnitBytes = 8;
constexpr size_t kOptionHeaderBytes = 2;  // type, length
constexpr uint8_t kPref64Option = 38;
constexpr size_t kPref64Bytes = 2 * kOptionUnitBytes;
constexpr size_t kPrefixAt = 4;
constexpr size_t kToldPrefixBytes = 12;
constexpr unsigned kLengthCodeBits = 3;
constexpr uint16_t kLengthCodeMask = (1U << kLengthCodeBits) - 1;
constexpr int64_t kLifetimeUnitS = 8;
constexpr std::array<uint8_t, 6> kPref64Lengths = {96, 64, 56, 48, 40, 32};  // by code
constexpr uint8_t kRouterAdvertisement = 134;

// Bits after the prefix are ignored.
std::optional<Pref64> parse_pref64_option(ByteView option) {
    const auto scaled = base::load_big_endian<uint16_t>(option.data() + kOptionHeaderBytes);
    const size_t code = scaled & kLengthCodeMask;
    if (code >= kPref64Lengths.size()) {
        return std::nullopt;
    }
    const uint8_t length = kPref64Lengths[code];
    std::array<uint8_t, 16> octets{};
    std::copy_n(option.data() + kPrefixAt, std::min<size_t>(length / 8, kToldPrefixBytes),
                octets.begin());
    const IpAddress address = IpAddress::v6(octets);
    const bool is_group = octets[0] == 0xFF;
    if (is_group || address.is_link_local() || address.is_unspecified()) {
        return std::nullopt;
    }
    return Pref64{IpPrefix{address, length},
                  base::seconds((scaled >> kLengthCodeBits) * kLifetimeUnitS)};
}

}  // namespace

std::vector<Pref64> parse_pref64(ByteView options) {
    std::vector<Pref64> found;
    while (options.size() >= kOptionHeaderBytes && found.size() < kMaxPref64) {
        const size_t bytes = options[1] * kOptionUnitBytes;
        if (bytes == 0 || bytes > options.size()) {
            break;
        }
        if (options[0] == kPref64Option && bytes == kPref64Bytes) {
            if (const auto told = parse_pref64_option(options.first(bytes))) {
                found.push_back(*told);
            }
        }
        options = options.subspan(bytes);
    }
    return found;
}

std::optional<Pref64Notice> parse_pref64_notice(const NetlinkMessage& message) {
    nduseroptmsg info{};
    if (message.type != RTM_NEWNDUSEROPT || message.payload.size() < sizeof info) {
        return std::nullopt;
    }
    info = message.fixed<nduseroptmsg>();
    const ByteView rest = message.payload.subspan(sizeof info);
    if (info.nduseropt_family != AF_INET6 || info.nduseropt_icmp_type != kRouterAdvertisement ||
        info.nduseropt_ifindex <= 0 || info.nduseropt_opts_len > rest.size()) {
        return std::nullopt;
    }
    Pref64Notice notice{static_cast<uint32_t>(info.nduseropt_ifindex),
                        parse_pref64(rest.first(info.nduseropt_opts_len))};
    return notice.prefixes.empty() ? std::nullopt : std::optional(std::move(notice));
}

void Pref64Table::note(uint32_t interface_index, const Pref64& told, base::TimePoint now) {
    const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& entry) {
        return entry.interface_index == interface_index && entry.prefix == told.prefix;
    });
    if (told.lifetime == base::Duration{}) {
        if (known != known_.end()) {
            known_.erase(known);
        }
    } else if (known != known_.end()) {
        known->valid_until = now + told.lifetime;
        known->standing = std::min(known->standing, Pref64Standing::ToldAgain);
    } else if (known_.size() < kMaxPref64) {
        known_.push_back({interface_index, told.prefix, now + told.lifetime, Pref64Standing::Told});
    } else {
        ++left_out_;
    }
}

void Pref64Table::note(const Pref64Notice& notice, base::TimePoint now) {
    std::erase_if(known_, [&](const Known& entry) { return entry.valid_until <= now; });
    for (const Pref64& told : notice.prefixes) {
        note(notice.interface_index, told, now);
    }
}

void Pref64Table::follow(std::vector<uint32_t> connected) {
    const auto is_in = [](const std::vector<uint32_t>& list, uint32_t index) {
        return std::binary_search(list.begin(), list.end(), index);
    };
    std::erase_if(known_, [&](const Known& entry) {
        return is_in(connected_, entry.interface_index) && !is_in(connected, entry.interface_index);
    });
    connected_ = std::move(connected);
}

std::optional<KnownPref64> Pref64Table::best(uint32_t interface_index, base::TimePoint now) const {
    std::optional<KnownPref64> found;
    for (const Known& entry : known_) {
        const bool is_valid = entry.interface_index == interface_index && now < entry.valid_until;
        if (is_valid && (!found || entry.standing < found->standing)) {
            found = KnownPref64{entry.prefix, entry.standing};
        }
    }
    return found;
}

void Pref64Table::set_standing(const IpPrefix& prefix, Pref64Standing standing) {
    for (Known& entry : known_) {
        if (entry.prefix == prefix) {
            entry.standing = standing;
        }
    }
}

void Pref64Table::doubt(const IpPrefix& prefix) {
    set_standing(prefix, Pref64Standing::Doubted);
    std::stable_partition(known_.begin(), known_.end(),
                          [&](const Known& entry) { return entry.prefix != prefix; });
}

void Pref64Table::reconsider(const IpPrefix& prefix) {
    set_standing(prefix, Pref64Standing::ToldAgain);
}

void Pref64Table::prove(const IpPrefix& prefix) {
    set_standing(prefix, Pref64Standing::Told);
}

}  // namespace continuo::netlink
