// PathManager: what is asked, and when.
#include "policy/path_manager.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace continuo::policy {

using base::TimePoint;

// Packets wait again after a pause: a new flow does not inherit the intervals of those before.
// While a way works nothing waits.
void PathManager::note_need(const Look& look) {
    const bool was_busy = std::exchange(was_busy_, look.situation.is_busy);
    if (was_busy || !look.situation.is_busy || !races(look)) {
        return;
    }
    for (const Option& option : look.options) {
        option.memory->asking.end();
    }
}

// News of an uplink only makes a question earlier. News that comes often waits: each may be caused
// by the question before.
void PathManager::take_hints(Look& look) {
    for (const Option& option : look.options) {
        Memory& memory = *option.memory;
        const bool is_asked = option.transport == Transport::Udp || &option == look.active;
        const auto& hints = look.situation.hints;
        const bool is_news =
            std::find(hints.begin(), hints.end(), option.uplink->slot) != hints.end();
        memory.is_hinted = is_asked && (is_news || memory.is_hinted);
        if (!memory.is_hinted) {
            continue;
        }
        const TimePoint due = std::max(memory.asked_at + kHeadStart, memory.hinted_at + kFirstRest);
        if (due > look.now) {
            look.plan.next_at = std::min(look.plan.next_at, due);
            continue;
        }
        memory.asking.end();
        probe(look, option);
        memory.hinted_at = look.now;
    }
}

// A question by UDP is one datagram: where the last one had no answer, the others do not wait for
// this one's.
void PathManager::ask(Look& look) {
    if (trial_.is_on()) {
        look.plan.next_at = std::min(look.plan.next_at, trial_.next_at());
    }
    if (loss_.next_at() > look.now) {
        look.plan.next_at = std::min(look.plan.next_at, loss_.next_at());
    }
    while (const Option* next = next_to_ask(look)) {
        const bool has_head_start = next->transport == Transport::Tcp || !next->is_unanswered();
        probe(look, *next);
        if (has_head_start) {
            next_probe_at_ = look.now + kHeadStart;
        }
    }
}

const PathManager::Option* PathManager::next_to_ask(Look& look) {
    const bool is_race = races(look);
    const bool is_weak =
        look.situation.is_busy && look.active != nullptr && look.active->uplink->is_weak;
    bool is_worse = false;  // than the way in use
    const Option* next = nullptr;
    const auto order = [&](const Option& option) {
        const TimePoint asked_at = asks_itself(look, option)
                                       ? std::max(option.memory->asked_at, trouble_since_)
                                       : option.memory->asked_at;
        const TimePoint rests_until = option.memory->rests_until();
        const bool is_asked =
            !is_race || (asked_at >= trouble_since_ && !option.has_lost_connection());
        return std::tuple(is_asked,
                          is_asked                 ? asked_at
                          : rests_until > look.now ? rests_until
                                                   : TimePoint{},
                          &option == look.active ? 0 : option.turn + 1);
    };
    for (const Option& option : look.options) {
        if (&option == look.active && !is_race) {
            if (!is_weak) {
                break;
            }
            is_worse = true;
            continue;
        }
        // Only one connection can be open: one more would end it.
        if (is_worse && option.transport == Transport::Tcp && !option.works()) {
            continue;
        }
        if (trouble_ == Trouble::Throttled ? is_left_out(look, option)
                                           : !option.uplink->has_route) {
            continue;
        }
        const TimePoint due =
            std::max({due_at(look, option), next_probe_at_, connects_from(look, option)});
        if (due > look.now) {
            look.plan.next_at = std::min(look.plan.next_at, due);
        } else if (next == nullptr || order(option) < order(*next)) {
            next = &option;
        }
    }
    return next;
}

// The session itself asks the way in use, the next port a second later. A connection that has ended
// asks nothing.
bool PathManager::asks_itself(const Look& look, const Option& option) {
    const bool has_ended = option.transport == Transport::Tcp && option.view == nullptr;
    return &option == look.active && !has_ended;
}

