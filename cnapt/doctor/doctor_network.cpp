// Checks of `cnapt doctor`: the way to the SNAPTs.
#include "cnapt/bypass/portal_probe.hpp"
#include "cnapt/capture/source_routes.hpp"
#include "cnapt/doctor/doctor_context.hpp"
#include "cnapt/names/name_lookup.hpp"
#include "cnapt/names/resolv_conf.hpp"
#include "cnapt/names/resolv_file.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "cnapt/uplinks/uplinks.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"
#include "common/netlink/net_monitor.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace continuo::cnapt::doctor {

using control_link::ControlUplink;
using names::LookupPlaces;
using report::Verdict;
using settings::SnaptEntry;

namespace {

// Longest waits of the checks, out of kDoctorTime. Choices, not measured.
constexpr base::Duration kNameTime = base::seconds(8);
constexpr base::Duration kTcpTime = base::seconds(4);
constexpr base::Duration kUdpTime = base::seconds(3);
constexpr base::Duration kPortalTime = base::seconds(7);
// Most words of a list in a finding, and most questions for portals. Choices, not measured.
constexpr size_t kMaxNamed = 6;
constexpr size_t kMaxPortalQuestions = 8;

std::string ms(base::Duration span) {
    return report::format_milliseconds(static_cast<double>(base::to_us(span)) / 1000.0);
}

std::string seconds(base::Duration span) {
    return std::to_string(base::to_ms(span) / 1000) + " s";
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (size_t i = 0; i < words.size(); ++i) {
        text += (i == 0 ? "" : ", ") + (i < kMaxNamed ? words[i] : std::string("..."));
        if (i == kMaxNamed) {
            break;
        }
    }
    return text;
}

// --- Uplinks

class UplinkLook {
  public:
    UplinkLook(const settings::NodeConfig& config, const netlink::NetSnapshot& network)
        : config_(config), network_(network) {
        rules_.own_device = config.capture.device;
        rules_.allow = config.uplinks.allow;
        rules_.deny = config.uplinks.deny;
    }

    // Lists the uplinks that can be used.
    std::vector<ControlUplink> usable() const {
        std::vector<ControlUplink> found;
        for (const netlink::LinkEntry& link : network_.links) {
            for (const netlink::UsableAddress& address : network_.addresses) {
                if (address.interface_index == link.index && obstacle(link).empty() &&
                    leads_on(link, address.address.version)) {
                    found.push_back({link.name, address.address});
                }
            }
        }
        return found;
    }
    // Says why none of the others can.
    std::vector<std::string> obstacles() const {
        std::vector<std::string> list;
        for (const netlink::LinkEntry& link : network_.links) {
            if (!link.is_loopback && link.name != config_.capture.device) {
                const std::string why = obstacle(link);
                list.push_back(link.name + " " + (why.empty() ? "has no route" : why));
            }
        }
        return list;
    }

  private:
    std::string obstacle(const netlink::LinkEntry& link) const {
        if (link.is_loopback || link.name == config_.capture.device) {
            return "is no uplink";
        }
        if (!uplinks::is_allowed_interface(link.name, rules_)) {
            return "is left out by [uplinks]";
        }
        if (!link.is_up) {
            return "is down";
        }
        if (!link.has_carrier) {
            return "has no carrier";
        }
        const bool has_address =
            std::any_of(network_.addresses.begin(), network_.addresses.end(),
                        [&](const auto& one) { return one.interface_index == link.index; });
        return has_address ? "" : "has no address";
    }
    // True when a route of the interface leads to the Internet or to some SNAPT.
    bool leads_on(const netlink::LinkEntry& link, base::IpVersion version) const {
        const bool has_default =
            std::any_of(network_.routes.begin(), network_.routes.end(), [&](const auto& route) {
                return route.interface_index == link.index && route.destination.length == 0 &&
                       route.destination.address.version == version;
            });
        return has_default ||
               std::any_of(
                   config_.snapts.begin(), config_.snapts.end(), [&](const SnaptEntry& entry) {
                       return std::any_of(entry.addresses.begin(), entry.addresses.end(),
                                          [&](const auto& place) {
                                              const auto to = place.endpoint();
                                              return to && to->address.version == version &&
                                                     network_.has_route(link.index, to->address);
                                          });
                   });
    }

