#include "tests/sim/path_world.hpp"

#include <algorithm>
#include <utility>

namespace continuo::tests {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;
using policy::Candidate;
using policy::PathManager;
using policy::PathView;
using policy::Transport;
using recovery::Health;

namespace {

constexpr uint64_t kBytes = 1400;
constexpr uint32_t kDatagrams = 20;  // that leave in a step
constexpr Duration kUnmeasuredTimeout = seconds(1);

// An acknowledgement is owed for what is on the way in a step.
constexpr uint64_t kOwed = kDatagrams * kBytes;
static_assert(kOwed >= recovery::Liveness::kOwedBytes);

}  // namespace

Duration PathWorld::timeout_of(const PathView& view) {
    return view.smoothed_rtt > Duration{} ? view.probe_timeout : kUnmeasuredTimeout;
}

// recovery::Liveness: a probe time-out, the probes, and another one for the last of them.
Duration PathWorld::doubt_of(const PathView& view) {
    constexpr Duration kProbing =
        (recovery::Liveness::kProbes - 1) * recovery::Liveness::kProbeInterval;
    return std::max<Duration>(2 * timeout_of(view) + kProbing, recovery::Liveness::kDoubtfulAfter);
}

// --- The truth

bool PathWorld::leads(uint8_t slot) const {
    const Link& link = links_[slot];
    return link.is_there && link.has_carrier && link.has_route && link.passes;
}

bool PathWorld::carries(uint8_t slot, Transport transport) const {
    const Link& link = links_[slot];
    return leads(slot) &&
           (transport == Transport::Udp ? link.passes_udp && !link.swallows_data : !link.has_hole);
}

bool PathWorld::passes_udp(uint8_t slot, uint16_t port) const {
    return links_[slot].passes_udp && (links_[slot].passes_first_port || port != kPorts[0]);
}

// All data and all questions arrive.
bool PathWorld::is_good(uint8_t slot, Transport transport) const {
    return carries(slot, transport) && links_[slot].loss_percent == 0 && !links_[slot].is_throttled;
}

// Full segments stand in the hole of the TCP connection in use, and all that follows waits.
bool PathWorld::is_blocked(uint8_t slot) const {
    const bool is_in_use =
        active() && active()->uplink == slot && active()->transport == Transport::Tcp;
    return connection_ != slot || is_forgotten_ || now_ < stuck_until_ ||
           (is_in_use && links_[slot].has_hole);
}

void PathWorld::appear(uint8_t slot) {
    Link link;
    link.is_there = true;
    link.rtt = milliseconds(2 + below(300));
    link.slow_until = one_in(3) ? now_ + milliseconds(below(1500)) : now_;
    link.cost = below(100) * kUplinks + slot;
    readdress(slot);
    change(slot, link);
}

void PathWorld::vanish(uint8_t slot) {
    Link link = links_[slot];
    link.is_there = false;
    change(slot, link);
    readdress(slot);
}

void PathWorld::readdress(uint8_t slot) {
    ++addresses_[slot];
    ++outages_[slot];
    if (connection_ == slot) {
        connection_.reset();
    }
    ways_[slot] = new_ways();
    worse_at_ = now_;
    follow_truth();
}

void PathWorld::change(uint8_t slot, Link link) {
    const bool led = leads(slot);
    const Link former = std::exchange(links_[slot], link);
    if (led && !leads(slot)) {
        ++outages_[slot];
        silent_since_[slot] = now_;
    }
    if (!led && leads(slot) && connection_ == slot) {
        const auto outage_ms = static_cast<uint32_t>(base::to_ms(now_ - silent_since_[slot]));
        stuck_until_ = now_ + milliseconds(below(outage_ms + 1));
    }
    if (former.has_carrier != link.has_carrier) {
        hints_.push_back(slot);
        if (!link.has_carrier) {
            ways_[slot][0].has_view = false;
            ways_[slot][0].view = {};
            ways_[slot][0].liveness = {};
            forget(slot);
        }
    }
    if (former.passes_first_port != link.passes_first_port) {
        ways_[slot][0].works_since = base::kNever;
        worse_at_ = now_;
    }
    follow_truth();
}

void PathWorld::forget(uint8_t slot) {
    for (Way& each : ways_[slot]) {
        each.rest.end();
        each.lost_at = {};
        each.failures.clear();
    }
}

void PathWorld::forget_connections() {
    is_forgotten_ = connection_.has_value();
    worse_at_ = now_;
}

void PathWorld::set_busy(bool is_busy) {
    if (!std::exchange(is_busy_, is_busy) && is_busy) {
        busy_since_ = now_;
        for (auto& ways : ways_) {
            for (Way& each : ways) {
                each.in_vain_since = base::kNever;
                each.asked_in_vain = {};
            }
        }
    }
    has_news_ = true;
}

void PathWorld::follow_truth() {
    has_news_ = true;
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            Way& each = way(slot, transport);
            const bool works = is_good(slot, transport);
            if (works && each.works_since == base::kNever) {
                each.asked_in_vain =
                    each.in_vain_since == base::kNever ? Duration{} : now_ - each.in_vain_since;
                each.works_since = std::max(now_, links_[slot].slow_until);
            } else if (!works) {
                each.works_since = base::kNever;
            }
            if (std::exchange(each.carried, carries(slot, transport)) && !each.carried) {
                worse_at_ = now_;
            }
        }
    }
}

