#include "cnapt/node/wireless_hints.hpp"

#include <utility>

namespace continuo::cnapt::node {

using base::TimePoint;
using links::SnaptLinks;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

// Intervals between queries for the signal of an uplink that carries traffic: one that was strong,
// and one that may be lost soon.
constexpr base::Duration kSignalInterval = base::seconds(3);
constexpr base::Duration kSignalIntervalWhenLow = base::seconds(1);
constexpr int kLowDbm = -68;

}  // namespace

WirelessHints::WirelessHints(io::EventLoop& loop,
                             const SnaptLinks& links,
                             Uplinks& uplinks,
                             OnJoined on_joined,
                             OnSignal on_signal)
    : loop_(loop)
    , links_(links)
    , uplinks_(uplinks)
    , on_joined_(std::move(on_joined))
    , on_signal_(std::move(on_signal)) {}

void WirelessHints::follow() {
    if (monitor_) {
        return;
    }
    auto started = netlink::WirelessMonitor::start(
        loop_, [this](const netlink::WirelessEvent& event) { on_event(event); });
    if (started) {
        monitor_ = std::move(started).value();
    }
}

void WirelessHints::on_event(const netlink::WirelessEvent& event) {
    using Kind = netlink::WirelessEvent::Kind;
    const uint32_t index = event.interface_index;
    switch (event.kind) {
    case Kind::Joined:
    case Kind::Left: {
        const Uplinks::Change change = uplinks_.note_joined(index, event.kind == Kind::Joined);
        if (change.is_any_cut || !change.joined.empty()) {
            on_joined_(change);
        }
        break;
    }
    case Kind::BeaconsLost:
        on_signal(index, uplinks_.note_weak(index));
        break;
    case Kind::Signal:
        on_signal(index, uplinks_.note_signal(index, event.signal_dbm));
        break;
    }
}

// The active path is asked once when its signal becomes weak: the answer to each question would
// count as traffic, for which the signal is read again.
void WirelessHints::on_signal(uint32_t interface_index, bool has_become_weak) {
    for (const auto& link : links_) {
        const Uplink* active = link->active_slot() ? uplinks_.at(*link->active_slot()) : nullptr;
        if (!link->session || active == nullptr || active->interface_index != interface_index) {
            continue;
        }
        if (has_become_weak) {
            link->hints |= routing::mask_of(active->slot);
        }
        on_signal_(*link);
    }
}

// For the links of all SNAPTs that use it.
uint64_t WirelessHints::received_on(uint8_t slot) const {
    uint64_t datagrams = 0;
    for (const auto& link : links_) {
        if (link->session && link->active_slot() == slot) {
            const uint8_t path = link->is_on_stream() ? wire::kTcpPath : slot;
            datagrams += link->session->paths().path(path).traffic().counters().received_datagrams;
        }
    }
    return datagrams;
}

// An idle uplink is not queried: nobody needs its signal.
void WirelessHints::ask_signals(TimePoint now) {
    if (!monitor_) {
        return;
    }
    for (const auto& link : links_) {
        Uplink* active = link->active_slot() ? uplinks_.at(*link->active_slot()) : nullptr;
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
        if ((is_first || is_due) && monitor_->ask_signal(active->interface_index)) {
            active->signal_asked_at = now;
            active->datagrams_when_asked = datagrams;
        }
    }
}

}  // namespace continuo::cnapt::node
