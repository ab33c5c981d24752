#include "snapt/users/session_upkeep.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"

#include <algorithm>
#include <cstdlib>

namespace continuo::snapt::users {

using base::log;
using base::LogLevel;
using daemon::describe;
using daemon::utc_us;

namespace {

// Renewals of a lease within its time, while its session is here. A choice, not measured.
constexpr int kRenewalsOfALease = 8;
// A clock that is set changes by more than a disciplined one. A choice, not measured.
constexpr int64_t kClockSetUs = 60'000'000;
// A crash loses the use of keys of this time. A choice, not measured.
constexpr base::Duration kSeenInterval = base::seconds(300);

}  // namespace

int64_t wall_clock_offset_us(base::TimePoint now) {
    return utc_us() - base::to_us(now.time_since_epoch());
}

SessionUpkeep::SessionUpkeep(const AdmissionParts& parts)
    : parts_(parts)
    , leases_renewed_at_(parts.loop.now())
    , seen_written_at_(leases_renewed_at_)
    , clock_offset_us_(wall_clock_offset_us(leases_renewed_at_)) {}

void SessionUpkeep::on_tick(const relay::Relay& relay) {
    renew_leases();
    write_seen(relay);
}

void SessionUpkeep::on_session_closed(const relay::NodeSession& session) {
    note_seen(session);
    if (!has_finished_) {
        release_lease(session.grant);
    }
}

// Held until it is renewed: an expired lease could go to any node.
void SessionUpkeep::release_lease(const relay::SessionGrant& grant) {
    const bool is_submitted =
        parts_.worker.submit([&leases = parts_.leases, user = grant.user,
                              account_id = grant.account_id, node = grant.node, now_us = utc_us()] {
            if (const auto renewed = leases.renew(account_id, node, now_us); !renewed) {
                log(LogLevel::Warning, "no lease for %s/%s: %s", user.c_str(), node.c_str(),
                    describe(renewed.error()).c_str());
            }
            leases.release(account_id, node);
        });
    if (!is_submitted) {
        log(LogLevel::Warning, "the lease of %s/%s is not renewed: too much work",
            grant.user.c_str(), grant.node.c_str());
        parts_.leases.release(grant.account_id, grant.node);
    }
}

void SessionUpkeep::renew_leases() {
    const base::TimePoint now = parts_.loop.now();
    // A wrong clock has given wrong times.
    const int64_t offset_us = wall_clock_offset_us(now);
    const bool is_clock_set = std::abs(offset_us - clock_offset_us_) > kClockSetUs;
    if (!is_clock_set && now - leases_renewed_at_ < parts_.config.inner.lease / kRenewalsOfALease) {
        return;
    }
    const bool is_accepted = parts_.worker.submit([&leases = parts_.leases, now_us = utc_us()] {
        if (const auto renewed = leases.renew_held(now_us); !renewed) {
            log(LogLevel::Warning, "leases are not renewed: %s", describe(renewed.error()).c_str());
        }
    });
    if (is_accepted) {  // otherwise the queue is full: at the next tick
        leases_renewed_at_ = now;
        clock_offset_us_ = offset_us;
    }
}

void SessionUpkeep::finish(const relay::Relay& relay) {
    has_finished_ = true;
    note_seen(relay);
    if (const auto written = parts_.users.write_seen(); !written) {
        log(LogLevel::Warning, "when keys were last seen is not written: %s",
            describe(written.error()).c_str());
    }
    if (const auto renewed = parts_.leases.renew_held(utc_us()); !renewed) {
        log(LogLevel::Warning, "leases are not renewed: %s", describe(renewed.error()).c_str());
    }
}

void SessionUpkeep::note_seen(const relay::NodeSession& session) {
    const base::TimePoint heard_at = std::max(session.session.heard_at(), session.handshake_at);
    const int64_t ago_us = base::to_us(parts_.loop.now() - heard_at);
    parts_.users.note_seen(session.grant.user, session.grant.key_id, utc_us() - ago_us);
}

void SessionUpkeep::note_seen(const relay::Relay& relay) {
    for (const auto& session : relay.sessions()) {
        note_seen(*session);
    }
}

void SessionUpkeep::write_seen(const relay::Relay& relay) {
    const base::TimePoint now = parts_.loop.now();
    if (now - seen_written_at_ < kSeenInterval) {
        return;
    }
    note_seen(relay);
    const bool is_accepted = parts_.worker.submit([&users = parts_.users] {
        if (const auto written = users.write_seen(); !written) {
            log(LogLevel::Warning, "when keys were last seen is not written: %s",
                describe(written.error()).c_str());
        }
    });
    if (is_accepted) {
        seen_written_at_ = now;
    }
}

}  // namespace continuo::snapt::users