// --- Time

void PathWorld::run(Duration span) {
    for (const TimePoint end = now_ + span; now_ < end && fault.empty();) {
        now_ += kStep;
        step();
    }
}

void PathWorld::step() {
    while (!events_.empty() && events_.front().at <= now_) {
        const Event event = events_.front();
        events_.pop_front();
        take(event);
        decide_if_due();
    }
    decide_if_due();
    send_data();
    watch();
}

void PathWorld::decide_if_due() {
    look_at_health();
    if (has_news_ || now_ >= next_at_) {
        decide();
    }
}

void PathWorld::plan(Kind kind, const Candidate& way, Duration after) {
    const Event event{
        now_ + after,          kind,       way.uplink, way.transport, outages_[way.uplink],
        attempts_[way.uplink], way.to.port};
    const auto place =
        std::upper_bound(events_.begin(), events_.end(), event,
                         [](const Event& one, const Event& other) { return one.at < other.at; });
    events_.insert(place, event);
}

void PathWorld::take(const Event& event) {
    const Link& link = links_[event.slot];
    const bool is_udp = event.transport == Transport::Udp;
    if (event.outages != outages_[event.slot] || !leads(event.slot) ||
        (is_udp && !passes_udp(event.slot, event.port))) {
        return;
    }
    Way& taken = way(event.slot, event.transport);
    if (event.kind == Kind::Connected) {
        if (event.attempt != attempts_[event.slot]) {
            return;
        }
        if (connection_ && connection_ != event.slot) {
            way(*connection_, Transport::Tcp).has_view = false;
            way(*connection_, Transport::Tcp).liveness = {};
        }
        connection_ = event.slot;
        is_forgotten_ = false;
        stuck_until_ = {};
        taken.has_view = true;
        taken.view = {};
        taken.view.uplink = event.slot;
        taken.view.transport = Transport::Tcp;
        taken.view.opened_at = now_;
        taken.liveness = {};
    } else if (!is_udp && is_blocked(event.slot)) {
        return;
    }
    if (!taken.has_view) {
        return;
    }
    if (std::exchange(taken.view.port, event.port) != event.port && is_udp) {
        taken.liveness = {};  // another path
    }
    has_news_ = has_news_ || event.kind != Kind::Acknowledged || !taken.view.is_validated ||
                taken.view.health != Health::Usable;
    const bool is_in_use =
        active() && active()->uplink == event.slot && active()->transport == event.transport;
    if (!is_in_use || (!is_busy_ && event.kind == Kind::Answer)) {
        taken.liveness.on_progress(0, false, now_);
    } else if (event.kind == Kind::Acknowledged) {
        taken.liveness.on_progress(is_busy_ ? kOwed : 0, false, now_);
        delivered_at_ = now_;
        for (auto& ways : ways_) {
            for (Way& each : ways) {
                each.failures.clear();
            }
        }
    }
    taken.liveness.on_heard(now_);
    taken.in_vain_since = base::kNever;
    taken.view.is_validated = true;
    taken.view.answered_at = now_;
    taken.view.smoothed_rtt = link.rtt;
    taken.view.probe_timeout = link.rtt + link.rtt / 2 + milliseconds(25);
}

// A steady flow. A sender slows down behind a throttle, and TCP does on a bad link.
void PathWorld::send_data() {
    if (!active() || !is_busy_) {
        return;
    }
    const uint8_t slot = active()->uplink;
    const Transport transport = active()->transport;
    Way& used = way(slot, transport);
    if (!used.has_view) {
        return;
    }
    used.liveness.on_sent(true, false, kOwed, now_);
    const bool is_udp = transport == Transport::Udp;
    if (!carries(slot, transport) || (!is_udp && is_blocked(slot)) ||
        (is_udp && !passes_udp(slot, active()->to.port)) || now_ < links_[slot].slow_until) {
        return;
    }
    const Link& link = links_[slot];
    uint32_t lost = 0;
    uint32_t sent = kDatagrams;
    if (is_udp && link.is_throttled) {
        sent = 4;
        lost = 3;
    } else if (is_udp) {
        for (uint32_t n = 0; n < kDatagrams; ++n) {
            lost += below(100) < link.loss_percent ? 1U : 0U;
        }
    } else if (link.loss_percent >= 10) {
        sent = 1;
    }
    policy::PathTraffic& traffic = link.loses_upward ? used.view.up : used.view.down;
    traffic.arrived += sent - lost;
    traffic.lost += lost;
    used.view.has_full_queue = link.has_full_queue;
    if (lost > 0) {
        used.lost_at = now_;
        lost_at_ = now_;
    }
    traffic.delivered_bytes += (sent - lost) * kBytes;
    if (sent > lost) {
        plan(Kind::Acknowledged, *active(), link.rtt);
    }
}

