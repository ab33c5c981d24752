#include "common/daemon/host_links.hpp"

#include "common/daemon/startup.hpp"
#include "common/netlink/netlink_route.hpp"

#include <algorithm>

namespace continuo::daemon {
namespace {

// Interfaces that one line names. A choice, not measured.
constexpr size_t kMaxNamed = 8;

std::string names_of(const std::vector<netlink::LinkEntry>& links) {
    std::string text;
    size_t count = 0;
    for (const netlink::LinkEntry& link : links) {
        if (!link.is_loopback && ++count <= kMaxNamed) {
            text += (text.empty() ? "" : ", ") + link.name;
        }
    }
    return count > kMaxNamed ? text + ", ..." : text;
}

}  // namespace

void check_links(std::string_view prefix,
                 std::span<const std::string> names,
                 std::string_view key,
                 report::Findings& findings) {
    auto routes = netlink::RouteClient::open();
    const auto links =
        routes ? routes->links() : base::Result<std::vector<netlink::LinkEntry>>(routes.error());
    for (const std::string& name : names) {
        const std::string check = std::string(prefix) + name;
        if (!links) {
            findings.skip(check, "cannot list interfaces (" + describe(links.error()) + ")",
                          "run it as root");
            continue;
        }
        const auto link =
            std::find_if(links->begin(), links->end(),
                         [&](const netlink::LinkEntry& one) { return one.name == name; });
        if (link == links->end()) {
            findings.fail(check, "there is no such interface, but there are " + names_of(*links),
                          "correct " + std::string(key) + ", or make it");
        } else if (!link->is_up) {
            findings.warn(check, "the interface is down", "ip link set " + name + " up");
        } else {
            findings.ok(check, "up");
        }
    }
}

}  // namespace continuo::daemon
