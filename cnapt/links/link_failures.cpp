#include "cnapt/links/link_failures.hpp"

#include <ctime>
#include <utility>

namespace continuo::cnapt::links {

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

void LinkFailures::note_way(const Failure& failure, std::optional<uint8_t> slot) {
    if (slot && is_of_path(failure.kind)) {
        paths_[*slot] = failure;
    }
}

void LinkFailures::note(Failure failure, std::optional<uint8_t> slot) {
    note_way(failure, slot);
    follow(latest_, std::move(failure));
}

void LinkFailures::note_login(std::optional<uint8_t> slot) {
    latest_.is_current = false;
    if (slot && is_of_path(paths_[*slot].kind)) {
        paths_[*slot].is_current = false;
    }
}

void LinkFailures::note_path(uint8_t path, FailureKind kind, const std::string& text) {
    paths_[path] = make_failure(kind, text, std::time(nullptr));
}

void LinkFailures::note_mended(uint8_t path, FailureKind kind) {
    if (paths_[path].kind == kind) {
        paths_[path].is_current = false;
    }
}

void LinkFailures::note_network(const uplinks::Uplink& uplink,
                                const uplinks::SnaptAddresses& snapt,
                                const netlink::NetSnapshot& network) {
    const bool has_way = uplink.can_carry() && uplinks::Uplinks::has_route(uplink, snapt, network);
    if (has_way || !snapt.has(uplink.address.version)) {
        note_mended(uplink.slot, FailureKind::NoNetwork);
        return;
    }
    const std::string text = uplink.can_carry()
                                 ? "no network: no route to the SNAPT by this interface"
                                 : "no network: the interface has no carrier";
    const Failure& known = paths_[uplink.slot];
    if (!known.is_now(FailureKind::NoNetwork) || known.text != text) {
        note_path(uplink.slot, FailureKind::NoNetwork, text);
    }
}

}  // namespace continuo::cnapt::links
