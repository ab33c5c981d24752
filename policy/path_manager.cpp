#include "policy/path_manager.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace continuo::policy {

using base::Duration;
using base::TimePoint;
using recovery::Health;

namespace {

size_t index_of(Transport transport) {
    return static_cast<size_t>(transport);
}

}  // namespace

bool PathManager::Option::works() const {
    return view != nullptr && view->is_validated && view->health == Health::Usable;
}

bool PathManager::Option::has_answered_since(TimePoint since) const {
    return works() && view->answered_at != TimePoint{} && view->answered_at >= since &&
           (remote_since == TimePoint{} || view->answered_at > remote_since);
}

bool PathManager::Option::is_unanswered() const {
    return memory->asked_at != TimePoint{} &&
           (view == nullptr || view->answered_at < memory->asked_at);
}

bool PathManager::Option::has_lost_connection() const {
    return memory->asked_open && !works();
}

bool PathManager::rests(const Option& option, TimePoint now) {
    return now < option.memory->rests_until();
}

TimePoint PathManager::rests_until(uint8_t uplink, Transport transport) const {
    return memory_.at(uplink).transports.at(index_of(transport)).rests_until();
}

PathPlan PathManager::decide(const PathSituation& situation, TimePoint now) {
    follow(situation, now);
    Look look{situation, now, options_of(situation), nullptr, {}};
    note_answers(look);
    look_at_loss(look);
    look_at_trial(look);
    judge(look);
    if (const Option* next = choose(look)) {
        activate(look, *next);
        judge(look);
    } else {
        follow_address(look);
    }
    const bool had_race = std::exchange(was_racing_, races(look));
    look.plan.ends_attempts = look.plan.activate.has_value() || (had_race && !was_racing_);
    note_need(look);
    take_hints(look);
    ask(look);
    return std::move(look.plan);
}

// An uplink that came, or lost its carrier, or another address of the SNAPT: what is remembered
// belongs to another way.
void PathManager::follow(const PathSituation& situation, TimePoint now) {
    const auto uplinks = situation.uplinks;
    const auto& ports = situation.udp_ports;
    const auto known = std::find(ports.begin(), ports.end(), situation.known_port);
    const size_t first_port = known == ports.end() ? 0 : static_cast<size_t>(known - ports.begin());
    for (size_t slot = 0; slot < memory_.size(); ++slot) {
        UplinkMemory& memory = memory_[slot];
        const auto facts = std::find_if(uplinks.begin(), uplinks.end(),
                                        [&](const auto& each) { return each.slot == slot; });
        const bool is_there = facts != uplinks.end();
        const bool is_same = is_there && memory.is_there && memory.local == facts->local &&
                             memory.network == facts->network;
        if (!is_same && active_ && active_->uplink == slot) {
            active_.reset();
        }
        const bool is_elsewhere = is_same && memory.remote != facts->remote;
        const TimePoint remote_since = is_same ? memory.remote_since : TimePoint{};
        if (!is_same || !facts->can_carry || is_elsewhere) {
            memory = {};
            memory.port = first_port;
        }
        if (is_there) {
            memory.remote = facts->remote;
            memory.remote_since = is_elsewhere ? now : remote_since;
            memory.is_there = true;
            memory.local = facts->local;
            memory.network = facts->network;
        }
    }
}

std::vector<PathManager::Option> PathManager::options_of(const PathSituation& situation) {
    std::vector<Option> options;
    options.reserve(situation.uplinks.size() * kTransports);
    for (const UplinkFacts& uplink : situation.uplinks) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            if (!uplink.can_carry || uplink.slot >= kMostUplinks ||
                (transport == Transport::Tcp && situation.tcp_port == 0)) {
                continue;
            }
            const auto view = std::find_if(
                situation.paths.begin(), situation.paths.end(), [&](const PathView& path) {
                    return path.uplink == uplink.slot && path.transport == transport;
                });
            options.push_back({&uplink, view == situation.paths.end() ? nullptr : &*view,
                               &memory_[uplink.slot].transports[index_of(transport)],
                               memory_[uplink.slot].remote_since, transport, 0});
        }
    }
    std::sort(options.begin(), options.end(), [](const Option& one, const Option& other) {
        const auto key = [](const Option& option) {
            return std::tuple(option.transport, !option.uplink->has_route, option.uplink->cost,
                              option.uplink->slot);
        };
        return key(one) < key(other);
    });
    // UDP and TCP take turns, as address families do (RFC 8305 section 4). A connection that is
    // open comes before those that would have to be made.
    std::array<size_t, kTransports> turns = {0, 1};
    for (const bool is_open : {true, false}) {
        for (Option& option : options) {
            const bool is_udp = option.transport == Transport::Udp;
            if (!is_active(option) && is_open == (is_udp || option.works())) {
                option.turn = std::exchange(turns[index_of(option.transport)],
                                            turns[index_of(option.transport)] + kTransports);
            }
        }
    }
    return options;
}