    const settings::NodeConfig& config_;
    const netlink::NetSnapshot& network_;
    uplinks::UplinkRules rules_;
};

// --- Names

LookupPlaces places_of(const NodeDoctor& doctor) {
    LookupPlaces places;
    places.servers = doctor.config->dns.servers;
    places.fwmark = doctor.mark();
    const auto text = io::read_file(places.resolv_conf, names::kMaxResolvConfBytes);
    if (text && names::is_resolv_conf_of_tunnel(*text)) {
        places.original = names::ResolvFile::servers_kept_in(std::string(names::kept_place(*text)),
                                                             places.resolv_conf);
    }
    return places;
}

struct NamedAddress {
    std::string snapt;
    config::HostPort place;
};

void add_target(NodeDoctor& doctor, const std::string& snapt, const base::Endpoint& endpoint) {
    const bool is_known =
        std::any_of(doctor.targets.begin(), doctor.targets.end(), [&](const SnaptTarget& target) {
            return target.snapt == snapt && target.endpoint == endpoint;
        });
    if (!is_known && doctor.targets.size() < kMaxTargets) {
        doctor.targets.push_back({snapt, endpoint});
    }
}

// --- TCP and UDP

bool is_no_route(int sys_errno) {
    return sys_errno == ENETUNREACH || sys_errno == EADDRNOTAVAIL || sys_errno == EAFNOSUPPORT;
}

std::string failure_text(int sys_errno, base::Duration time) {
    if (sys_errno == ETIMEDOUT) {
        return "no answer within " + seconds(time);
    }
    return is_no_route(sys_errno) ? "no route there" : std::strerror(sys_errno);
}

control_link::ReachQuestion question_of(const NodeDoctor& doctor, base::Duration time) {
    control_link::ReachQuestion question;
    for (const SnaptTarget& target : doctor.targets) {
        question.to.push_back(target.endpoint);
    }
    question.fwmark = doctor.mark();
    question.time = doctor.deadline.time_for(time);
    return question;
}

bool may_probe(NodeDoctor& doctor, const std::string& check) {
    if (!doctor.needs_config(check) || !doctor.needs_way_beside(check)) {
        return false;
    }
    if (doctor.targets.empty()) {
        doctor.findings.skip(check, "no address of a SNAPT is known", "see \"name\" above");
    }
    return !doctor.targets.empty();
}

void say_tcp(NodeDoctor& doctor, const SnaptTarget& target) {
    const std::string check = "tcp " + target.endpoint.to_string();
    const std::string port = std::to_string(target.endpoint.port);
    const int error = target.tcp.sys_errno;
    if (target.tcp.connected_in) {
        doctor.findings.ok(check, target.snapt + " connects in " + ms(*target.tcp.connected_in));
        return;
    }
    const bool has_other = doctor.connects(target.snapt);
    const std::string found = target.snapt + ": " + failure_text(error, kTcpTime);
    if (is_no_route(error) && has_other) {
        doctor.findings.skip(check, found, "it is reached by another address");
        return;
    }
    const std::string remedy =
        error == ECONNREFUSED ? "start snapt there, and see that its `listen` has port " + port
        : is_no_route(error)  ? "connect this host to a network that leads there"
                              : "open TCP " + port + " at the server and on the way";
    doctor.findings.add({has_other ? Verdict::Warn : Verdict::Fail, check, found, remedy});
}

void say_udp(NodeDoctor& doctor, const SnaptTarget& target) {
    const std::string check = "udp " + target.endpoint.to_string();
    const std::string port = std::to_string(target.endpoint.port);
    const int error = target.udp.sys_errno;
    if (target.udp.answered_in) {
        doctor.findings.ok(check, target.snapt + " answers in " + ms(*target.udp.answered_in));
        return;
    }
    const bool has_other = doctor.answers_by_udp(target.snapt);
    const std::string found = target.snapt + ": " + failure_text(error, kUdpTime);
    if (is_no_route(error) && has_other) {
        doctor.findings.skip(check, found, "it is reached by another address");
    } else if (has_other) {
        doctor.findings.warn(check, found, "open UDP " + port + " at the server and on the way");
    } else if (doctor.connects(target.snapt)) {
        doctor.findings.warn(check, found + "; data goes over TCP, slower",
                             "open UDP " + port + " at the server and on the way");
    } else {
        doctor.findings.fail(check, found, "see \"tcp\" above");
    }
}

// --- Portals

void say_portal(NodeDoctor& doctor,
                const ControlUplink& uplink,
                const std::optional<control::PortalAnswer>& answer) {
    const std::string check = "portal " + uplink.device;
    const control::PortalVerdict verdict = answer ? answer->verdict : control::PortalVerdict::None;
    if (verdict == control::PortalVerdict::Snapt) {
        doctor.findings.ok(check, "none: the SNAPT itself answers");
    } else if (verdict == control::PortalVerdict::Portal && !answer->url.empty()) {
        doctor.findings.fail(check, "a captive portal answers in place of the SNAPT",
                             "log in at " + answer->url + " (`cnapt portal` leads there)");
    } else if (verdict == control::PortalVerdict::Portal) {
        doctor.findings.warn(check, "something else than the SNAPT may answer in its place",
                             "open a web page; see \"login\" below");
    } else {
        doctor.findings.ok(check, "none is seen");
    }
}

void say_portals_of_daemon(NodeDoctor& doctor) {
    std::vector<std::string> told;
    for (const report::JsonValue& path : doctor.paths.items()) {
        const std::string interface = path.text("interface");
        if (std::find(told.begin(), told.end(), interface) != told.end()) {
            continue;
        }
        told.push_back(interface);
        const std::string url = path.text("portal_url");
        if (path["captive"].boolean().value_or(false)) {
            doctor.findings.fail(
                "portal " + interface, "a captive portal answers in place of the SNAPT",
                "log in" + (url.empty() ? "" : " at " + url) + ": cnapt portal " + interface);
        } else {
            doctor.findings.ok("portal " + interface, "none is seen");
        }
    }
}

// The control port of a SNAPT of that IP version, preferably one that connects.
const SnaptTarget* target_for(const NodeDoctor& doctor, const ControlUplink& uplink) {
    const SnaptTarget* found = nullptr;
    for (const SnaptTarget& target : doctor.targets) {
        if (target.endpoint.address.version == uplink.source.version &&
            (found == nullptr || (!found->tcp.connected_in && target.tcp.connected_in))) {
            found = &target;
        }
    }
    return found;
}

// Routes that the daemon keeps, if one runs.
void check_kept_routes(NodeDoctor& doctor, const std::string& check) {
    const report::JsonValue& routes = doctor.status.json["routes"];
    if (routes["sources_left_out"].unsigned_integer().value_or(0) > 0) {
        doctor.findings.warn(
            check,
            report::cell(routes["sources_left_out"]) +
                " of uplinks are too many: a strict reverse path filter drops "
                "what comes by them",
            "leave an uplink at most " + std::to_string(capture::kMaxSourceDefaults) +
                " default routes and " + std::to_string(capture::kMaxSourceOnLink) +
                " networks, or set net.ipv4.conf.all.rp_filter=2");
    }
    if (routes["unwatched"].unsigned_integer().value_or(0) > 0) {
        doctor.findings.warn(check,
                             report::cell(routes["unwatched"]) +
                                 " addresses of SNAPTs or name servers are too many: routes to "
                                 "them may not be seen",
                             "leave at most " + std::to_string(netlink::kMaxWatched) +
                                 " of them in the configuration and resolv.conf");
    }
}

void check_routes(NodeDoctor& doctor, const netlink::NetMonitor& monitor) {
    const std::string check = "routes";
    check_kept_routes(doctor, check);
    if (monitor.unseen_routes() > 0) {
        doctor.findings.warn(check,
                             std::to_string(monitor.unseen_routes()) +
                                 " default routes or routes to SNAPTs are not seen",
                             "leave at most " + std::to_string(netlink::kMaxDecidingRoutes) +
                                 " of them in the main table");
    } else if (monitor.routes_left_out() > 0) {
        const size_t all = monitor.snapshot().routes.size() + monitor.routes_left_out();
        doctor.findings.ok(check, std::to_string(all) +
                                      " in the main table: those that lead out, to a SNAPT or to "
                                      "a name server are followed, the others decide nothing; "
                                      "nothing to do");
    }
}

}  // namespace

