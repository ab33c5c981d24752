// Admission: the directory sent to nodes, with this SNAPT's load and whether it forwards.
#include "snapt/settings/directory.hpp"
#include "snapt/users/admission.hpp"

#include <algorithm>
#include <cstdlib>

namespace continuo::snapt::users {

namespace {

// An oscillating load must not cause traffic to all nodes.
constexpr base::Duration kLoadLookInterval = base::seconds(600);
constexpr int kLoadDifference = 200;  // permille
constexpr size_t kMaxToldAtOnce = 256;

}  // namespace

void Admission::renew_directory() {
    directory_ = settings::make_directory(parts_.config, told_load_, no_way_out_);
    if (!takes_others()) {
        settings::set_no_forwarding(directory_);
    }
    for (auto& entry : links_) {
        entry.second.knows_directory = false;
    }
    has_untold_ = true;
}

void Admission::set_forwarding(bool is_forwarding, control::VersionSet no_way_out) {
    if (is_forwarding_ != is_forwarding || no_way_out_ != no_way_out) {
        is_forwarding_ = is_forwarding;
        no_way_out_ = no_way_out;
        renew_directory();
        tell_directories();
    }
}

void Admission::renew_load() {
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
        renew_directory();
    }
}

void Admission::tell_directories() {
    size_t told = 0;
    for (auto link = links_.begin(); has_untold_ && link != links_.end(); ++link) {
        if (!link->second.is_open || link->second.knows_directory) {
            continue;
        }
        if (++told > kMaxToldAtOnce) {
            return;
        }
        tell_directory(link->first, link->second);
    }
    has_untold_ = false;
}

void Admission::tell_directory(links::LinkId id, Link& link) {
    link.knows_directory = true;
    server_->send_directory(id, directory_);
    if (drain_) {
        relay_->drain(link.wire_id, parts_.loop.now() + kDrainNotice);
    }
}

}  // namespace continuo::snapt::users
