#include "snapt/users/directory_desk.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "snapt/settings/directory.hpp"

#include <algorithm>
#include <cstdlib>

namespace continuo::snapt::users {

using base::log;
using base::LogLevel;
using links::LinkId;

namespace {

// An oscillating load must not cause traffic to all nodes.
constexpr base::Duration kLoadLookInterval = base::seconds(600);
constexpr int kLoadDifference = 200;  // permille
constexpr size_t kMaxToldAtOnce = 256;

}  // namespace

void DirectoryDesk::connect(relay::Relay& relay, links::ControlServer& server) {
    relay_ = &relay;
    server_ = &server;
    directory_ = settings::make_directory(parts_.config, told_load_);
}

void DirectoryDesk::add(LinkId id) {
    if (!links_[id]) {
        tell(id);
    }
}

void DirectoryDesk::renew() {
    directory_ = settings::make_directory(parts_.config, told_load_, no_way_out_);
    if (!is_forwarding_ || drain_) {
        settings::set_no_forwarding(directory_);
    }
    for (auto& entry : links_) {
        entry.second = false;
    }
    has_untold_ = true;
}

void DirectoryDesk::set_forwarding(bool is_forwarding, control::VersionSet no_way_out) {
    if (is_forwarding_ != is_forwarding || no_way_out_ != no_way_out) {
        is_forwarding_ = is_forwarding;
        no_way_out_ = no_way_out;
        renew();
        tell_all();
    }
}

void DirectoryDesk::renew_load() {
    const base::TimePoint now = parts_.loop.now();
    if (now - load_looked_at_ < kLoadLookInterval) {
        return;
    }
    load_looked_at_ = now;
    const auto& sessions = relay_->sessions();
    const auto used = std::count_if(sessions.begin(), sessions.end(), [](const auto& session) {
        return session->session.flows() != 0;
    });
    const uint16_t load =
        settings::load_permille(static_cast<size_t>(used), parts_.config.limits.sessions);
    if (std::abs(load - told_load_) >= kLoadDifference) {
        told_load_ = load;
        renew();
    }
}

void DirectoryDesk::tell_all() {
    size_t told = 0;
    for (auto link = links_.begin(); has_untold_ && link != links_.end(); ++link) {
        if (link->second) {
            continue;
        }
        if (++told > kMaxToldAtOnce) {
            return;
        }
        tell(link->first);
    }
    has_untold_ = false;
}

void DirectoryDesk::tell(LinkId id) {
    links_[id] = true;
    server_->send_directory(id, directory_);
    if (drain_) {
        relay_->drain(wire_id_of_(id), parts_.loop.now() + kDrainNotice);
    }
}

bool DirectoryDesk::begin_drain(std::optional<base::Duration> most) {
    const bool begins = !drain_;
    if (begins) {
        drain_.emplace().since_utc_s = daemon::utc_us() / store::kUsPerSecond;
        log(LogLevel::Info, "draining: no new sessions and flows, %zu sessions with %zu flows",
            relay_->sessions().size(), relay_->flows().shares().running_flows());
        renew();
        tell_all();
        drain_silent_nodes();
    }
    if (most) {
        drain_->ends_at = parts_.loop.now() + *most;
        drain_->ends_utc_s = (daemon::utc_us() + base::to_us(*most)) / store::kUsPerSecond;
    }
    return begins;
}

bool DirectoryDesk::end_drain() {
    if (!drain_) {
        return false;
    }
    drain_.reset();
    log(LogLevel::Info, "draining is over: new sessions and flows are taken");
    for (const auto& session : relay_->sessions()) {
        relay_->drain(session->wire_id, base::kNever);
    }
    renew();
    tell_all();
    return true;
}

// Those without a control link are told once they have one again.
void DirectoryDesk::drain_silent_nodes() {
    for (const auto& session : relay_->sessions()) {
        if (!session->has_link) {
            relay_->drain(session->wire_id, parts_.loop.now() + kDrainNotice);
        }
    }
}

bool DirectoryDesk::on_tick() {
    renew_load();
    tell_all();
    if (!drain_) {
        return false;
    }
    drain_silent_nodes();  // a link may have ended before it was told
    if (parts_.loop.now() < drain_->ends_at) {
        return false;
    }
    drain_->ends_at = base::kNever;
    log(LogLevel::Info, "draining: the time is over, %zu sessions with %zu flows end",
        relay_->sessions().size(), relay_->flows().shares().running_flows());
    return true;
}

}  // namespace continuo::snapt::users