void check_uplinks(NodeDoctor& doctor) {
    const std::string check = "uplinks";
    if (!doctor.needs_config(check)) {
        return;
    }
    io::EventLoop loop;
    const auto monitor = netlink::NetMonitor::start(
        loop, [](const netlink::NetEvent&) {}, {},
        netlink::RouteInterest{known_snapts(doctor), uplinks::kind_of_route});
    if (!monitor) {
        doctor.findings.fail(check, daemon::describe(monitor.error()), "a kernel with rtnetlink");
        return;
    }
    netlink::NetSnapshot network = (*monitor)->snapshot();
    const std::vector<report::Finding> borrowed = borrow_addresses(doctor, network);
    const UplinkLook look(*doctor.config, network);
    doctor.uplinks = look.usable();
    std::vector<std::string> names;
    for (const ControlUplink& uplink : doctor.uplinks) {
        names.push_back(uplink.device + " " + uplink.source.to_string());
    }
    if (names.empty()) {
        const std::string why = joined(look.obstacles());
        doctor.findings.fail(check,
                             "no interface leads to a SNAPT" + (why.empty() ? "" : ": " + why),
                             "connect one, or correct [uplinks]");
    } else {
        doctor.findings.ok(check, joined(names));
    }
    for (const report::Finding& finding : borrowed) {
        doctor.findings.add(finding);
    }
    check_routes(doctor, **monitor);
}

