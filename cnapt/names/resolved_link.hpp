// ResolvedLink: configures systemd-resolved by its program `resolvectl`, so that all names are
// asked for through the tunnel's device. The settings vanish with the device. Blocking; one thread.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::names {

// Longest wait for resolvectl. A choice, not measured.
inline constexpr std::chrono::seconds kResolvectlTimeout{5};

// A link's domains, as resolvectl writes them: "~." (all names), "~corp.example", "lan".
struct ResolvedDomains {
    std::string link;
    std::vector<std::string> domains;
};

struct ResolvedPlaces {
    std::string program = "/usr/bin/resolvectl";
    std::string runtime = "/run/systemd/resolve";  // there while it runs
};

class ResolvedLink {
  public:
    explicit ResolvedLink(std::string device, ResolvedPlaces places = {})
        : device_(std::move(device)), places_(std::move(places)) {}

    // resolved runs here and can be configured.
    bool is_there() const;
    // Sets servers of the device for all domains, before those of other links; without DNS over TLS
    // and DNSSEC, whatever is set globally: the servers may not support them. Errors: System,
    // InvalidState (resolvectl refused, or took longer than kResolvectlTimeout).
    base::Result<void> set(const std::vector<base::IpAddress>& servers) const;
    // Whether the device still has the settings of set(). Errors: as set().
    base::Result<bool> is_set(const std::vector<base::IpAddress>& servers) const;
    base::Result<void> revert() const;
    // The domains of each link of the host. Errors: as set().
    base::Result<std::vector<ResolvedDomains>> domains() const;

    // The setting of all links: of "dnsovertls" or "dnssec", "yes" for instance. Errors: as set().
    base::Result<std::string> global(const std::string& setting) const;

  private:
    base::Result<std::string> run(const std::vector<std::string>& arguments) const;

    std::string device_;
    ResolvedPlaces places_;
};

// Whether `resolvectl status LINK` shows the settings of ResolvedLink::set(). Pure. Lines that a
// version does not print prove nothing.
bool shows_resolved_link(std::string_view status, const std::vector<base::IpAddress>& servers);

// The first word of the line "Global: yes" in such an output; empty: there is none. Pure.
std::string parse_resolved_global(std::string_view output);

// The links in the output of `resolvectl domain`, those without a domain left out. Pure.
std::vector<ResolvedDomains> parse_resolved_domains(std::string_view output);

}  // namespace continuo::cnapt::names