bool PathManager::is_active(const Option& option) const {
    return active_ && active_->uplink == option.uplink->slot &&
           active_->transport == option.transport;
}

void PathManager::note_answers(Look& look) {
    for (const Option& option : look.options) {
        if (is_active(option)) {
            look.active = &option;
        }
        if (option.memory->asked_at == TimePoint{} || option.is_unanswered()) {
            continue;
        }
        option.memory->asking.end();
        option.memory->unanswered_since = base::kNever;
        const auto& ports = look.situation.udp_ports;
        const auto port = std::find(ports.begin(), ports.end(), option.view->port);
        if (option.transport == Transport::Udp && port != ports.end()) {
            memory_[option.uplink->slot].port = static_cast<size_t>(port - ports.begin());
        }
    }
}

// Only while packets are under way: an idle path loses nothing. Losses of a session that is spread
// are not those of the path in use alone.
void PathManager::look_at_loss(const Look& look) {
    const bool is_looked_at = look.situation.is_busy && !look.situation.is_spread &&
                              look.active != nullptr && look.active->transport == Transport::Udp &&
                              look.active->works();
    if (!is_looked_at) {
        loss_.reset();
        return;
    }
    loss_.on_time(*look.active->view, look.now);
}

// Silent TCP ends its trial, too: its uplink may have a hole, whose losses look like a throttle.
void PathManager::look_at_trial(Look& look) {
    if (!trial_.is_on()) {
        return;
    }
    if (!active_ || active_->transport == Transport::Udp) {
        trial_.end();
        return;
    }
    const bool works = look.active != nullptr && look.active->works();
    const PathView* view = look.active == nullptr ? nullptr : look.active->view;
    if (trial_.on_time(view, works, look.now) == TcpTrial::Verdict::Leave) {
        end_trial(look);
    }
}

// The connection may have gone by another interface than the throttled UDP.
void PathManager::end_trial(Look& look) {
    rest_from_trials(memory_[active_->uplink].network, Transport::Tcp, look.now);
    for (UplinkMemory& memory : memory_) {
        if (memory.is_there && memory.network == trial_.network()) {
            memory.transports[index_of(Transport::Udp)].trial.end();
        }
    }
}

void PathManager::rest_from_trials(uint32_t network, Transport transport, TimePoint now) {
    for (UplinkMemory& memory : memory_) {
        if (memory.is_there && memory.network == network) {
            memory.transports[index_of(transport)].trial.begin(now);
        }
    }
}

// Where TCP was found to carry less, UDP is kept.
bool PathManager::is_throttled(const Look& look) const {
    const auto& beside =
        memory_[look.active->uplink->slot].transports[index_of(Transport::Tcp)].trial;
    return look.active->transport == Transport::Udp && loss_.is_heavy() && !beside.rests(look.now);
}

PathManager::Trouble PathManager::trouble_of(const Look& look) const {
    const Option* active = look.active;
    if (active == nullptr || !active->uplink->has_route) {
        return Trouble::Lost;
    }
    if (active->view == nullptr) {  // a connection that has ended, or a path to be made
        return active->transport == Transport::Tcp ? Trouble::Silent : Trouble::Unproven;
    }
    if (active->view->health != Health::Usable) {
        return Trouble::Silent;
    }
    if (!active->view->is_validated) {
        return Trouble::Unproven;
    }
    return is_throttled(look) ? Trouble::Throttled : Trouble::None;
}

void PathManager::judge(Look& look) {
    const Trouble former = std::exchange(trouble_, trouble_of(look));
    if (trouble_ == Trouble::None) {
        worked_since_ = former == Trouble::None ? worked_since_ : look.now;
        tcp_ready_at_ = base::kNever;
        return;
    }
    const bool is_over = former == Trouble::None && look.now - worked_since_ >= kProofLifetime;
    if (is_over || trouble_since_ == base::kNever) {
        trouble_since_ = look.now;
        resting_ready_at_ = base::kNever;
    }
}

