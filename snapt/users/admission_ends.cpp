// Admission: refusals; what nodes are told of their allowances; ends of sessions without a fault of
// the node: its user may not log in any more, the operator ends it, or its handshake is too old.
#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "snapt/users/admission.hpp"
#include "snapt/users/allowance_message.hpp"
#include "snapt/users/answers.hpp"

#include <utility>
#include <vector>

namespace continuo::snapt::users {
namespace {

using control::RejectReason;
using daemon::describe;
using links::LinkId;
using relay::SessionEnd;
using relay::SessionGrant;

constexpr const char* kNotAnyMore = "the user was disabled or removed, or got another key";
constexpr const char* kByOperator = "the operator ended the session";

}  // namespace

void Admission::refuse(LinkId id,
                       RejectReason reason,
                       const std::string& text,
                       const std::string& cause) {
    const Link& link = links_[id];
    log_.refused(link.grant, link.from, text, cause);
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

void Admission::tell_allowance(LinkId id, Link& link) {
    const relay::NodeSession* node = relay_->table().find(link.wire_id);
    if (node == nullptr) {
        return;
    }
    const control::Allowance now = allowance_message(node->share->meter->allowance());
    // The relay checks it each second: it is reported once it acts.
    const bool acts =
        now.state != control::AllowanceState::Throttled || node->share->down_rate.is_limited();
    if (!is_news(now, link.told) || !acts) {
        return;
    }
    const bool is_other = now.state != link.told.state || now.kind != link.told.kind;
    link.told = now;
    server_->tell_allowance(id, now);
    if (is_other) {
        log_.allowed(link.grant, now);
    }
}

// Not when its key now belongs to another account.
bool Admission::may_still_log_in(const SessionGrant& grant) const {
    return parts_.users.account_of(grant.user, grant.key_id) == grant.account_id;
}

bool Admission::reject_if_disabled(LinkId id, const SessionGrant& grant) {
    if (may_still_log_in(grant)) {
        return false;
    }
    refuse(id, RejectReason::UserDisabled,
           "the user is disabled, or its key is not valid any more");
    return true;
}

// A session that another process took over is not restarted while that process is here: they would
// take it from each other for ever.
bool Admission::reject_if_copied(LinkId id, const SessionGrant& grant) {
    const relay::NodeSession* other = relay_->table().session_of(grant);
    if (other == nullptr || other->replaced != grant.session_id || !link_of(other->wire_id)) {
        return false;
    }
    refuse(id, RejectReason::NodeInUse,
           "another node has this one's name and id: is it a copy? Remove node_id in its state "
           "folder, or give it another name");
    return true;
}

size_t Admission::end_user(std::string_view user) {
    return end_all([user](const SessionGrant& grant) { return grant.user == user; },
                   SessionEnd::NotAllowed, kNotAnyMore)
        .sessions;
}

Admission::Ended Admission::disconnect_user(std::string_view user) {
    return end_all([user](const SessionGrant& grant) { return grant.user == user; },
                   SessionEnd::ByOperator, kByOperator);
}

Admission::Ended Admission::disconnect_session(std::string_view session_id) {
    return end_all(
        [session_id](const SessionGrant& grant) { return hex_of(grant.session_id) == session_id; },
        SessionEnd::ByOperator, kByOperator);
}

size_t Admission::end_revoked() {
    return end_all([this](const SessionGrant& grant) { return !may_still_log_in(grant); },
                   SessionEnd::NotAllowed, kNotAnyMore)
        .sessions;
}

// Tell the node to stay away, not that its session is lost: it would begin another one.
Admission::Ended Admission::end_all(const std::function<bool(const SessionGrant& grant)>& is_meant,
                                    SessionEnd session_end,
                                    const char* why) {
    const auto reason = session_end == SessionEnd::Drained ? control::CloseReason::Draining
                                                           : control::CloseReason::Disconnected;
    const size_t before = relay_->sessions().size();
    Ended ended;
    for (auto& [id, link] : links_) {
        if (is_meant(link.grant)) {
            ended.logins += link.is_waiting && !link.grant.key_id.empty() ? size_t{1} : size_t{0};
            end_link(id, link, reason, session_end, why);
        }
    }
    const auto& sessions = relay_->sessions();
    for (size_t i = sessions.size(); i-- > 0;) {  // whose link was lost before
        if (is_meant(sessions[i]->grant)) {
            relay_->close(sessions[i]->wire_id, session_end);
        }
    }
    ended.sessions = before - relay_->sessions().size();
    return ended;
}

void Admission::end_link(
    LinkId id, Link& link, control::CloseReason reason, SessionEnd session_end, const char* why) {
    server_->close(id, reason, why);
    link.grant.key_id.clear();  // no user has this: a pending lease must not let the node in
    if (const uint16_t wire_id = std::exchange(link.wire_id, uint16_t{0}); wire_id != 0) {
        relay_->close(wire_id, session_end);
    }
}

void Admission::end_old_keys(base::TimePoint now) {
    std::vector<uint16_t> old;
    for (const auto& session : relay_->sessions()) {
        if (now - session->handshake_at >= kMaxHandshakeAge) {
            old.push_back(session->wire_id);
        }
    }
    for (const uint16_t wire_id : old) {
        const SessionGrant& grant = relay_->table().find(wire_id)->grant;
        base::log(base::LogLevel::Warning, "%s/%s has made no handshake for a day: session ended",
                  grant.user.c_str(), grant.node.c_str());
        if (const auto id = link_of(wire_id)) {
            end_link(*id, links_.at(*id), control::CloseReason::Timeout, SessionEnd::OldHandshake,
                     "the handshake is a day old");
        } else {
            relay_->close(wire_id, SessionEnd::OldHandshake);
        }
    }
}

}  // namespace continuo::snapt::users