void check_names(NodeDoctor& doctor) {
    if (!doctor.config) {
        return;  // the checks of addresses say so
    }
    std::vector<NamedAddress> named;
    for (const SnaptEntry& entry : doctor.config->snapts) {
        for (const config::HostPort& place : entry.addresses) {
            if (const auto endpoint = place.endpoint()) {
                add_target(doctor, entry.name, *endpoint);
            } else if (named.size() < kMaxTargets) {
                named.push_back({entry.name, place});
            }
        }
    }
    const LookupPlaces places = places_of(doctor);
    std::vector<std::function<std::vector<base::IpAddress>()>> works;
    works.reserve(named.size());
    for (const NamedAddress& one : named) {
        works.emplace_back(
            [host = one.place.host, places] { return names::look_up(host, places); });
    }
    const base::Duration time = doctor.deadline.time_for(kNameTime);
    const auto results = daemon::within(time, works);
    for (size_t i = 0; i < named.size(); ++i) {
        const std::string check = "name " + named[i].place.host;
        if (!results[i] || results[i]->empty()) {
            doctor.findings.fail(
                check,
                named[i].snapt + ": " +
                    (results[i] ? "no address is found" : "no answer within " + seconds(kNameTime)),
                "correct the name in [[snapt]], or the name servers of this host");
            continue;
        }
        std::vector<std::string> addresses;
        for (const base::IpAddress& address : *results[i]) {
            addresses.push_back(address.to_string());
            add_target(doctor, named[i].snapt, {address, named[i].place.port});
        }
        doctor.findings.ok(check, named[i].snapt + " has " + joined(addresses));
    }
}

