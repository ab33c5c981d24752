#include "cnapt/links/failure.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace continuo::cnapt::links {

using control::CloseCause;
using control::CloseReason;

namespace {

struct Told {
    FailureKind kind;
    std::string text;
};

// TCP did not connect to `to`.
Told told_of(int sys_errno, const std::string& to) {
    switch (sys_errno) {
    case ECONNREFUSED:
        return {FailureKind::ConnectionRefused,
                "connection refused: nothing listens at TCP " + to + ", or a firewall rejects"};
    case ETIMEDOUT:
        return {FailureKind::TimedOut, "timed out: no answer from TCP " + to};
    case ENETUNREACH:
    case ENETDOWN:
    case ENODEV:
    case EADDRNOTAVAIL:
        return {FailureKind::NoNetwork, "no network: this host has no route to the SNAPT"};
    case EDESTADDRREQ:
        return {FailureKind::NameNotFound, "no address to call"};
    case EPERM:
    case EACCES:
        return {FailureKind::Unreachable,
                "unreachable: a firewall of this host forbids TCP to " + to};
    default:
        return {FailureKind::Unreachable, "unreachable: " + to + ": " + std::strerror(sys_errno)};
    }
}

Told told_of(const control::Close& close) {
    if (close.reason == CloseReason::Replaced) {
        return {FailureKind::Replaced, "another node of this user and name took the session over"};
    }
    const std::string why = close.text.empty() ? "" : ": " + close.text;
    if (close.reason == CloseReason::Disconnected || close.reason == CloseReason::IdleTimeout) {
        return {FailureKind::Ended, "the SNAPT has ended the session" + why};
    }
    const bool stops =
        close.reason == CloseReason::Shutdown || close.reason == CloseReason::Draining;
    return {FailureKind::ControlLost,
            (stops ? "the SNAPT stops" : "the SNAPT has closed the control link") + why};
}

// TCP connected, and the link was not open.
Told told_of(CloseCause cause) {
    switch (cause) {
    case CloseCause::LoginRefused:
        return {FailureKind::LoginRefused,
                "login refused: user unknown, key wrong or user disabled"};
    case CloseCause::HandshakeFailed:
        return {FailureKind::NoSnapt,
                "connected, but no SNAPT answers at that TCP port, or it is too busy"};
    case CloseCause::HandshakeTimeout:
        return {FailureKind::TimedOut, "timed out: connected, but no answer to the login"};
    case CloseCause::WrongSnapt:
        return {FailureKind::WrongSnapt, "a SNAPT of another name or realm answers there"};
    case CloseCause::ProtocolError:
        return {FailureKind::Version,
                "the SNAPT's messages are not understood: the versions may differ"};
    default:
        return {FailureKind::NoSnapt, "the connection ended during the login"};
    }
}

}  // namespace

std::string_view to_string(FailureKind kind) {
    switch (kind) {
    case FailureKind::None:
        return "none";
    case FailureKind::LoginRefused:
        return "login_refused";
    case FailureKind::Rejected:
        return "rejected";
    case FailureKind::Ended:
        return "ended";
    case FailureKind::Replaced:
        return "replaced";
    case FailureKind::Version:
        return "version";
    case FailureKind::WrongSnapt:
        return "wrong_snapt";
    case FailureKind::NoSnapt:
        return "no_snapt";
    case FailureKind::ConnectionRefused:
        return "connection_refused";
    case FailureKind::Unreachable:
        return "unreachable";
    case FailureKind::TimedOut:
        return "timed_out";
    case FailureKind::Silent:
        return "silent";
    case FailureKind::NoNetwork:
        return "no_network";
    case FailureKind::NameNotFound:
        return "name_not_found";
    case FailureKind::Portal:
        return "portal";
    case FailureKind::ControlLost:
        return "control_lost";
    }
    return "unknown";
}

Failure make_failure(FailureKind kind, std::string text, int64_t now_utc_s) {
    return {kind, std::move(text), {}, now_utc_s, true};
}

Failure failure_of(const control_link::LinkEnd& end, bool was_open, int64_t now_utc_s) {
    Told told{FailureKind::None, {}};
    std::string said;
    if (end.cause == CloseCause::Peer) {
        told = told_of(end.peer);
        said = end.peer.text;
    } else if (was_open && end.cause != CloseCause::WrongSnapt) {
        told = {FailureKind::ControlLost,
                "control link lost (" + std::string(control::to_string(end.cause)) + ")"};
    } else if (!end.is_connected) {
        told = told_of(end.sys_errno, end.remote ? end.remote->to_string() : "");
    } else {
        told = told_of(end.cause);
    }
    return {told.kind, std::move(told.text), std::move(said), now_utc_s, true};
}

Failure failure_of(const control::Reject& reject, int64_t now_utc_s) {
    FailureKind kind = FailureKind::Rejected;
    switch (reject.reason) {
    case control::RejectReason::NoCommonVersion:
        kind = FailureKind::Version;
        break;
    case control::RejectReason::UserDisabled:
        kind = FailureKind::LoginRefused;
        break;
    case control::RejectReason::OtherSnapt:
        kind = FailureKind::WrongSnapt;
        break;
    default:
        break;
    }
    return {kind, "refused: " + reject.text, reject.text, now_utc_s, true};
}

void follow(Failure& before, Failure next) {
    const bool is_stranger_now = next.kind == FailureKind::LoginRefused && next.said.empty();
    const bool was_told =
        before.is_current && !before.said.empty() &&
        (before.kind == FailureKind::Ended || before.kind == FailureKind::LoginRefused);
    if (is_stranger_now && was_told) {
        next.said = before.said;
        next.text = "login refused: " + next.said;
    }
    before = std::move(next);
}

void write_failure(report::JsonWriter& json, const Failure& failure) {
    json.key("last_error");
    if (failure.kind == FailureKind::None) {
        json.null();
        return;
    }
    json.begin_object();
    json.field("kind", to_string(failure.kind));
    json.field("text", failure.text);
    json.field("at", failure.at_utc_s);
    json.field("current", failure.is_current);
    json.end_object();
}

}  // namespace continuo::cnapt::links
