// Kernel settings under /proc/sys that apply while a daemon runs. Their former values are kept in a
// file, so that the next start restores them after kill -9.
#pragma once

#include "common/base/result.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::host {

struct SysctlSetting {
    // Path under /proc/sys, e.g. "net/ipv4/ip_forward" (slashes: interface names contain dots).
    std::string key;
    std::string value;
    bool at_least = false;  // a number; a higher one stays
    bool optional = false;  // a missing key is no error (module not loaded)

    bool operator==(const SysctlSetting&) const = default;
};

// Errors: NotFound, System.
base::Result<std::string> read_sysctl(std::string_view key);
base::Result<void> write_sysctl(std::string_view key, std::string_view value);

// The setting that switches IPv6 off on this host, as "net.ipv6.conf.all.disable_ipv6 = 1"; empty:
// some interface other than the loopback and `own_device` has it.
std::string ipv6_switched_off(std::string_view own_device);
// Switches IPv6 of one interface on or off, whatever the default for new ones. Errors: NotFound (no
// such interface), System.
base::Result<void> switch_ipv6(std::string_view device, bool is_on);
// "all": it is not switched off globally.
bool has_ipv6(std::string_view device);

// The interfaces that have parameters of IPv4, without the loopback, "all" and "default".
std::vector<std::string> ipv4_interfaces();

// Interfaces on which the kernel takes router advertisements only while not forwarding (accept_ra
// 1): switching IPv6 forwarding on would cost them their addresses.
std::vector<std::string> interfaces_with_router_advertisements();

class SysctlGuard {
  public:
    // `record_path`: where former values are kept. Restores what an earlier run left there.
    static base::Result<SysctlGuard> open(std::string record_path);
    SysctlGuard(SysctlGuard&&) noexcept = default;
    SysctlGuard& operator=(SysctlGuard&&) noexcept = default;
    SysctlGuard(const SysctlGuard&) = delete;
    SysctlGuard& operator=(const SysctlGuard&) = delete;

    // Records the key's present value as the one to restore, unless one is recorded already.
    void remember(std::string_view key);
    // Records the former value on disk, then writes. Values that others write in between do not
    // become the former value.
    base::Result<void> set(const SysctlSetting& setting);
    // Restores former values, last first, where the current one is still ours; removes the record.
    // Not done by the destructor.
    base::Result<void> restore();

  private:
    struct Change {
        std::string key;
        std::string before;
        std::string ours;
    };
    explicit SysctlGuard(std::string record_path) : record_path_(std::move(record_path)) {}
    base::Result<void> load();
    base::Result<void> save() const;

    std::string record_path_;
    std::vector<Change> changes_;
    std::map<std::string, std::string, std::less<>> former_;  // values of the remembered keys
};

}  // namespace continuo::host
