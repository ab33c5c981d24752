#include "tests/sim/path_world.hpp"

#include <algorithm>
#include <utility>

namespace continuo::tests {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;
using path::Health;
using policy::Candidate;
using policy::PathManager;
using policy::PathView;
using policy::Transport;

namespace {

constexpr uint64_t kBytes = 1400;
constexpr uint32_t kDatagrams = 20;  // that leave in a step
constexpr Duration kUnmeasuredTimeout = seconds(1);

Duration timeout_of(Duration rtt) {
    return rtt + rtt / 2 + milliseconds(25);
}

}  // namespace

// Two probe time-outs without backoff: sooner than path::Liveness, whose second is twice as long.
Duration PathWorld::doubt_of(const PathView& view) {
    const Duration timeout =
        view.smoothed_rtt > Duration{} ? view.probe_timeout : kUnmeasuredTimeout;
    return std::max<Duration>(2 * timeout, milliseconds(250));
}

// --- The truth

bool PathWorld::leads(uint8_t slot) const {
    const Link& link = links_[slot];
    return link.is_there && link.has_carrier && link.passes;
}

bool PathWorld::carries(uint8_t slot, Transport transport) const {
    const Link& link = links_[slot];
    return leads(slot) &&
           (transport == Transport::Udp ? link.passes_udp && !link.swallows_data : !link.has_hole);
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

void PathWorld::readdress(uint8_t slot) {
    ++addresses_[slot];
    ++outages_[slot];
    ++news;
    if (connection_ == slot) {
        connection_.reset();
    }
    for (Way& each : ways_[slot]) {
        each.has_view = false;
        each.view = {};
        each.owed_since = base::kNever;
        each.works_since = base::kNever;
        each.in_vain_since = base::kNever;
    }
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
        ++news;
        hints_.push_back(slot);
        if (!link.has_carrier) {
            ways_[slot][0].has_view = false;
            ways_[slot][0].view = {};
        }
    }
    if (former.cost != link.cost) {
        ++news;
    }
    follow_truth();
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

void PathWorld::plan(Kind kind, uint8_t slot, Transport transport, Duration after) {
    const Event event{now_ + after, kind, slot, transport, outages_[slot], attempts_[slot]};
    const auto place =
        std::upper_bound(events_.begin(), events_.end(), event,
                         [](const Event& one, const Event& other) { return one.at < other.at; });
    events_.insert(place, event);
}

void PathWorld::take(const Event& event) {
    const Link& link = links_[event.slot];
    const bool is_udp = event.transport == Transport::Udp;
    if (event.outages != outages_[event.slot] || !leads(event.slot) ||
        (is_udp && !link.passes_udp)) {
        return;
    }
    Way& taken = way(event.slot, event.transport);
    if (event.kind == Kind::Connected) {
        if (event.attempt != attempts_[event.slot]) {
            return;
        }
        if (connection_ && connection_ != event.slot) {
            way(*connection_, Transport::Tcp).has_view = false;
            way(*connection_, Transport::Tcp).owed_since = base::kNever;
        }
        connection_ = event.slot;
        is_forgotten_ = false;
        stuck_until_ = {};
        taken.has_view = true;
        taken.view = {};
        taken.view.uplink = event.slot;
        taken.view.transport = Transport::Tcp;
        taken.owed_since = base::kNever;
    } else if (!is_udp && is_blocked(event.slot)) {
        return;
    }
    if (!taken.has_view) {
        return;
    }
    has_news_ = has_news_ || event.kind != Kind::Acknowledged || !taken.view.is_validated ||
                taken.view.health != Health::Usable;
    const bool is_in_use =
        active() && active()->uplink == event.slot && active()->transport == event.transport;
    if (!is_in_use || (!is_busy_ && event.kind == Kind::Answer)) {
        taken.owed_since = base::kNever;
    } else if (event.kind == Kind::Acknowledged) {
        taken.owed_since = is_busy_ ? now_ : base::kNever;
        delivered_at_ = now_;
        tries_ = 0;
    }
    taken.in_vain_since = base::kNever;
    taken.view.is_validated = true;
    taken.view.answered_at = now_;
    taken.view.smoothed_rtt = link.rtt;
    taken.view.probe_timeout = timeout_of(link.rtt);
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
    used.owed_since = std::min(used.owed_since, now_);
    const bool is_udp = transport == Transport::Udp;
    if (!carries(slot, transport) || (!is_udp && is_blocked(slot)) ||
        now_ < links_[slot].slow_until) {
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
    used.view.down.arrived += sent - lost;
    used.view.down.lost += lost;
    used.view.delivered_bytes += (sent - lost) * kBytes;
    if (sent > lost) {
        plan(Kind::Acknowledged, slot, transport, link.rtt);
    }
}

void PathWorld::look_at_health() {
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            Way& each = way(slot, transport);
            if (!each.has_view) {
                continue;
            }
            const Duration silent =
                each.owed_since == base::kNever ? Duration{} : now_ - each.owed_since;
            const Duration doubt = doubt_of(each.view);
            const Health health = silent >= std::max<Duration>(doubt * 3 / 2, seconds(1))
                                      ? Health::Dead
                                  : silent >= doubt ? Health::Doubtful
                                                    : Health::Usable;
            const bool has_hole = transport == Transport::Tcp && links_[slot].has_hole &&
                                  links_[slot].tells_hole && silent >= doubt / 2;
            has_news_ = has_news_ || health != each.view.health || has_hole != each.view.has_hole;
            each.view.health = health;
            each.view.has_hole = has_hole;
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
        facts.push_back(each);
        for (const Way& known : ways_[slot]) {
            if (known.has_view) {
                views.push_back(known.view);
            }
        }
    }
    const std::vector<uint16_t> ports = {9347};
    const auto former = active();
    const bool worked = former && way(former->uplink, former->transport).has_view &&
                        way(former->uplink, former->transport).view.is_validated &&
                        way(former->uplink, former->transport).view.health == Health::Usable &&
                        !way(former->uplink, former->transport).view.has_hole;
    const policy::PathPlan plan =
        manager_.decide({facts, views, ports, 9347, hints_, is_busy_}, now_);
    trace(plan);
    hints_.clear();
    has_news_ = false;
    next_at_ = plan.next_at;
    if (plan.activate) {
        ++moves;
        returns += worked ? 1U : 0U;
        most_tries = std::max(most_tries, ++tries_);
        activated_at_ = now_;
        leave(former);
        ask(*plan.activate);
    }
    for (const Candidate& candidate : plan.probe) {
        ask(candidate);
    }
}

// The next path repeats the datagrams of one that works; one that has timed out owes an answer
// until it gives one (path::Liveness). Nobody waits for a way that left the race.
void PathWorld::leave(const std::optional<Candidate>& former) {
    if (former && way(former->uplink, former->transport).view.health == Health::Usable) {
        way(former->uplink, former->transport).owed_since = base::kNever;
    }
    for (uint32_t& attempt : attempts_) {
        ++attempt;
    }
}

void PathWorld::ask(const Candidate& candidate) {
    const uint8_t slot = candidate.uplink;
    Way& asked = way(slot, candidate.transport);
    asked.in_vain_since = std::min(asked.in_vain_since, now_);
    const Link& link = links_[slot];
    const Duration wakes = std::max<Duration>(link.slow_until - now_, Duration{});
    const bool is_tcp = candidate.transport == Transport::Tcp;
    if (is_tcp &&
        !(asked.has_view && asked.view.health == Health::Usable && !asked.view.has_hole)) {
        ++attempts_[slot];
        if (leads(slot)) {
            plan(Kind::Connected, slot, Transport::Tcp, 3 * link.rtt + wakes);
        }
        return;
    }
    if (!asked.has_view) {
        asked.has_view = true;
        asked.view.uplink = slot;
        asked.view.port = candidate.to.port;
    }
    asked.owed_since = std::min(asked.owed_since, now_);
    const bool is_lost =
        below(100) < link.loss_percent || (!is_tcp && link.is_throttled && one_in(2));
    if (leads(slot) && !is_lost && (is_tcp ? !is_blocked(slot) : link.passes_udp)) {
        plan(Kind::Answer, slot, candidate.transport, link.rtt + wakes);
    }
}

}  // namespace continuo::tests
