// SnaptAddresses: where a SNAPT is reached: by one address of each IP version at most, since an
// uplink has an address of one version. A value.
#pragma once

#include "common/base/ip_address.hpp"

#include <array>

namespace continuo::cnapt::uplinks {

struct SnaptAddresses {
    SnaptAddresses() = default;
    explicit SnaptAddresses(const base::Endpoint& only) : in_use(only.address.version) {
        of(in_use) = only;
    }

    // Port 0: there is none.
    const base::Endpoint& of(base::IpVersion version) const {
        return version == base::IpVersion::V4 ? v4 : v6;
    }
    base::Endpoint& of(base::IpVersion version) { return version == base::IpVersion::V4 ? v4 : v6; }
    bool has(base::IpVersion version) const { return of(version).port != 0; }
    const base::Endpoint& current() const { return of(in_use); }

    base::Endpoint v4;
    base::Endpoint v6;
    // The version of the active path. An interface that has both keeps it.
    base::IpVersion in_use = base::IpVersion::V4;
};

inline constexpr std::array kBothVersions = {base::IpVersion::V4, base::IpVersion::V6};

}  // namespace continuo::cnapt::uplinks
