// Admission: log lines for logins and ends of sessions, and refusals.
#include "common/daemon/startup.hpp"
#include "snapt/users/admission.hpp"

#include <chrono>

namespace continuo::snapt::users {

using control::RejectReason;
using daemon::describe;
using links::EventLog;
using links::LinkId;

void Admission::note(EventLog::Kind kind, EventLog::Fields fields) {
    if (parts_.events != nullptr) {
        parts_.events->write(kind, fields, parts_.loop.now());
    }
}

void Admission::refuse(LinkId id,
                       RejectReason reason,
                       const std::string& text,
                       const std::string& cause) {
    const Link& link = links_[id];
    note(EventLog::Kind::Refusal, {{"user", link.grant.user},
                                   {"node", link.grant.node},
                                   {"from", link.from.to_string()},
                                   {"reason", text},
                                   {"cause", cause}});
    server_->reject(id, reason, text);
}

void Admission::refuse_without_lease(LinkId id, const base::Error& error) {
    if (store::is_disk_full(error)) {
        parts_.accountant.note_write(error);
        refuse(id, RejectReason::Internal, kDiskFullText, describe(error));
    } else if (error.code == base::Errc::LimitReached) {
        refuse(id, RejectReason::NoLease, "no address is free", describe(error));
    } else {
        refuse(id, RejectReason::Internal, "no lease can be given now", describe(error));
    }
}

void Admission::refuse_without_ledger(LinkId id, const base::Error& error) {
    refuse(id, RejectReason::Internal,
           store::is_disk_full(error) ? kDiskFullText : "the ledger cannot be written",
           describe(error));
}

void Admission::note_login(const Link& link, bool is_continued) {
    const auto text_of = [](const std::optional<base::IpAddress>& address) {
        return address ? address->to_string() : std::string("-");
    };
    note(EventLog::Kind::Login, {{"user", link.grant.user},
                                 {"node", link.grant.node},
                                 {"from", link.from.to_string()},
                                 {"session", std::to_string(link.wire_id)},
                                 {"continued", is_continued ? "yes" : "no"},
                                 {"ipv4", text_of(link.grant.lease_ipv4)},
                                 {"ipv6", text_of(link.grant.lease_ipv6)}});
}

void Admission::note_end(const relay::NodeSession& session) {
    const auto remote = relay::remote_of(session.session);
    const auto lived = parts_.loop.now() - session.since;
    note(EventLog::Kind::End,
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
