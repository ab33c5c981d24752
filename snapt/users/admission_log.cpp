#include "snapt/users/admission_log.hpp"

#include <chrono>

namespace continuo::snapt::users {

using links::EventLog;
using relay::SessionGrant;

void AdmissionLog::write(EventLog::Kind kind, EventLog::Fields fields) {
    if (parts_.events != nullptr) {
        parts_.events->write(kind, fields, parts_.loop.now());
    }
}

void AdmissionLog::refused(const SessionGrant& grant,
                           const base::Endpoint& from,
                           const std::string& text,
                           const std::string& cause) {
    write(EventLog::Kind::Refusal, {{"user", grant.user},
                                    {"node", grant.node},
                                    {"from", from.to_string()},
                                    {"reason", text},
                                    {"cause", cause}});
}

void AdmissionLog::let_in(const SessionGrant& grant,
                          const base::Endpoint& from,
                          const relay::Reservation& session) {
    const auto text_of = [](const std::optional<base::IpAddress>& address) {
        return address ? address->to_string() : std::string("-");
    };
    write(EventLog::Kind::Login, {{"user", grant.user},
                                  {"node", grant.node},
                                  {"from", from.to_string()},
                                  {"session", std::to_string(session.wire_id)},
                                  {"continued", session.is_continued ? "yes" : "no"},
                                  {"ipv4", text_of(grant.lease_ipv4)},
                                  {"ipv6", text_of(grant.lease_ipv6)}});
}

void AdmissionLog::allowed(const SessionGrant& grant, const control::Allowance& allowance) {
    const auto state = static_cast<accounting::Allowance::State>(allowance.state);
    write(EventLog::Kind::Allowance,
          {{"user", grant.user},
           {"node", grant.node},
           {"of", allowance.kind == control::AllowanceKind::Credit ? "credit" : "quota"},
           {"state", std::string(to_string(state))},
           {"quota_bytes", std::to_string(allowance.quota_bytes)},
           {"used_bytes", std::to_string(allowance.used_bytes)},
           {"until", std::to_string(allowance.until_s)}});
}

void AdmissionLog::ended(const relay::NodeSession& session) {
    const auto remote = relay::remote_of(session.session);
    const auto lived = parts_.loop.now() - session.since;
    write(EventLog::Kind::End,
          {{"user", session.grant.user},
           {"node", session.grant.node},
           {"from", remote ? remote->to_string() : "-"},
           {"session", std::to_string(session.wire_id)},
           {"reason", std::string(to_string(session.end))},
           {"duration_s",
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(lived).count())},
           {"up_bytes", std::to_string(session.up_bytes)},
           {"down_bytes", std::to_string(dataplane::inner_bytes_sent(session.session))}});
}

}  // namespace continuo::snapt::users
