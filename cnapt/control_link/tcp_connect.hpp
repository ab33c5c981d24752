// TCP connections of a node to a SNAPT: where and how they start.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <optional>
#include <string>
#include <vector>

namespace continuo::cnapt::control_link {

// Where connections start: bound to the source address and, unless another card is in the same
// network and may get the answers, to the device. TCP has no IP_UNICAST_IF: without the device it
// leaves by the better of the two.
struct ControlUplink {
    std::string device;
    base::IpAddress source;
    bool is_bound = true;
    bool operator==(const ControlUplink&) const = default;
};

// One for each IP version with a way out. Addresses of the other version are tried only when there
// are no others, and then as the kernel routes.
struct ControlUplinks {
    std::optional<ControlUplink> v4;
    std::optional<ControlUplink> v6;
    std::optional<base::IpVersion> preferred = std::nullopt;  // that of the data
    // While no data flows: further uplinks, best first. All ways are tried side by side.
    bool is_race = false;
    std::vector<ControlUplink> others = {};
    const std::optional<ControlUplink>& of(base::IpVersion version) const {
        return version == base::IpVersion::V4 ? v4 : v6;
    }
    std::optional<ControlUplink>& of(base::IpVersion version) {
        return version == base::IpVersion::V4 ? v4 : v6;
    }
    bool operator==(const ControlUplinks&) const = default;
};

// A socket that connects; not yet connected when it is returned. `fwmark` 0: none. Errors: System.
base::Result<io::UniqueFd>
begin_connect(const base::Endpoint& to, const std::optional<ControlUplink>& from, uint32_t fwmark);

}  // namespace continuo::cnapt::control_link
