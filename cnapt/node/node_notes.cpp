// Node: failures of SNAPTs and paths, kept for people.
#include "cnapt/node/node.hpp"

#include <ctime>
#include <utility>

namespace continuo::cnapt::node {

namespace {

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

}  // namespace continuo::cnapt::node
