// Checks of the host that both programs' `doctor` make: rights, TUN, nftables, kernel, clock, IPv6,
// disk, connection tracking.
#pragma once

#include "common/report/findings.hpp"
#include "common/report/json_value.hpp"

#include <cstdint>
#include <string>

namespace continuo::daemon {

// `process`: from the daemon's status, null without a daemon: then the rights of this process.
// `user`: the one that the daemon becomes.
void check_rights(const report::JsonValue& process,
                  const std::string& user,
                  report::Findings& findings);
void check_tun(report::Findings& findings);
void check_nftables(report::Findings& findings);
void check_kernel(report::Findings& findings);
// `counts`: records depend on it.
void check_clock(bool counts, report::Findings& findings);
// IPv6 in the configuration: whether it is wanted, and the setting that switches it off.
struct Ipv6Wish {
    bool is_wanted = true;
    std::string device;
    std::string switch_off;  // "capture.ipv6 = false"
};
void check_ipv6(const Ipv6Wish& wish, report::Findings& findings);
// Checks the file system that holds `path`, or will hold it. Free space below `least_bytes` is a
// warning.
void check_disk(const std::string& path, uint64_t least_bytes, report::Findings& findings);
void check_conntrack(report::Findings& findings);

}  // namespace continuo::daemon
