// Failure: why a SNAPT, or a path to it, last failed, and when. Shown in the log, `status`,
// `snapts` and `paths`. Values; pure.
#pragma once

#include "cnapt/control_link/control_client.hpp"
#include "common/control/message.hpp"
#include "common/report/json.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace continuo::cnapt::links {

enum class FailureKind : uint8_t {
    None,
    LoginRefused,       // user unknown, key wrong or user disabled: the same answer, so that
                        // strangers learn nothing
    Rejected,           // the SNAPT knows the user, and says why it does not let the node in
    Ended,              // the SNAPT ended the session, and says why
    Replaced,           // another node of this user and name took the session over
    Version,            // the two ends have no version of the protocol in common
    WrongSnapt,         // a SNAPT of another name or realm
    NoSnapt,            // TCP connects; no SNAPT answers
    ConnectionRefused,  // by TCP reset
    Unreachable,        // ICMP or this host's firewall says so
    TimedOut,           // TCP: no answer
    Silent,             // UDP: nothing comes back
    NoNetwork,          // no uplink, no carrier or no route
    NameNotFound,
    Portal,       // a captive portal answers in its place
    ControlLost,  // the control connection alone; data goes on
};
// "login_refused"
std::string_view to_string(FailureKind kind);

struct Failure {
    FailureKind kind = FailureKind::None;
    std::string text;         // one sentence without a full stop; not yet printable
    std::string said;         // the SNAPT's own words; empty: none
    int64_t at_utc_s = 0;     // Unix time when it happened last
    bool is_current = false;  // nothing has worked since

    bool is_now(FailureKind which) const { return is_current && kind == which; }
};

// `was_open`: the control link had been established.
Failure failure_of(const control_link::LinkEnd& end, bool was_open, int64_t now_utc_s);
Failure failure_of(const control::Reject& reject, int64_t now_utc_s);
Failure make_failure(FailureKind kind, std::string text, int64_t now_utc_s);

// Merges `next`, which happened after `before`. A SNAPT tells a stranger nothing: the reason it
// gave before it began to refuse the login remains until the node is let in again.
void follow(Failure& before, Failure next);

// Field `last_error`: null, or an object with kind, text, at (Unix time) and current.
void write_failure(report::JsonWriter& json, const Failure& failure);

}  // namespace continuo::cnapt::links
