// Node: failures of SNAPTs and paths, and handovers, kept and logged for people.
#include "cnapt/node/node.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace continuo::cnapt::node {

using base::TimePoint;

namespace {

// Handovers logged at once, and the interval in the long run. Choices, not measured.
constexpr int kLoggedAtOnce = 20;
constexpr base::Duration kLogInterval = base::seconds(3);

// The way to the SNAPT may be at fault, not the login.
bool is_of_path(FailureKind kind) {
    switch (kind) {
    case FailureKind::NoSnapt:
    case FailureKind::ConnectionRefused:
    case FailureKind::Unreachable:
    case FailureKind::TimedOut:
    case FailureKind::NoNetwork:
        return true;
    default:
        return false;
    }
}

}  // namespace

void Node::note_way(SnaptLink& link, const Failure& failure, std::optional<uint8_t> slot) {
    if (slot && is_of_path(failure.kind)) {
        link.path_failures[*slot] = failure;
    }
}

void Node::note_failure(SnaptLink& link, Failure failure, std::optional<uint8_t> slot) {
    note_way(link, failure, slot);
    follow(link.failure, std::move(failure));
}

void Node::note_login(SnaptLink& link, std::optional<uint8_t> slot) {
    link.failure.is_current = false;
    if (slot && is_of_path(link.path_failures[*slot].kind)) {
        link.path_failures[*slot].is_current = false;
    }
}

void Node::note_path(SnaptLink& link, uint8_t path, FailureKind kind, const std::string& text) {
    link.path_failures[path] = make_failure(kind, text, std::time(nullptr));
}

void Node::note_mended(SnaptLink& link, uint8_t path, FailureKind kind) {
    Failure& failure = link.path_failures[path];
    if (failure.kind == kind) {
        failure.is_current = false;
    }
}

void Node::note_ways() {
    const netlink::NetSnapshot& network = monitor_->snapshot();
    for (const auto& link : links_) {
        for (const uplinks::Uplink* uplink : uplinks_->list()) {
            const Failure& known = link->path_failures[uplink->slot];
            const bool has_way = uplink->can_carry() &&
                                 uplinks::Uplinks::has_route(*uplink, link->addresses, network);
            if (has_way || !link->addresses.has(uplink->address.version)) {
                note_mended(*link, uplink->slot, FailureKind::NoNetwork);
                continue;
            }
            const std::string text = uplink->can_carry()
                                         ? "no network: no route to the SNAPT by this interface"
                                         : "no network: the interface has no carrier";
            if (!known.is_now(FailureKind::NoNetwork) || known.text != text) {
                note_path(*link, uplink->slot, FailureKind::NoNetwork, text);
            }
        }
    }
}

void Node::log_handover(const SnaptLink& link, const Handover& handover, TimePoint now) {
    handover_log_free_at_ = std::max(handover_log_free_at_, now - kLoggedAtOnce * kLogInterval);
    if (handover_log_free_at_ > now) {
        ++unlogged_handovers_;
        return;
    }
    handover_log_free_at_ += kLogInterval;
    std::string text;
    if (handover.from.empty() || handover.from == handover.to) {
        text = handover.to + " answers again";
    } else {
        text = "moved from " + handover.from + " to " + handover.to;
    }
    if (const uint64_t left_out = std::exchange(unlogged_handovers_, 0); left_out != 0) {
        text += "; " + std::to_string(left_out) + " handovers before it are not in this log";
    }
    base::log(base::LogLevel::Info, "%s: %s, interrupted for %.0f ms", link.name.c_str(),
              text.c_str(), handover.gap_ms);
}

}  // namespace continuo::cnapt::node
