// Node: hints from below IP, and of a suspend of this host, that speed up the detection of silence
// (docs/PROTOCOL.md section 5.1). A hint only triggers a question; an uplink without carrier or
// access point is left at once.
#include "cnapt/node/node.hpp"
#include "common/base/log.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

// Intervals between queries for the signal of an uplink that carries traffic: one that was strong,
// and one that may be lost soon.
constexpr base::Duration kSignalInterval = base::seconds(3);
constexpr base::Duration kSignalIntervalWhenLow = base::seconds(1);
constexpr int kLowDbm = -68;

}  // namespace

void Node::follow_wireless() {
    if (wireless_) {
        return;
    }
    auto started = io::WirelessMonitor::start(
        loop_, [this](const io::WirelessEvent& event) { on_wireless(event); });
    if (started) {
        wireless_ = std::move(started).value();
    }
}

bool Node::is_cut(uint8_t slot) const {
    const Uplink* uplink = uplinks_->at(slot);
    return uplink != nullptr && !uplink->can_carry();
}

void Node::on_wireless(const io::WirelessEvent& event) {
    using Kind = io::WirelessEvent::Kind;
    const TimePoint now = loop_.now();
    switch (event.kind) {
    case Kind::Joined:
    case Kind::Left: {
        const Uplinks::Change change =
            uplinks_->note_joined(event.interface_index, event.kind == Kind::Joined);
        if (change.is_any_cut || !change.joined.empty()) {
            update_all_paths(change, now);
        }
        break;
    }
    case Kind::BeaconsLost:
        uplinks_->note_weak(event.interface_index);
        on_signal(event.interface_index, now);
        break;
    case Kind::Signal:
        uplinks_->note_signal(event.interface_index, event.signal_dbm);
        on_signal(event.interface_index, now);
        break;
    }
}

void Node::on_signal(uint32_t interface_index, TimePoint now) {
    for (const auto& link : links_) {
        const Uplink* active = link->active_slot() ? uplinks_->at(*link->active_slot()) : nullptr;
        if (!link->session || active == nullptr || active->interface_index != interface_index) {
            continue;
        }
        session::PathSet& paths = link->session->paths();
        const bool is_news = active->is_weak && !paths.path(active->slot).is_suspect;
        paths.suspect(active->slot, active->is_weak);
        if (is_news) {
            link->hints |= session::mask_of(active->slot);
        }
        choose(*link, now);
    }
    driver_.pump(now);
}

// For the links of all SNAPTs that use it.
uint64_t Node::received_on(uint8_t slot) const {
    uint64_t datagrams = 0;
    for (const auto& link : links_) {
        if (link->session && link->active_slot() == slot) {
            const uint8_t path = link->is_on_stream() ? wire::kTcpPath : slot;
            datagrams += link->session->paths().path(path).received_datagrams;
        }
    }
    return datagrams;
}

// An idle uplink is not queried: nobody needs its signal.
void Node::ask_signals(TimePoint now) {
    if (!wireless_) {
        return;
    }
    for (const auto& link : links_) {
        Uplink* active = link->active_slot() ? uplinks_->at(*link->active_slot()) : nullptr;
        if (!link->session || active == nullptr || !active->can_carry()) {
            continue;
        }
        const bool is_first = active->signal_asked_at == TimePoint{};  // or joined since
        const bool is_low =
            active->is_weak || (active->signal_dbm && *active->signal_dbm < kLowDbm);
        const base::Duration interval = is_low ? kSignalIntervalWhenLow : kSignalInterval;
        const uint64_t datagrams = received_on(active->slot);
        // An uplink that does not answer the first query is no Wi-Fi.
        const bool is_due = active->is_wireless && now - active->signal_asked_at >= interval &&
                            datagrams != active->datagrams_when_asked;
        if ((is_first || is_due) && wireless_->ask_signal(active->interface_index)) {
            active->signal_asked_at = now;
            active->datagrams_when_asked = datagrams;
        }
    }
}

// A different NAT may be behind another access point.
void Node::ask_joined(SnaptLink& link, uint8_t slot, TimePoint now) {
    session::PathSet& paths = link.session->paths();
    if (link.active_slot() == slot && !link.is_on_stream()) {
        paths.announce_again(now);
    } else {
        paths.ask(slot, now);
    }
}

void Node::on_pause(base::Duration pause) {
    const TimePoint now = loop_.now();
    if (std::any_of(links_.begin(), links_.end(),
                    [](const auto& link) { return link->session != nullptr; })) {
        base::log(base::LogLevel::Info, "did not run for %lld ms: asking all paths",
                  static_cast<long long>(base::to_ms(pause)));
    }
    for (const auto& link : links_) {
        if (!link->session) {
            continue;
        }
        link->session->paths().on_pause(now);
        if (!link->active_slot()) {
            link->moving_since = now;
        }
        for (const Uplink* uplink : uplinks_->list()) {
            link->hints |= session::mask_of(uplink->slot);
        }
        if (monitor_) {
            update_paths(*link, {}, now);
        }
        link->control_asked_at = now;
        events_.on_path_moved(*link);
    }
    events_.on_network_changed();  // it may have woken up in another place
    // The wake-up has just begun: sending comes at its end.
    loop_.post([this] { driver_.pump(loop_.now()); });
}

}  // namespace continuo::cnapt::node
