// AdmissionLog: events of logins, refusals, allowances and ends of sessions.
#pragma once

#include "common/control/message.hpp"
#include "snapt/relay/relay.hpp"
#include "snapt/users/admission_parts.hpp"

#include <string>

namespace continuo::snapt::users {

class AdmissionLog {
  public:
    // `parts` must outlive it.
    explicit AdmissionLog(const AdmissionParts& parts) : parts_(parts) {}
    void refused(const relay::SessionGrant& grant,
                 const base::Endpoint& from,
                 const std::string& text,
                 const std::string& cause);
    void let_in(const relay::SessionGrant& grant,
                const base::Endpoint& from,
                const relay::Reservation& session);
    void allowed(const relay::SessionGrant& grant, const control::Allowance& allowance);
    void ended(const relay::NodeSession& session);

  private:
    void write(links::EventLog::Kind kind, links::EventLog::Fields fields);

    const AdmissionParts& parts_;
};

}  // namespace continuo::snapt::users
