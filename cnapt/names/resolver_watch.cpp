#include "cnapt/names/resolver_watch.hpp"

#include "cnapt/uplinks/plain_places.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace continuo::cnapt::names {

using base::IpAddress;
using base::log;
using base::LogLevel;
using uplinks::is_in;

namespace {

constexpr size_t kMaxSteps = 2;  // one is under way at most
// The first change may come before the network is complete.
constexpr unsigned kAsksForNewNetwork = 2;

}  // namespace

ResolverWatch::ResolverWatch(io::EventLoop& loop,
                             Settings settings,
                             std::function<void()> on_change)
    : loop_(loop)
    , settings_(std::move(settings))
    , on_change_(std::move(on_change))
    , worker_(settings_.is_off
                  ? nullptr
                  : std::make_unique<io::WorkerThread>(loop, "cnapt-resolver", kMaxSteps)) {}

struct ResolverWatch::Step {
    ResolverProbe probe;
    std::vector<ResolverWay> ways;
    uint64_t received = 0;
    unsigned usable_changes = 0;
    bool forgets = false;
};

// Does not wait for name servers.
ResolverWatch::~ResolverWatch() {
    if (worker_ != nullptr) {
        worker_->abandon();
    }
}

void ResolverWatch::set_places(std::vector<base::IpPrefix> near,
                               std::vector<base::IpPrefix> denied) {
    near_ = std::move(near);
    denied_ = std::move(denied);
}

void ResolverWatch::set_usable(bool is_usable) {
    if (is_usable != is_usable_) {
        is_usable_ = is_usable;
        ++usable_changes_;
        is_to_ask_ = true;
        look();
    }
}

void ResolverWatch::on_network_changed() {
    is_to_ask_ = true;
    asks_for_new_network_ = kAsksForNewNetwork;
    rest_ = kFirstAskAgain;
    look();
}

void ResolverWatch::on_tick() {
    if (loop_.now() >= ask_again_at_ || (is_usable_ && carried_ != carried_now())) {
        ask_again_at_ = base::kNever;
        is_to_ask_ = true;
    }
    look();
}

std::array<bool, 2> ResolverWatch::carried_now() const {
    return {settings_.carries(base::IpVersion::V4), settings_.carries(base::IpVersion::V6)};
}

// Reads the host's servers each time: changes are not announced.
void ResolverWatch::look() {
    if (worker_ == nullptr || is_busy_ || !is_usable_) {
        return;
    }
    auto servers = std::make_shared<std::vector<IpAddress>>();
    is_busy_ = worker_->submit(
        [servers, places = settings_.places] { *servers = servers_beside_tunnel(places); },
        [this, servers] {
            is_busy_ = false;
            on_servers(std::move(*servers));
        });
}

void ResolverWatch::on_servers(std::vector<IpAddress> servers) {
    const bool is_other = servers != servers_;
    servers_ = std::move(servers);
    if (is_other) {
        std::erase_if(ways_, [&](const auto& entry) {
            return std::find(servers_.begin(), servers_.end(), entry.first) == servers_.end();
        });
    }
    if (is_other || is_to_ask_) {
        is_to_ask_ = false;
        ask();
    }
}

void ResolverWatch::ask() {
    auto step = std::make_shared<Step>();
    step->probe = settings_.probe;
    step->probe.asks_beside = !settings_.is_kill_switch;
    step->probe.beside_time = has_answers_ ? kProbeTime : kBesideTime;
    step->received = settings_.received();
    step->usable_changes = usable_changes_;
    step->forgets = asks_for_new_network_ == 1;
    asks_for_new_network_ -= std::min(asks_for_new_network_, 1U);
    carried_ = carried_now();
    for (const IpAddress& server : servers_) {
        const bool is_captured = server.is_v4() ? settings_.captures_ipv4 && carried_[0]
                                                : settings_.captures_ipv6 && carried_[1];
        if (!is_captured || server.is_loopback() || server.is_link_local() ||
            is_in(near_, server) || is_in(denied_, server)) {
            ways_.erase(server);
        } else {
            step->probe.servers.push_back(server);
        }
    }
    if (step->probe.servers.empty()) {
        on_answers(*step);
        return;
    }
    is_busy_ = worker_->submit([step] { step->ways = probe_resolvers(step->probe); },
                               [this, step] {
                                   is_busy_ = false;
                                   on_answers(*step);
                                   if (is_to_ask_) {
                                       look();
                                   }
                               });
}