void check_tcp(NodeDoctor& doctor) {
    if (!may_probe(doctor, "tcp")) {
        return;
    }
    const auto reach = control_link::probe_tcp(question_of(doctor, kTcpTime));
    for (size_t i = 0; i < reach.size(); ++i) {
        doctor.targets[i].tcp = reach[i];
    }
    doctor.is_probed = true;
    for (const SnaptTarget& target : doctor.targets) {
        say_tcp(doctor, target);
    }
}

void check_udp(NodeDoctor& doctor) {
    if (!may_probe(doctor, "udp")) {
        return;
    }
    auto reach = control_link::probe_udp(question_of(doctor, kUdpTime));
    for (size_t i = 0; i < reach.size(); ++i) {
        doctor.targets[i].udp = std::move(reach[i]);
    }
    for (const SnaptTarget& target : doctor.targets) {
        say_udp(doctor, target);
    }
}

// Reports the MTU of the direction up, for each SNAPT to the address with the largest.
void check_mtu(NodeDoctor& doctor) {
    if (!doctor.config || !doctor.is_probed) {
        return;  // "udp" has said why
    }
    for (const SnaptEntry& entry : doctor.config->snapts) {
        const std::string check = "mtu " + entry.name;
        const SnaptTarget* best = nullptr;
        for (const SnaptTarget& target : doctor.targets) {
            if (target.snapt == entry.name && target.udp.answered_in &&
                (best == nullptr || target.udp.largest > best->udp.largest)) {
                best = &target;
            }
        }
        if (best == nullptr) {
            doctor.findings.skip(check, "no answer by UDP", "see \"udp\" above");
            continue;
        }
        const control_link::UdpReach& udp = best->udp;
        const std::string by = udp.interface.empty() ? "" : " by " + udp.interface;
        const std::string own = std::to_string(udp.interface_mtu);
        if (udp.largest == 0) {
            doctor.findings.fail(check, "not even 1280 bytes pass" + by + ", whose MTU is " + own,
                                 udp.interface_mtu < 1280
                                     ? "ip link set " + udp.interface + " mtu 1280 or more"
                                     : "look at the links on the way: IPv6 needs 1280, too");
        } else if (udp.largest <
                   std::min<uint16_t>(udp.interface_mtu, control_link::kProbedSizes[0])) {
            doctor.findings.ok(check, std::to_string(udp.largest) + " of " + own + " bytes pass" +
                                          by + ", which is found out without ICMP");
        } else {
            doctor.findings.ok(check, std::to_string(udp.largest) + " bytes pass" + by);
        }
    }
}

void check_portals(NodeDoctor& doctor) {
    if (doctor.runs()) {
        say_portals_of_daemon(doctor);
        return;
    }
    if (!doctor.config || doctor.targets.empty()) {
        return;
    }
    const auto key = control::derive_portal_key(*doctor.config->identity.key, doctor.config->realm);
    std::vector<ControlUplink> asked;
    std::vector<std::function<control::PortalAnswer()>> works;
    for (const ControlUplink& uplink : doctor.uplinks) {
        const SnaptTarget* target = target_for(doctor, uplink);
        if (target != nullptr && works.size() < kMaxPortalQuestions) {
            const bypass::PortalQuestion question{target->endpoint, uplink, doctor.mark(), key};
            asked.push_back(uplink);
            works.emplace_back([question] { return bypass::ask_for_portal(question); });
        }
    }
    const auto answers = daemon::within(doctor.deadline.time_for(kPortalTime), works);
    for (size_t i = 0; i < asked.size(); ++i) {
        say_portal(doctor, asked[i], answers[i]);
    }
}

}  // namespace continuo::cnapt::doctor