// A connection made anew through a hole works for a moment: the race goes on.
bool PathManager::races(const Look& look) const {
    const PathView* view = look.active == nullptr ? nullptr : look.active->view;
    const bool is_shaky = view != nullptr && look.active->transport == Transport::Tcp &&
                          trouble_since_ != base::kNever && view->opened_at >= trouble_since_ &&
                          look.now - worked_since_ < kProofLifetime;
    return trouble_ != Trouble::None || is_shaky;
}

const PathManager::Option* PathManager::choose(Look& look) {
    switch (trouble_) {
    case Trouble::None:
        return better_one(look);
    case Trouble::Lost:
        return seat(look);
    case Trouble::Unproven:
    case Trouble::Silent:
    case Trouble::Throttled:
        break;
    }
    return relief(look);
}

// A preferred one that has just answered.
const PathManager::Option* PathManager::better_one(const Look& look) const {
    for (const Option& option : look.options) {
        if (&option == look.active) {
            break;
        }
        if (option.uplink->has_route && !rests(option, look.now) &&
            option.has_answered_since(look.now - kProofLifetime)) {
            return &option;
        }
    }
    return nullptr;
}

// By another address of the interface the same box is on the way; and what is throttled still
// carries, so nothing that rests is taken for it.
bool PathManager::is_left_out(const Look& look, const Option& option) const {
    const bool is_beside = option.transport == Transport::Udp && look.active != nullptr &&
                           option.uplink->network == look.active->uplink->network;
    return &option == look.active || !option.uplink->has_route ||
           (trouble_ == Trouble::Throttled && (is_beside || rests(option, look.now)));
}

// Nothing is in use, or nothing leads there: data waits for no answer.
const PathManager::Option* PathManager::seat(const Look& look) const {
    const auto first = [&](auto fits) -> const Option* {
        const auto found = std::find_if(look.options.begin(), look.options.end(), fits);
        return found == look.options.end() ? nullptr : &*found;
    };
    const auto may_begin = [](const Option& option) {
        return option.transport == Transport::Udp && !option.uplink->must_answer_first;
    };
    const Option* found = first([&](const Option& option) {
        return option.uplink->has_route && !rests(option, look.now) &&
               option.has_answered_since(look.now - kProofLifetime);
    });
    // Where TCP has just answered, UDP has its head start.
    if (found != nullptr && found->transport == Transport::Tcp) {
        const Option* beside = first([&](const Option& option) {
            return may_begin(option) && option.uplink == found->uplink &&
                   !rests(option, look.now) && !option.is_unanswered() &&
                   (option.view == nullptr || option.view->health == Health::Usable);
        });
        found = beside != nullptr ? beside : found;
    }
    if (found == nullptr) {
        found = first([&](const Option& option) {
            return may_begin(option) && option.uplink->has_route && !rests(option, look.now) &&
                   (option.view == nullptr || option.view->health == Health::Usable);
        });
    }
    if (found == nullptr) {
        found = first(
            [&](const Option& option) { return may_begin(option) && option.uplink->has_route; });
    }
    if (found == nullptr && !active_) {
        found = first(may_begin);  // its route may follow
    }
    return found == look.active ? nullptr : found;
}

// The first that answered since the trouble began. What rests is taken only if nothing else
// answers, and then what has to rest least.
const PathManager::Option* PathManager::relief(Look& look) {
    if (trouble_ == Trouble::Unproven && look.now < head_start_until_) {
        look.plan.next_at = std::min(look.plan.next_at, head_start_until_);
        return nullptr;
    }
    const Option* tcp = nullptr;
    const Option* resting = nullptr;
    for (const Option& option : look.options) {
        if (is_left_out(look, option) || !option.has_answered_since(trouble_since_)) {
            continue;
        }
        if (rests(option, look.now)) {
            const bool is_less =
                resting == nullptr || option.memory->rests_until() < resting->memory->rests_until();
            resting = is_less ? &option : resting;
        } else if (option.transport == Transport::Udp) {
            return &option;
        } else if (tcp == nullptr) {
            tcp = &option;
        }
    }
    if (tcp == nullptr) {
        tcp_ready_at_ = base::kNever;
        return resting != nullptr && is_connecting(look) ? nullptr : resting;
    }
    return is_in_grace(look) ? nullptr : tcp;
}

// A move to what rests would end the attempt of what does not: ways that answer and carry nothing
// would keep a slow connection from ever being made.
bool PathManager::is_connecting(Look& look) {
    resting_ready_at_ = std::min(resting_ready_at_, look.now);
    bool is_one = false;
    for (const Option& option : look.options) {
        const TimePoint asked_at = option.memory->asked_at;
        const bool is_attempt = option.transport == Transport::Tcp && &option != look.active &&
                                option.is_unanswered() && !rests(option, look.now);
        const TimePoint until = asked_at + kFirstRest;
        if (is_attempt && asked_at >= trouble_since_ && asked_at <= resting_ready_at_ &&
            look.now < until) {
            is_one = true;
            look.plan.next_at = std::min(look.plan.next_at, until);
        }
    }
    return is_one;
}

