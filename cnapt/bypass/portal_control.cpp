#include "cnapt/bypass/portal_control.hpp"

#include "cnapt/node/tunnel_uplinks.hpp"
#include "common/base/log.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>

namespace continuo::cnapt::bypass {

using base::log;
using base::LogLevel;
using uplinks::Uplink;

namespace {

constexpr size_t kMaxQuestions = 2;  // one is under way at most
// For a portal that does not give its URL: any page by HTTP leads there (RFC 2606).
constexpr const char* kAnyPage = "http://example.com/";

}  // namespace

PortalControl::PortalControl(io::EventLoop& loop,
                             node::Node& node,
                             capture::CaptureSwitch& capture,
                             const settings::CaptureConfig& config,
                             const control::PortalKey& key)
    : loop_(loop)
    , node_(node)
    , capture_(capture)
    , fwmark_(config.fwmark)
    , is_kill_switch_(config.kill_switch)
    , key_(key)
    , worker_(loop, "cnapt-portal", kMaxQuestions) {}

void PortalControl::on_tick() {
    const base::TimePoint now = loop_.now();
    observe(now);
    if (const auto slot = watch_.next(now)) {
        ask(*slot);
    }
    if (login_slot_ && (now >= login_until_ || !watch_.is_captive(*login_slot_))) {
        login_slot_.reset();
        capture_.set_portal(std::nullopt);
    }
}

void PortalControl::observe(base::TimePoint now) {
    for (uint8_t slot = 0; slot < PortalWatch::kSlots; ++slot) {
        const Uplink* uplink = node_.uplinks().at(slot);
        std::optional<Identity> identity;
        UplinkHealth health;
        if (uplink != nullptr && !node::is_resting(*uplink, node_)) {
            identity = {uplink->interface_index, uplink->address};
            health = {true, node_.paths().works(*uplink), node_.paths().is_needed(*uplink)};
        }
        if (std::exchange(known_[slot], identity) != identity) {
            watch_.remove(slot);
        }
        watch_.observe(slot, health, now);
        if (uplink != nullptr && uplink->is_captive != watch_.is_captive(slot)) {
            tell(slot);  // it was away for a moment
        }
    }
}

// Takes turns: a SNAPT that is down says nothing about the way to it. A SNAPT known from hearsay
// that never let this node in may answer like a portal, or be an uninvolved host.
std::optional<base::Endpoint> PortalControl::snapt_for(const Uplink& uplink) {
    const auto& links = node_.links();
    for (size_t tried = 0; tried < links.size(); ++tried) {
        const links::SnaptLink& link = *links[next_snapt_++ % links.size()];
        const uplinks::SnaptAddresses& snapt = link.addresses;
        if (link.is_learned && (!link.session || snapt.in_use != uplink.address.version)) {
            continue;
        }
        if (snapt.has(uplink.address.version)) {
            return snapt.of(uplink.address.version);
        }
    }
    return std::nullopt;
}

void PortalControl::ask(uint8_t slot) {
    const Uplink& uplink = *node_.uplinks().at(slot);
    const auto snapt = snapt_for(uplink);
    const Identity identity = *known_[slot];
    if (!snapt) {
        on_answer(slot, identity, {});
        return;
    }
    const bool is_bound = !node_.uplinks().shares_network(uplink, node_.network());
    const PortalQuestion question{
        *snapt, {uplink.interface, uplink.address, is_bound}, fwmark_, key_};
    auto answer = std::make_shared<control::PortalAnswer>();
    const bool is_asked =
        worker_.submit([question, answer] { *answer = ask_for_portal(question); },
                       [this, slot, identity, answer] { on_answer(slot, identity, *answer); });
    if (!is_asked) {
        on_answer(slot, identity, {});
    }
}

void PortalControl::on_answer(uint8_t slot,
                              const Identity& asked,
                              const control::PortalAnswer& answer) {
    const Uplink* uplink = node_.uplinks().at(slot);
    if (known_[slot] != asked || !watch_.on_answer(slot, answer, loop_.refresh_now()) ||
        uplink == nullptr) {
        return;
    }
    const std::string& url = watch_.url(slot);
    const char* const name = uplink->interface.c_str();
    if (watch_.is_captive(slot) && !uplink->is_captive) {  // the URL may be another each time
        log(LogLevel::Warning,
            "%s: a captive portal answers in place of the SNAPT (%s); not used for the tunnel "
            "until somebody logs in there: cnapt portal %s",
            name, url.empty() ? "without a URL" : url.c_str(), name);
    } else if (!watch_.is_captive(slot)) {
        log(LogLevel::Info, "%s: the captive portal lets traffic through; used again", name);
    }
    tell(slot);
}

void PortalControl::tell(uint8_t slot) {
    node_.set_captive(slot, watch_.is_captive(slot), watch_.url(slot));
}

const Uplink* PortalControl::captive_uplink(const std::string& interface) {
    for (const Uplink* uplink : node_.uplinks().list()) {
        if (uplink->is_captive && (interface.empty() || uplink->interface == interface)) {
            return uplink;
        }
    }
    return nullptr;
}

// The way leads by the default route of that uplink.
std::optional<capture::PortalBypass> PortalControl::bypass_of(const Uplink& uplink,
                                                              uint32_t user) const {
    for (const netlink::RouteEntry& route : node_.network().routes) {
        if (route.destination.length == 0 && route.interface_index == uplink.interface_index &&
            route.destination.address.version == base::IpVersion::V4) {
            return capture::PortalBypass{uplink.interface, route.gateway, user};
        }
    }
    return std::nullopt;
}

// "; zrh-1: login refused: …": failures that look like a portal's doing and are not.
std::string PortalControl::refusals() const {
    std::string text;
    for (const auto& link : node_.links()) {
        if (link->failure.is_now(links::FailureKind::LoginRefused)) {
            text += "; " + link->name + ": " + link->failure.latest().text;
        }
    }
    return text;
}

std::string PortalControl::log_in(const report::JsonValue& request, uint32_t peer) {
    const uint64_t asked_for = request["user"].unsigned_integer().value_or(peer);
    if (asked_for > UINT32_MAX || (peer != 0 && asked_for != peer)) {
        return report::error_json("only root may ask for another user");
    }
    const auto user = static_cast<uint32_t>(asked_for);
    const std::string interface = request.text("interface");
    const Uplink* uplink = captive_uplink(interface);
    if (uplink == nullptr) {
        return report::error_json((interface.empty()
                                       ? "no uplink is behind a captive portal"
                                       : interface + " is not behind a captive portal") +
                                  refusals());
    }
    if (is_kill_switch_) {
        return report::error_json(
            "the kill switch lets nothing out beside the tunnel; put the portal's addresses into "
            "capture.exclude, or log in with kill_switch = false");
    }
    const auto bypass = bypass_of(*uplink, user);
    if (!bypass) {
        return report::error_json(uplink->interface + " has no default route");
    }
    const base::TimePoint now = loop_.now();
    login_slot_ = uplink->slot;
    login_until_ = now + kLoginTime;
    watch_.hurry(login_until_);
    capture_.set_portal(bypass);
    report::JsonWriter json;
    json.begin_object();
    json.field("interface", uplink->interface);
    json.field("url", uplink->portal_url.empty() ? kAnyPage : uplink->portal_url.c_str());
    json.field("url_is_told", !uplink->portal_url.empty());
    json.field("user", user);
    json.field("seconds", std::chrono::duration_cast<base::seconds>(kLoginTime).count());
    json.end_object();
    return json.take();
}

}  // namespace continuo::cnapt::bypass
