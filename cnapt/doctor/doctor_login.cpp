// Checks of `cnapt doctor`: whether each SNAPT lets this node in, and what it leases.
#include "cnapt/doctor/doctor_context.hpp"
#include "cnapt/snapts/snapt_client.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/system_random.hpp"
#include "common/io/file.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <tuple>

#include <unistd.h>

namespace continuo::cnapt::doctor {

using control_link::LoginReach;
using report::JsonValue;
using settings::CaptureConfig;
using Kind = LoginReach::Kind;

namespace {

// Longest wait for one login, out of kDoctorTime. A choice, not measured.
constexpr base::Duration kLoginTime = base::seconds(8);

std::string ms(base::Duration span) {
    return report::format_milliseconds(static_cast<double>(base::to_us(span)) / 1000.0);
}

// Why no lease is requested, and what helps.
struct NoHello {
    std::string_view why;
    std::string_view remedy;
};

// A login with HELLO replaces the session that a daemon of this node has, so it is done only if
// none can be running. A login with another node id would take the name and lease of this node.
std::optional<NoHello> why_no_hello(const NodeDoctor& doctor) {
    constexpr std::string_view kMightRun = "not asked for: a daemon might be running here";
    if (doctor.status.kind != daemon::DaemonAnswer::Kind::Absent || !doctor.is_root) {
        return NoHello{kMightRun, daemon::kRunAsRoot};
    }
    const std::string lock = doctor.state + "/lock";
    if (::access(lock.c_str(), F_OK) == 0 && !io::LockFile::acquire(lock)) {
        return NoHello{kMightRun, "see \"daemon\" above"};
    }
    if (!settings::read_node_id(doctor.state + settings::kNodeIdFile)) {
        return NoHello{"not asked for: this node has no id yet", "start the daemon once"};
    }
    return std::nullopt;
}

std::string remedy_for(const control::Reject& reject) {
    switch (reject.reason) {
    case control::RejectReason::NoCommonVersion:
        return "upgrade both ends";
    case control::RejectReason::NoCommonProtection:
        return "`protection` at node and SNAPT must have one in common";
    case control::RejectReason::SessionLimit:
        return "raise limits.user_sessions there, or log another node out";
    case control::RejectReason::UserDisabled:
        return "snapt user enable NAME, at the server";
    case control::RejectReason::NoLease:
        return "a larger [inner] prefix there, and room on its disk";
    case control::RejectReason::Draining:
        return "another SNAPT meanwhile; `snapt drain --undo` there";
    case control::RejectReason::BadHello:
        return "`node` in the configuration: letters, digits and . _ @ -";
    default:
        return "`snapt doctor` at the server";
    }
}

// --- What the daemon says

const JsonValue& entry_of(const JsonValue& snapts, const std::string& name) {
    static const JsonValue none;
    for (const JsonValue& snapt : snapts.items()) {
        if (snapt.text("snapt") == name) {
            return snapt;
        }
    }
    return none;
}

// The last error of a SNAPT after ": ", from the daemon's answer; empty if there is none.
std::string last_error(const JsonValue& snapt) {
    const std::string text = snapt["last_error"].text("text");
    return text.empty() ? "" : ": " + text;
}

struct LoginCheck {
    const settings::SnaptEntry& entry;
    const SnaptTarget& target;
    std::optional<NoHello> no_hello;
};

void say_lease(NodeDoctor& doctor, const LoginCheck& login, const control::Accept& accept) {
    const std::string check = "lease " + login.entry.name;
    const CaptureConfig& capture = doctor.config->capture;
    const std::string text = (accept.lease_ipv4 ? accept.lease_ipv4->to_string() : "no IPv4") +
                             ", " +
                             (accept.lease_ipv6 ? accept.lease_ipv6->to_string() : "no IPv6");
    if ((capture.ipv4 && !accept.lease_ipv4) || (capture.ipv6 && !accept.lease_ipv6)) {
        doctor.findings.warn(check, text, "[inner] of the SNAPT has no prefix for the other");
    } else {
        doctor.findings.ok(check, text);
    }
}

void say_let_in(NodeDoctor& doctor, const LoginCheck& login, const LoginReach& reach) {
    const std::string check = "login " + login.entry.name;
    const std::string who = doctor.config->identity.psk_identity();
    if (reach.accept) {
        doctor.findings.ok(check, "let in as " + who + " in " + ms(reach.took));
        say_lease(doctor, login, *reach.accept);
    } else if (doctor.runs()) {
        const std::string why = last_error(entry_of(doctor.snapts, login.entry.name));
        doctor.findings.warn(check,
                             "the key of " + who + " is right, but the daemon has no session" + why,
                             "see `cnapt snapts` and its log");
    } else if (login.no_hello) {
        doctor.findings.ok(check, "the key of " + who + " is right");
        doctor.findings.skip("lease " + login.entry.name, std::string(login.no_hello->why),
                             std::string(login.no_hello->remedy));
    }
}

void say_login(NodeDoctor& doctor, const LoginCheck& login, const LoginReach& reach) {
    const std::string check = "login " + login.entry.name;
    const config::HostPort place{login.target.endpoint.address.to_string(),
                                 login.target.endpoint.port};
    const std::string at = " at " + place.to_string();
    const settings::NodeConfig& config = *doctor.config;
    switch (reach.kind) {
    case Kind::LetIn:
        say_let_in(doctor, login, reach);
        return;
    case Kind::Refused:
        doctor.findings.fail(check,
                             "refused" + at + ": user " + config.identity.user + " or key " +
                                 config.identity.key_id +
                                 " is unknown, wrong or disabled, or realm " + config.realm +
                                 " is another",
                             "compare with `snapt user list` at the server; a new file comes from "
                             "`snapt user rotate " +
                                 config.identity.user + "`");
        return;
    case Kind::Rejected:
        doctor.findings.fail(check, "refused" + at + ": " + reach.reject.text,
                             remedy_for(reach.reject));
        return;
    case Kind::OtherSnapt:
        doctor.findings.fail(
            check,
            "another SNAPT answers" + at + ": " +
                (reach.reject.text.empty() ? "of another name or realm" : reach.reject.text),
            "correct `name`, `addresses` or `realm`");
        return;
    case Kind::NoTls:
        doctor.findings.fail(check, "what answers" + at + " is no SNAPT",
                             "correct the address and port; a captive portal may do that, too");
        return;
    case Kind::Closed:
        doctor.findings.fail(check, "the connection" + at + " is closed without a word",
                             "`snapt doctor` at the server; a proxy on the way may do that, too");
        return;
    case Kind::Silent:
        doctor.findings.fail(check, "no answer" + at + " to the handshake",
                             "`snapt doctor` at the server; a firewall that inspects may do that");
        return;
    case Kind::Unreached:
        doctor.findings.fail(check, "no connection" + at + ": " + std::strerror(reach.sys_errno),
                             "see \"tcp\" above");
        return;
    }
}

// The SNAPTs that lease an address of that version, work and have a way out for it: "zrh-2, gva-1".
std::string
carriers_of(const JsonValue& snapts, std::string_view version, std::string_view lease_field) {
    std::string names;
    for (const JsonValue& snapt : snapts.items()) {
        const auto& lost = snapt["no_way_out"].items();
        const bool has_way = std::none_of(lost.begin(), lost.end(), [&](const JsonValue& one) {
            return one.string() == version;
        });
        if (snapt.text("state") == "up" && !snapt.text(lease_field).empty() && has_way) {
            names += (names.empty() ? "" : ", ") + snapt.text("snapt");
        }
    }
    return names;
}

void say_lease_of_daemon(NodeDoctor& doctor, const JsonValue& snapt) {
    const CaptureConfig capture = doctor.config ? doctor.config->capture : CaptureConfig{};
    std::string leases;
    std::string others;  // who carries what this one does not
    std::string remedy;
    for (const auto& [version, field, is_captured] :
         {std::tuple("IPv4", "inner_ipv4", capture.ipv4),
          std::tuple("IPv6", "inner_ipv6", capture.ipv6)}) {
        const std::string lease = snapt.text(field);
        const std::string no_lease = std::string("no ") + version;
        leases += (leases.empty() ? "" : ", ") + (lease.empty() ? no_lease : lease);
        if (!lease.empty() || !is_captured) {
            continue;
        }
        const std::string carriers = carriers_of(doctor.snapts, version, field);
        if (carriers.empty()) {
            remedy = "[inner] of the SNAPT has no prefix for the other";
        } else {
            others += std::string("; flows of ") + version + " go by " + carriers +
                      "; an [inner] prefix for it lets this one carry them, too";
        }
    }
    const std::string check = "lease " + snapt.text("snapt");
    if (remedy.empty()) {
        doctor.findings.ok(check, leases + others);
    } else {
        doctor.findings.warn(check, leases + others, remedy);
    }
}

// True: the daemon is logged in, so no login is tried.
bool say_login_of_daemon(NodeDoctor& doctor, const std::string& name) {
    const JsonValue& snapt = entry_of(doctor.snapts, name);
    if (!snapt["control_open"].boolean().value_or(false)) {
        return false;
    }
    doctor.findings.ok("login " + name, "the daemon is logged in at " +
                                            report::cell(snapt["address"]) + ", " +
                                            report::cell(snapt["protection"]));
    say_lease_of_daemon(doctor, snapt);
    return true;
}

const SnaptTarget* target_of(const NodeDoctor& doctor, const std::string& snapt) {
    for (const SnaptTarget& target : doctor.targets) {
        if (target.snapt == snapt && target.tcp.connected_in) {
            return &target;
        }
    }
    return nullptr;
}

control_link::LoginQuestion question_of(const NodeDoctor& doctor, const LoginCheck& login) {
    const settings::NodeConfig& config = *doctor.config;
    control_link::LoginQuestion question;
    question.to = login.target.endpoint;
    question.fwmark = doctor.mark();
    question.time = doctor.deadline.time_for(kLoginTime);
    question.says_hello = !login.no_hello;
    // The login uses the node's own id: without it a SNAPT would take this for another node.
    settings::NodeIdentity identity;
    identity.name = config.node.empty() ? daemon::host_name("node") : config.node;
    identity.id =
        settings::read_node_id(doctor.state + settings::kNodeIdFile).value_or(identity.id);
    question.parameters = snapts::login_parameters(config, login.entry, identity);
    host::SystemRandom random;
    random.fill(question.parameters.hello.session_id);
    question.parameters.hello.wire_session_down = static_cast<uint16_t>(random.u64() | 1U);
    return question;
}

}  // namespace

void check_logins(NodeDoctor& doctor) {
    if (!doctor.config) {
        if (doctor.runs()) {
            for (const JsonValue& snapt : doctor.snapts.items()) {
                const std::string name = snapt.text("snapt");
                if (!say_login_of_daemon(doctor, name)) {
                    doctor.findings.fail("login " + name,
                                         "the daemon is not logged in" + last_error(snapt),
                                         "run it as root, which may read the configuration");
                }
            }
        } else {
            doctor.needs_config("login");
        }
        return;
    }
    const auto no_hello = why_no_hello(doctor);
    std::vector<LoginCheck> logins;
    std::vector<std::function<LoginReach()>> works;
    for (const settings::SnaptEntry& entry : doctor.config->snapts) {
        if (doctor.runs() && say_login_of_daemon(doctor, entry.name)) {
            continue;
        }
        const SnaptTarget* target = target_of(doctor, entry.name);
        if (target == nullptr) {
            doctor.findings.skip("login " + entry.name, "no connection by TCP",
                                 "see \"tcp\" above");
            continue;
        }
        logins.push_back({entry, *target, no_hello});
        works.emplace_back([question = question_of(doctor, logins.back())] {
            return control_link::probe_login(question);
        });
    }
    const auto reach =
        daemon::within(doctor.deadline.time_for(kLoginTime + base::seconds(1)), works);
    for (size_t i = 0; i < logins.size(); ++i) {
        say_login(doctor, logins[i], reach[i].value_or(LoginReach{}));
    }
}

}  // namespace continuo::cnapt::doctor
