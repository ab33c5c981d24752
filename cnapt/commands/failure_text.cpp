#include "cnapt/commands/failure_text.hpp"

#include "common/report/allowance_text.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <algorithm>

namespace continuo::cnapt::commands {

using report::JsonValue;

namespace {

constexpr size_t kIndent = 4;

bool is_used(const JsonValue& vpn) {
    return vpn["used"].boolean().value_or(false);
}

std::string error_line(const std::string& of, const JsonValue& error, size_t columns) {
    if (!error["current"].boolean().value_or(false)) {
        return {};
    }
    std::string line = of + ": " + report::cell(error["text"]);
    if (const auto at = error["at"].unsigned_integer()) {
        line += " (" + report::format_utc(static_cast<int64_t>(*at)) + ")";
    }
    return report::wrapped(line + "\n", columns, kIndent);
}

// The SNAPTs that have told that packets of that version cannot leave them: "zrh-1, ber-1".
std::string names_without_way(const JsonValue& snapts, const std::string& version) {
    std::string names;
    for (const JsonValue& snapt : snapts.items()) {
        for (const JsonValue& lost : snapt["no_way_out"].items()) {
            if (lost.string() == version) {
                names += (names.empty() ? "" : ", ") + report::cell(snapt["snapt"]);
            }
        }
    }
    return names;
}

}  // namespace

std::vector<LostVersion> lost_versions(const JsonValue& status) {
    std::vector<LostVersion> all;
    for (const std::string version : {"IPv4", "IPv6"}) {
        const auto& refused = status["refused_versions"].items();
        const bool is_refused =
            std::any_of(refused.begin(), refused.end(),
                        [&](const JsonValue& one) { return one.string() == version; });
        std::string names = names_without_way(status["sessions"], version);
        if (is_refused || !names.empty()) {
            all.push_back({version, std::move(names), is_refused});
        }
    }
    return all;
}

std::string lost_version_text(const LostVersion& lost) {
    if (!lost.is_refused) {
        return lost.no_way_out_at + " has no way out for " + lost.version +
               ", new flows take another SNAPT";
    }
    return lost.version + (lost.no_way_out_at.empty()
                               ? ": refused, no SNAPT carries it"
                               : ": refused, no way out at " + lost.no_way_out_at);
}

std::string vpn_text(const JsonValue& vpn) {
    const std::string text = report::cell(vpn["interface"]) + ": another VPN has the default route";
    if (vpn["takes_programs"].boolean().value_or(false)) {
        return text + ", and its rules stand before those of cnapt; programs go past cnapt";
    }
    return text + (is_used(vpn) ? "; data goes through it" : "; data goes beside it");
}

std::string vpn_remedy(const JsonValue& vpn, bool is_kill_switch) {
    const std::string name = report::cell(vpn["interface"]);
    if (vpn["takes_programs"].boolean().value_or(false)) {
        return "give its rules a priority above 9362, or let it take no default route";
    }
    if (is_used(vpn)) {
        return is_kill_switch ? "put its server into capture.exclude"
                              : "[uplinks] deny keeps " + name + " out";
    }
    return vpn["in_main"].boolean().value_or(true)
               ? R"([uplinks] allow = ["*", ")" + name + R"("] leads it through)"
               : "public places behind it belong into capture.exclude";
}

std::string tunnel_text(const JsonValue& status) {
    const std::string state = status.text("tunnel");
    if (state.empty()) {
        return {};
    }
    std::string text = "tunnel: " + state;
    if (state == "new_flows_plain") {
        text = "tunnel: new flows plain (they go outside the tunnel)";
    } else if (state == "blocked") {
        text = "tunnel: blocked (nothing leaves until a SNAPT answers)";
    }
    const bool is_on = status["kill_switch"].boolean().value_or(false);
    text += std::string("; kill switch ") + (is_on ? "on" : "off") + "\n";
    for (const LostVersion& lost : lost_versions(status)) {
        text += lost_version_text(lost) + (lost.no_way_out_at.empty()
                                               ? " (give one an [inner] prefix for it)\n"
                                               : " (" + std::string(kWayOutRemedy) + ")\n");
    }
    for (const JsonValue& vpn : status["other_vpns"].items()) {
        text += vpn_text(vpn) + " (" + vpn_remedy(vpn, is_on) + ")\n";
    }
    return text;
}

std::string snapt_errors_text(const JsonValue& snapts, size_t columns) {
    std::string text;
    for (const JsonValue& snapt : snapts.items()) {
        text += error_line(report::cell(snapt["snapt"]), snapt["last_error"], columns);
        const JsonValue& allowance = snapt["allowance"];
        const bool is_free = allowance.text("state") == "free";
        for (const std::string& left : {is_free ? "" : report::allowance_text(allowance),
                                        report::money_text(snapt["money"])}) {
            text += left.empty()
                        ? ""
                        : report::wrapped(report::cell(snapt["snapt"]) + ": " + left + "\n",
                                          columns, kIndent);
        }
    }
    return text;
}

std::string path_errors_text(const JsonValue& paths, size_t columns) {
    std::string text;
    for (const JsonValue& path : paths.items()) {
        const std::string name =
            report::cell(path["interface"]) + ">" + report::cell(path["snapt"]);
        text += error_line(path.text("transport") == "tcp" ? name + " tcp" : name,
                           path["last_error"], columns);
    }
    return text;
}

}  // namespace continuo::cnapt::commands