void ResolverWatch::on_answers(const Step& step) {
    if (!is_usable_) {
        return;  // proves nothing
    }
    // The tunnel carried something after the question, and was never down.
    const bool is_proof =
        settings_.received() != step.received && usable_changes_ == step.usable_changes;
    const auto before = bypassed();
    const bool is_first = !has_answers_;
    undecided_.clear();
    bool is_any_silent = false;
    for (size_t i = 0; i < step.ways.size(); ++i) {
        const IpAddress& server = step.probe.servers[i];
        const bool is_known = step.ways[i] == ResolverWay::Tunnel ||
                              (step.ways[i] == ResolverWay::Beside && is_proof);
        is_any_silent = is_any_silent || step.ways[i] != ResolverWay::Tunnel;
        const auto known = ways_.find(server);
        if (!is_known && is_first) {
            undecided_.push_back(server);
        }
        if (!is_known && step.forgets) {
            ways_.erase(server);
        } else if (is_known && (known == ways_.end() || known->second != step.ways[i])) {
            say(server, step.ways[i]);
            ways_[server] = step.ways[i];
        }
    }
    if (is_any_silent) {
        ask_again_at_ = loop_.now() + rest_;
        rest_ = std::min(2 * rest_, kLongestAskAgain);
    } else {
        ask_again_at_ = base::kNever;
        rest_ = kFirstAskAgain;
    }
    has_answers_ = true;
    is_to_ask_ = is_to_ask_ || !undecided_.empty();
    if (is_first || before != bypassed()) {
        on_change_();
    }
}

void ResolverWatch::say(const IpAddress& server, ResolverWay way) const {
    const std::string name = server.to_string();
    if (way == ResolverWay::Tunnel) {
        log(LogLevel::Info, "name server %s answers through the tunnel", name.c_str());
    } else if (settings_.is_kill_switch) {
        log(LogLevel::Warning,
            "name server %s does not answer through the tunnel, and the kill switch stops other "
            "ways there: set [dns] servers, or put it into capture.exclude",
            name.c_str());
    } else {
        log(LogLevel::Info,
            "name server %s answers its own network only: asked beside the tunnel ([dns] servers "
            "would be asked through it)",
            name.c_str());
    }
}

bool ResolverWatch::is_settled() const {
    return settings_.is_off || settings_.is_kill_switch || has_answers_;
}

std::vector<IpAddress> ResolverWatch::not_in_tunnel() const {
    std::vector<IpAddress> list;
    for (const IpAddress& server : servers_) {
        const auto known = ways_.find(server);
        const bool is_beside = known != ways_.end() && known->second == ResolverWay::Beside;
        if (is_beside || (is_in(denied_, server) && !is_in(near_, server))) {
            list.push_back(server);
        }
    }
    return list;
}

std::vector<IpAddress> ResolverWatch::bypassed() const {
    if (settings_.is_kill_switch) {
        return {};
    }
    std::vector<IpAddress> list = not_in_tunnel();
    std::copy_if(undecided_.begin(), undecided_.end(), std::back_inserter(list),
                 [&](const IpAddress& server) { return !ways_.contains(server); });
    return list;
}

std::string_view ResolverWatch::state() const {
    if (settings_.is_off || not_in_tunnel().empty()) {
        return "off";
    }
    return settings_.is_kill_switch ? "unreachable" : "beside";
}

void ResolverWatch::write_status(report::JsonWriter& json) const {
    const auto list = settings_.is_off ? std::vector<IpAddress>() : not_in_tunnel();
    for (const auto& [name, is_here] : {std::pair("bypassed", !settings_.is_kill_switch),
                                        std::pair("unreachable", settings_.is_kill_switch)}) {
        json.key(name).begin_array();
        for (size_t i = 0; is_here && i < list.size(); ++i) {
            json.string(list[i].to_string());
        }
        json.end_array();
    }
}

}  // namespace continuo::cnapt::names