// A link that paused answers by both: after TCP's answer UDP has a probe time-out for its own. That
// of TCP, which may be long from the queues of its last stay, stands in where UDP is not measured.
bool PathManager::is_in_grace(Look& look) {
    if (look.active == nullptr || look.active->transport == Transport::Tcp) {
        return false;
    }
    tcp_ready_at_ = std::min(tcp_ready_at_, look.now);
    std::array<Duration, kTransports> longest{};
    for (const Option& option : look.options) {
        if (option.view != nullptr && option.view->smoothed_rtt > Duration{}) {
            Duration& longest_there = longest[index_of(option.transport)];
            longest_there = std::max(longest_there, option.view->probe_timeout);
        }
    }
    const auto [udp, tcp] = longest;
    const Duration initial =
        look.active->view == nullptr ? Duration{} : look.active->view->probe_timeout;
    const Duration measured = udp > Duration{} ? udp : tcp;
    const Duration grace = measured > Duration{} ? measured : initial;
    const bool is_over = look.now >= tcp_ready_at_ + grace;
    if (!is_over) {
        look.plan.next_at = std::min(look.plan.next_at, tcp_ready_at_ + grace);
    }
    return !is_over;
}

void PathManager::activate(Look& look, const Option& next) {
    const TimePoint now = look.now;
    if (trouble_ == Trouble::Throttled) {
        const uint32_t network = look.active->uplink->network;
        rest_from_trials(network, Transport::Udp, now);
        if (next.transport == Transport::Tcp) {
            trial_.begin(network, loss_.delivered_bytes_per_s(), now);
        }
    } else if (look.active != nullptr && trouble_ != Trouble::None && trouble_ != Trouble::Lost) {
        rest(look, *look.active, next);
    }
    // One that did not answer when it was asked has had its head start.
    const bool is_known = next.has_answered_since(now - kProofLifetime) || next.is_unanswered();
    Candidate as = candidate_of(look, next);
    if (next.works()) {
        as.to.port = next.view->port;
    }
    use(look, next, as, is_known);
}

void PathManager::use(Look& look, const Option& next, const Candidate& as, bool is_known) {
    active_ = as;
    activated_at_ = look.now;
    head_start_until_ = is_known ? look.now : look.now + kHeadStart;
    next_probe_at_ = head_start_until_;
    trouble_ = Trouble::None;
    trouble_since_ = base::kNever;
    worked_since_ = look.now;
    tcp_ready_at_ = base::kNever;
    resting_ready_at_ = base::kNever;
    loss_.reset();
    look.active = &next;
    look.plan.activate = active_;
}

// The way in use stays, but the SNAPT has another address, or has answered from another port: the
// session announces itself there.
void PathManager::follow_address(Look& look) {
    if (look.active == nullptr) {
        return;
    }
    const Option& active = *look.active;
    const auto& ports = look.situation.udp_ports;
    const bool is_port_gone =
        active.transport == Transport::Udp &&
        std::find(ports.begin(), ports.end(), active_->to.port) == ports.end();
    if (active_->to.address != active.uplink->remote || is_port_gone) {
        const Candidate there = candidate_of(look, active);
        if (active.transport == Transport::Tcp && active.view == nullptr) {
            active_ = there;  // nothing can be announced before a connection is made
            return;
        }
        use(look, active, there, false);
        judge(look);
        return;
    }
    // A way that is silent by its port may still have answered by another.
    const bool has_answered =
        active.view != nullptr && active.view->is_validated && !active.is_unanswered();
    if (active.transport == Transport::Udp && has_answered &&
        active_->to.port != active.view->port) {
        active_->to.port = active.view->port;
        look.plan.activate = active_;
    }
}

// Also the other addresses of its interface, if another interface takes over.
void PathManager::rest(const Look& look, const Option& failed, const Option& next) {
    const bool is_other = failed.uplink->network != next.uplink->network;
    for (const Option& option : look.options) {
        if (&option == &failed || (is_other && option.transport == failed.transport &&
                                   option.uplink->network == failed.uplink->network)) {
            option.memory->rest.begin(look.now);
        }
    }
}

}  // namespace continuo::policy