void PathWorld::look_at_health() {
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            Way& each = way(slot, transport);
            if (!each.has_view) {
                continue;
            }
            if (each.liveness.on_time(timeout_of(each.view), now_)) {
                Candidate probed{slot, {}, transport};
                probed.to.port = each.view.port;
                send_question(probed);
            }
            const bool is_stuck = transport == Transport::Tcp && links_[slot].has_hole &&
                                  links_[slot].tells_hole && each.liveness.timeouts() > 0;
            const Health health =
                std::max(each.liveness.health(), is_stuck ? Health::Doubtful : Health::Usable);
            has_news_ = has_news_ || health != each.view.health;
            each.view.health = health;
        }
    }
}

// --- The manager

void PathWorld::decide() {
    std::vector<policy::UplinkFacts> facts;
    std::vector<PathView> views;
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        if (!links_[slot].is_there) {
            continue;
        }
        policy::UplinkFacts each;
        each.slot = slot;
        each.local = *base::IpAddress::parse("192.168." + std::to_string(slot) + "." +
                                             std::to_string(1 + addresses_[slot] % 250));
        each.network = slot + 1U;
        each.remote = *base::IpAddress::parse("198.51.100.2");
        each.cost = links_[slot].cost;
        each.can_carry = links_[slot].has_carrier;
        each.has_route = links_[slot].has_route;
        each.is_weak = links_[slot].is_weak;
        facts.push_back(each);
        for (const Way& known : ways_[slot]) {
            if (known.has_view) {
                views.push_back(known.view);
            }
        }
    }
    const auto former = active();
    const bool worked = former && way(former->uplink, former->transport).has_view &&
                        way(former->uplink, former->transport).view.is_validated &&
                        way(former->uplink, former->transport).view.health == Health::Usable;
    const policy::PathPlan plan =
        manager_.decide({facts, views, kPorts, kPorts[0], hints_, is_busy_}, now_);
    trace(plan);
    hints_.clear();
    has_news_ = false;
    next_at_ = plan.next_at;
    if (plan.ends_attempts) {
        for (uint32_t& attempt : attempts_) {
            ++attempt;
        }
    }
    if (plan.activate) {
        account(former, worked);
        activated_at_ = now_;
        leave(former);
        ask(*plan.activate);
    }
    for (const Candidate& candidate : plan.probe) {
        ask(candidate);
    }
}

// The next path repeats the datagrams of one that works; one that has timed out owes an answer
// until it gives one (recovery::Liveness).
void PathWorld::leave(const std::optional<Candidate>& former) {
    if (former && former != active()) {
        way(former->uplink, former->transport).liveness.on_taken_out(0, false);
    }
}

void PathWorld::ask(const Candidate& candidate) {
    const uint8_t slot = candidate.uplink;
    Way& asked = way(slot, candidate.transport);
    asked.in_vain_since = std::min(asked.in_vain_since, now_);
    const Link& link = links_[slot];
    const Duration wakes = std::max<Duration>(link.slow_until - now_, Duration{});
    const bool is_tcp = candidate.transport == Transport::Tcp;
    if (is_tcp && !(asked.has_view && asked.view.health == Health::Usable)) {
        ++attempts_[slot];
        if (leads(slot)) {
            plan(Kind::Connected, candidate, 3 * link.rtt + wakes);
        }
        return;
    }
    if (!asked.has_view) {
        asked.has_view = true;
        asked.view.uplink = slot;
        asked.view.port = candidate.to.port;
    }
    send_question(candidate);
}

void PathWorld::send_question(const Candidate& candidate) {
    const uint8_t slot = candidate.uplink;
    const Link& link = links_[slot];
    const bool is_tcp = candidate.transport == Transport::Tcp;
    way(slot, candidate.transport).liveness.on_sent(false, true, 0, now_);
    const bool is_lost =
        below(100) < link.loss_percent || (!is_tcp && link.is_throttled && one_in(2));
    if (leads(slot) && !is_lost &&
        (is_tcp ? !is_blocked(slot) : passes_udp(slot, candidate.to.port))) {
        const Duration wakes = std::max<Duration>(link.slow_until - now_, Duration{});
        plan(Kind::Answer, candidate, link.rtt + wakes);
    }
}

}  // namespace continuo::tests
