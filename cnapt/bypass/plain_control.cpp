#include "cnapt/bypass/plain_control.hpp"

#include "cnapt/node/tunnel_uplinks.hpp"

#include <utility>

namespace continuo::cnapt::bypass {

using node::Node;

namespace {

// As long as a SNAPT may take to let the node in after the first one has (PATHS, Control).
constexpr base::Duration kWaitForOthers = base::seconds(5);

uint64_t received_by(const Node& node) {
    uint64_t datagrams = 0;
    for (const auto& link : node.links()) {
        datagrams += link->session ? link->session->counters().datagrams_received : 0;
    }
    return datagrams;
}

names::ResolverWatch::Settings settings_of(const settings::NodeConfig& config,
                                           const capture::CaptureSwitch& capture,
                                           const Node& node) {
    names::ResolverWatch::Settings settings;
    settings.received = [&node] { return received_by(node); };
    settings.carries = [&node](base::IpVersion version) { return carries(node.links(), version); };
    settings.captures_ipv4 = config.capture.ipv4;
    settings.captures_ipv6 = config.capture.ipv6;
    settings.is_off = !config.dns.servers.empty();
    settings.is_kill_switch = config.capture.kill_switch;
    settings.probe.device = config.capture.device;
    settings.probe.ipv4 = capture.ipv4();
    settings.probe.ipv6 = capture.ipv6();
    settings.probe.fwmark = config.capture.fwmark;
    return settings;
}

}  // namespace

PlainControl::PlainControl(io::EventLoop& loop,
                           const Node& node,
                           capture::CaptureSwitch& capture,
                           const settings::NodeConfig& config,
                           std::function<void()> on_settled)
    : loop_(loop)
    , node_(node)
    , capture_(capture)
    , config_(config.capture)
    , on_settled_(std::move(on_settled))
    , resolvers_(loop, settings_of(config, capture, node), [this] {
        tell();
        on_settled_();
    }) {}

void PlainControl::set_usable(bool is_usable) {
    if (is_usable && began_at_ == base::kNever) {
        began_at_ = loop_.now();
    }
    tell();
    resolvers_.set_usable(is_usable);
}

void PlainControl::on_network_changed() {
    tell();
    uplinks::NetworkMarks marks = uplinks::network_marks(node_.network());
    if (marks != marks_) {
        marks_ = std::move(marks);
        resolvers_.on_network_changed();
    }
}

void PlainControl::on_tick() {
    tell();
    resolvers_.on_tick();
}

// SNAPTs that are away count, too: each carries its destinations again when it is back. Until all
// have been heard, nothing goes outside the tunnel.
std::vector<base::IpPrefix> PlainControl::denied() const {
    std::vector<const std::vector<base::IpPrefix>*> lists;
    for (const auto& link : node_.links()) {
        if (!link->accept.snapt.empty()) {
            lists.push_back(&link->accept.denied);
        } else if (!link->is_learned &&
                   (began_at_ == base::kNever || loop_.now() - began_at_ < kWaitForOthers)) {
            return {};
        }
    }
    return uplinks::denied_by_all(lists);
}

std::vector<base::IpPrefix> PlainControl::not_forwarded() const {
    std::vector<base::IpPrefix> places = denied();
    std::erase_if(places, [&](const base::IpPrefix& one) {
        const bool is_captured = one.address.is_v4() ? config_.ipv4 : config_.ipv6;
        return !is_captured || uplinks::is_covered(config_.exclude, one);
    });
    return places;
}

void PlainControl::tell() {
    capture_.set_carries_ipv6(carries(node_.links(), base::IpVersion::V6));
    node_.monitor().watch(this, resolvers_.servers(), netlink::WatchRank::Second);
    uplinks::PlainPlaces places{denied(), {}, node::carriers_in_use(node_)};
    std::vector<base::IpPrefix> near = config_.exclude;
    if (config_.kill_switch) {
        resolvers_.set_places(std::move(near), std::exchange(places.denied, {}));
        capture_.set_plain(std::move(places));
        return;
    }
    near.insert(near.end(), config_.near.begin(), config_.near.end());
    uplinks::add_near_prefixes(node_.network(), near);
    resolvers_.set_places(std::move(near), places.denied);
    places.resolvers = resolvers_.bypassed();
    capture_.set_plain(std::move(places));
}

}  // namespace continuo::cnapt::bypass
