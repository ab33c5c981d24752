// Checks of `cnapt doctor`: traffic through the tunnel of a running daemon, and name resolution.
#include "cnapt/capture/capture_answers.hpp"
#include "cnapt/capture/routes.hpp"
#include "cnapt/commands/failure_text.hpp"
#include "cnapt/doctor/doctor_context.hpp"
#include "cnapt/names/host_lookup.hpp"
#include "cnapt/names/name_lookup.hpp"
#include "cnapt/names/resolved_link.hpp"
#include "cnapt/node/ping_desk.hpp"
#include "common/netfilter/nft.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

namespace continuo::cnapt::doctor {

using report::JsonValue;

namespace {

// Longest wait for name servers, and how many are asked. Choices, not measured.
constexpr base::Duration kDnsTime = base::seconds(4);
constexpr base::Duration kHostDnsTime = base::seconds(6);
constexpr size_t kMaxServersAsked = 6;
constexpr uint16_t kDnsPort = 53;

void say_ping(NodeDoctor& doctor, const std::string& check, const JsonValue& answer) {
    std::string answered;
    std::string silent;
    for (const JsonValue& path : answer["paths"].items()) {
        const std::string by =
            report::cell(path["interface"]) + " (" + report::cell(path["transport"]) + ")";
        const auto rtt_ms = path["rtt_ms"].number();
        std::string& list = rtt_ms ? answered : silent;
        list += (list.empty() ? "" : ", ") + by;
        if (rtt_ms) {
            list += " in " + report::format_milliseconds(rtt_ms);
        }
    }
    if (answered.empty()) {
        doctor.findings.fail(check, "no path answers" + (silent.empty() ? "" : ": " + silent),
                             R"(see "udp" and "login" above)");
    } else if (!silent.empty()) {
        doctor.findings.warn(check, "answers by " + answered + "; not by " + silent,
                             "that uplink does not get through: [uplinks] deny keeps it out");
    } else {
        doctor.findings.ok(check, "answers by " + answered);
    }
}

// The question is sealed and opened at both ends, like data.
void check_tunnel(NodeDoctor& doctor, const std::string& snapt) {
    const std::string check = "tunnel " + snapt;
    report::JsonWriter request;
    request.begin_object().field("command", "ping").field("snapt", snapt).end_object();
    const auto answer =
        daemon::ask_line(doctor.access, request.take(),
                         doctor.deadline.time_for(node::kPingTime + base::seconds(1)));
    if (answer.kind == daemon::DaemonAnswer::Kind::Answer) {
        say_ping(doctor, check, answer.json);
    } else {
        doctor.findings.fail(check, answer.failure, "see what fails above");
    }
}

struct NameServer {
    base::IpAddress address;
    std::string how;
    uint32_t fwmark = 0;
};

// The name servers of [dns] while they are used through the tunnel, otherwise the host's.
std::vector<NameServer> name_servers_of(const NodeDoctor& doctor, bool is_in_tunnel) {
    std::vector<NameServer> servers;
    if (is_in_tunnel) {
        for (const base::IpAddress& server : doctor.config->dns.servers) {
            servers.push_back({server, " through the tunnel", 0});
        }
        return servers;
    }
    for (const base::IpAddress& server : names::servers_beside_tunnel({})) {
        servers.push_back({server, "", 0});
    }
    return servers;
}

// The domains that resolved has for uplinks, beside those of the tunnel.
struct UplinkDomains {
    std::string all;  // uplinks with "~."
    std::string own;  // domains that those or other uplinks have beside that
};

UplinkDomains domains_of_uplinks(const NodeDoctor& doctor) {
    UplinkDomains found;
    const names::ResolvedLink resolved(doctor.config->capture.device);
    if (!resolved.is_there()) {
        return found;
    }
    const auto links = resolved.domains();
    if (!links) {
        return found;
    }
    for (const names::ResolvedDomains& one : *links) {
        const bool is_uplink = std::any_of(
            doctor.uplinks.begin(), doctor.uplinks.end(),
            [&](const control_link::ControlUplink& uplink) { return uplink.device == one.link; });
        for (size_t i = 0; is_uplink && i < one.domains.size(); ++i) {
            const bool is_all = one.domains[i] == "~.";
            std::string& list = is_all ? found.all : found.own;
            list += (list.empty() ? "" : ", ") + (is_all ? one.link : one.domains[i]);
        }
    }
    return found;
}

// Says that resolved's questions to servers of uplinks are refused; empty if it has no reason to
// ask them.
std::string uplink_domains_text(const NodeDoctor& doctor) {
    netfilter::Nft nft;
    const std::string table = capture::capture_table(doctor.config->capture.device) + "_names";
    const auto refused = nft.counter(table, capture::kResolverCounter);
    if (!refused) {
        return {};
    }
    const UplinkDomains domains = domains_of_uplinks(doctor);
    std::string text;
    if (!domains.all.empty()) {
        text += "; " + domains.all + " has all domains (~.), too: what systemd-resolved asks " +
                "there is refused, nothing to do";
    }
    if (!domains.own.empty()) {
        text += "; " + domains.own + " of uplinks are not looked up there: without [dns] they are";
    }
    if (!text.empty() || refused->packets != 0) {
        text += "; refused so far: " + std::to_string(refused->packets) + " packets";
    }
    return text;
}

// Settings of resolved for all links that cnapt has switched off for its own, and how often that
// was set again; empty: none.
std::string resolved_settings_text(const NodeDoctor& doctor) {
    std::string text;
    const names::ResolvedLink resolved(doctor.config->capture.device);
    for (const auto& [setting, name] :
         {std::pair("dnsovertls", "DNS over TLS"), std::pair("dnssec", "DNSSEC")}) {
        const auto value =
            resolved.is_there() ? resolved.global(setting) : base::Result<std::string>("");
        if (value && !value->empty() && *value != "no") {
            text += (text.empty() ? "; " : " and ") + std::string(name) + " (" + *value + ")";
        }
    }
    if (!text.empty()) {
        text += " of all links: off for " + doctor.config->capture.device + ", nothing to do";
    }
    const JsonValue& dns = doctor.status.json["dns"];
    const auto times = dns["set_again"].unsigned_integer().value_or(0);
    if (times != 0) {
        text += "; somebody took the settings of " + doctor.config->capture.device +
                " away: set again " + std::to_string(times) + (times == 1 ? " time" : " times") +
                ", last " + report::format_utc(dns["set_again_at"].integer().value_or(0));
    }
    return text;
}

// Programs ask the servers of resolv.conf, for instance systemd-resolved's stub. `found`: the
// result for the [dns] servers.
void say_host_lookup(NodeDoctor& doctor, const std::string& found) {
    const std::string check = "dns";
    const std::vector<std::function<names::HostLookupAnswer()>> works = {
        [] { return names::look_up_as_host({}); }};
    const auto answer = daemon::within(doctor.deadline.time_for(kHostDnsTime), works).front();
    const auto& servers = doctor.config->dns.servers;
    std::string asked;
    const auto of_host = answer ? answer->asked : std::vector<base::IpAddress>{};
    for (const base::IpAddress& server : of_host) {
        if (std::find(servers.begin(), servers.end(), server) == servers.end()) {
            asked += (asked.empty() ? "" : ", ") + server.to_string();
        }
    }
    if (answer && answer->is_answered) {
        doctor.findings.ok(check, found + (asked.empty() ? "" : ", and so does " + asked) +
                                      uplink_domains_text(doctor) + resolved_settings_text(doctor));
    } else {
        doctor.findings.fail(check,
                             found + ", but not " + (asked.empty() ? "resolv.conf's" : asked) +
                                 ", whom this host asks",
                             "see what `resolvectl status` or the log of that resolver says");
    }
}

void ask_name_servers(NodeDoctor& doctor, bool is_in_tunnel) {
    const std::string check = "dns";
    auto servers = name_servers_of(doctor, is_in_tunnel);
    servers.resize(std::min(servers.size(), kMaxServersAsked));
    std::vector<std::function<bool()>> works;
    for (const NameServer& server : servers) {
        works.emplace_back([server] {
            return names::answers_names({server.address, kDnsPort}, server.fwmark);
        });
    }
    const auto answers = daemon::within(doctor.deadline.time_for(kDnsTime), works);
    std::string good;
    std::string bad;
    for (size_t i = 0; i < servers.size(); ++i) {
        std::string& list = answers[i].value_or(false) ? good : bad;
        list += (list.empty() ? "" : ", ") + servers[i].address.to_string();
    }
    if (servers.empty()) {
        doctor.findings.warn(check, "/etc/resolv.conf names no server",
                             "set [dns] servers, or one of the host's");
    } else if (good.empty()) {
        const std::string found = "no name server answers" + servers.front().how + ": " + bad;
        const std::string remedy =
            is_in_tunnel ? "correct [dns] servers" : "set [dns] servers, or one of the host's";
        doctor.findings.add(
            {is_in_tunnel ? report::Verdict::Fail : report::Verdict::Warn, check, found, remedy});
    } else if (!bad.empty()) {
        doctor.findings.warn(check, good + " answers" + servers.front().how + ", not " + bad,
                             "take out the one that is silent");
    } else {
        const std::string found = good + " answers" + servers.front().how;
        is_in_tunnel ? say_host_lookup(doctor, found) : doctor.findings.ok(check, found);
    }
}

void say_lost_versions(NodeDoctor& doctor) {
    for (const commands::LostVersion& lost : commands::lost_versions(doctor.status.json)) {
        if (!lost.no_way_out_at.empty()) {
            doctor.findings.warn("versions", commands::lost_version_text(lost),
                                 std::string(commands::kWayOutRemedy));
        } else {
            doctor.findings.warn(
                "versions", lost.version + " is refused at once: no SNAPT carries it",
                "give a SNAPT an [inner] prefix for it, or leave it outside the tunnel "
                "with capture.ipv6 = false");
        }
    }
}

// The SNAPTs that have let this node in say that no packet passes, or drain.
bool takes_no_flows(const JsonValue& snapts) {
    bool is_any_in = false;
    bool is_any_good = false;
    for (const JsonValue& snapt : snapts.items()) {
        const bool is_in = snapt["control_open"].boolean().value_or(false);
        is_any_in = is_any_in || is_in;
        is_any_good = is_any_good || (is_in && snapt["forwards"].boolean().value_or(true));
    }
    return is_any_in && !is_any_good;
}

void check_leak(NodeDoctor& doctor) {
    netfilter::Nft nft;
    const settings::CaptureConfig& capture = doctor.config->capture;
    const auto leak = nft.counter(capture::capture_table(capture.device), capture::kLeakCounter);
    if (leak && leak->packets != 0) {
        doctor.findings.warn("leak",
                             std::to_string(leak->packets) +
                                 " packets of the tunnel were about to leave an uplink, and were "
                                 "dropped",
                             "find what changes rules or routes beneath (ip rule, another VPN)");
    } else if (leak) {
        doctor.findings.ok("leak", "no packet of the tunnel left an uplink");
    }
}

void check_answers(NodeDoctor& doctor) {
    const std::string check = "udp servers";
    const std::string table = capture::answers_table(doctor.config->capture.device);
    netfilter::Nft nft;
    const auto has_chain = nft.has_chain(table, "answers");
    if (!has_chain || doctor.status.json.text("state") != "up") {
        return;
    }
    const auto answered = nft.counter(table, capture::kAnsweredCounter);
    const auto full = nft.counter(table, capture::kAskedFullCounter);
    if (!*has_chain) {
        doctor.findings.warn(check, "those on 0.0.0.0 or :: answer through the tunnel",
                             "bind them to an address, or give the kernel nft_socket");
    } else if (full && full->packets != 0) {
        doctor.findings.warn(
            check, std::to_string(full->packets) + " datagrams came from more peers than are kept",
            "bind the server to an address");
    } else if (answered) {
        doctor.findings.ok(check, "those on 0.0.0.0 or :: answer from the address that was asked, "
                                  "beside the tunnel (" +
                                      std::to_string(answered->packets) +
                                      " datagrams); nothing to do");
    }
}

// Reports classes that are not sent the normal way: nothing is left to do.
void check_class_ways(NodeDoctor& doctor) {
    for (const JsonValue& path : doctor.paths.items()) {
        for (const JsonValue& one : path["ways"].items()) {
            const std::string name = report::cell(one["class"]);
            const std::string where =
                " on " + report::cell(path["interface"]) + ">" + report::cell(path["snapt"]);
            if (one.text("way") == "detour") {
                doctor.findings.ok("classes",
                                   name + " is sent from the lt-ld socket" + where +
                                       ", as its own no longer gets through; nothing to do");
            } else {
                doctor.findings.ok("classes", name + " is sent without its DSCP" + where +
                                                  ", which drops it; nothing to do");
            }
        }
    }
}

}  // namespace

void check_tunnels(NodeDoctor& doctor) {
    if (!doctor.runs()) {
        doctor.findings.skip("tunnel", "needs a running daemon", "start it, see \"daemon\" above");
        return;
    }
    for (const JsonValue& snapt : doctor.snapts.items()) {
        if (doctor.deadline.is_over()) {
            break;
        }
        const bool is_idle = snapt["learned"].boolean().value_or(false) &&
                             snapt.text("state") == "down";  // by hearsay, and not needed
        if (!is_idle) {
            check_tunnel(doctor, snapt.text("snapt"));
        }
    }
    check_class_ways(doctor);
}

void check_dns(NodeDoctor& doctor) {
    const std::string check = "dns";
    const JsonValue& dns = doctor.status.json["dns"];
    const std::string state = dns.text("state", "off");
    const bool is_unanswered = !dns["answered"].boolean().value_or(true);
    if (state == "failed" && !is_unanswered) {
        doctor.findings.fail(check,
                             "names are looked up as without cnapt: " + report::cell(dns["error"]),
                             "see \"Names\" in OPERATIONS");
        return;
    }
    if (state == "unreachable") {
        doctor.findings.fail(check,
                             report::list_cell(dns["unreachable"]) +
                                 " is silent through the tunnel, and the kill switch stops the way "
                                 "beside",
                             "set [dns] servers, or put it into capture.exclude");
        return;
    }
    if (state == "beside") {
        doctor.findings.ok(check, report::list_cell(dns["bypassed"]) +
                                      " is asked beside the tunnel, since it is silent through it; "
                                      "[dns] servers would be asked through it");
        return;
    }
    const bool is_in_tunnel = state == "tunnel" || is_unanswered;
    if (!is_in_tunnel || doctor.needs_config(check)) {
        ask_name_servers(doctor, is_in_tunnel);
    }
}

void check_capture(NodeDoctor& doctor) {
    const std::string check = "capture";
    if (!doctor.runs()) {
        doctor.findings.skip(check, "needs a running daemon", "start it, see \"daemon\" above");
        return;
    }
    const bool is_blocked = (doctor.config && doctor.config->capture.kill_switch) ||
                            doctor.status.json.text("tunnel") == "blocked";
    say_lost_versions(doctor);
    const std::string state = doctor.status.json.text("state");
    if (state == "up") {
        doctor.findings.ok(check, "new flows go through the tunnel");
    } else if (takes_no_flows(doctor.snapts)) {
        doctor.findings.fail(check, "no SNAPT takes new flows",
                             "`snapt status` there has the cause");
    } else {
        doctor.findings.fail(check,
                             is_blocked ? "the kill switch blocks new flows: no SNAPT answers"
                                        : "new flows go outside the tunnel: no SNAPT answers",
                             "see what fails above");
    }
    if (doctor.config && doctor.may_mark) {
        check_leak(doctor);
        check_answers(doctor);
    }
}

}  // namespace continuo::cnapt::doctor