TimePoint PathManager::due_at(const Look& look, const Option& option) const {
    const Memory& memory = *option.memory;
    const bool is_race = races(look);
    if (!is_race && rests(option, look.now)) {
        return memory.rests_until();
    }
    // It would take the place of a connection that works, and that one has just won.
    const bool displaces = option.transport == Transport::Tcp && !option.works() &&
                           look.active != nullptr && look.active->transport == Transport::Tcp;
    if (!is_race && displaces && look.now < activated_at_ + kLongestRest) {
        return activated_at_ + kLongestRest;
    }
    if (is_race && memory.asked_at < trouble_since_) {
        return asks_itself(look, option) ? trouble_since_ + kFirstRest : look.now;
    }
    if (is_race && option.has_lost_connection() && &option != look.active) {
        return look.now;
    }
    if (!option.is_unanswered()) {
        const TimePoint answered_at =
            option.view == nullptr ? TimePoint{} : option.view->answered_at;
        return std::max(memory.asked_at + kFirstRest, answered_at + kFirstRest);
    }
    const TimePoint again = std::max(memory.asking.until(), memory.asked_at + kFirstRest);
    const bool is_urgent = look.situation.is_busy && (is_race || look.active == nullptr ||
                                                      look.active->transport == Transport::Tcp);
    if (!is_urgent) {
        return again;
    }
    if (option.transport == Transport::Udp) {
        return memory.asked_at + kFirstRest;
    }
    const bool is_needed = is_race || look.active == nullptr;
    return is_needed ? std::min(again, memory.asked_at + kLongestConnect) : again;
}

// A connection takes the place of the one in use: while that is open and in doubt, it has a head
// start to recover, as after a pause of its link. A connection by what rests waits for one that is
// open and need not rest: that would end, and has answered or may still do so.
TimePoint PathManager::connects_from(const Look& look, const Option& option) const {
    TimePoint from{};
    if (option.transport == Transport::Udp || option.works()) {
        return from;
    }
    if (&option != look.active && trouble_ == Trouble::Silent &&
        look.active->transport == Transport::Tcp && look.active->view != nullptr) {
        from = trouble_since_ + kHeadStart;
    }
    if (!rests(option, look.now)) {
        return from;
    }
    for (const Option& open : look.options) {
        const bool is_open = open.transport == Transport::Tcp && open.works() &&
                             &open != look.active && !rests(open, look.now);
        if (is_open && open.memory->asked_at >= trouble_since_) {
            from = std::max(from, open.has_answered_since(trouble_since_)
                                      ? base::kNever
                                      : open.memory->asked_at + kFirstRest);
        }
    }
    return from;
}

void PathManager::probe(Look& look, const Option& option) {
    Memory& memory = *option.memory;
    if (memory.unanswered_since == base::kNever) {
        memory.unanswered_since = look.now;
    } else if (option.transport == Transport::Udp &&
               look.now - memory.unanswered_since >= kFirstRest) {
        ++memory_[option.uplink->slot].port;
        memory.unanswered_since = look.now;
    }
    if (option.has_lost_connection()) {
        memory.asking.end();
    }
    memory.asked_at = look.now;
    memory.asked_open = option.transport == Transport::Tcp && option.works();
    memory.is_hinted = false;
    // A question that comes early does not lengthen the interval.
    if (!memory.asking.rests(look.now)) {
        memory.asking.begin(look.now);
    }
    look.plan.probe.push_back(candidate_of(look, option));
}

Candidate PathManager::candidate_of(const Look& look, const Option& option) const {
    const auto& ports = look.situation.udp_ports;
    uint16_t port = look.situation.tcp_port;
    if (option.transport == Transport::Udp) {
        port = ports.empty() ? 0 : ports[memory_[option.uplink->slot].port % ports.size()];
    }
    return {option.uplink->slot, {option.uplink->remote, port}, option.transport};
}

}  // namespace continuo::policy
