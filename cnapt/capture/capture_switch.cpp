#include "cnapt/capture/capture_switch.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"

#include <utility>

namespace continuo::cnapt::capture {

using uplinks::NearLinks;

namespace {

constexpr size_t kMaxSteps = 4;  // one is under way at most
// Changes come in groups, and on some hosts all the time.
constexpr base::Duration kLookDelay = base::milliseconds(10);
// Two programs that replace each other's rules would never stop: this many repairs at once, then
// one per tick.
constexpr unsigned kMaxQuickRepairs = 8;
constexpr base::Duration kQuietAfter = base::seconds(10);

// Differs from every wish, so that the next tick tries again; no link counts.
NearLinks near_unknown() {
    NearLinks near;
    near.links.push_back({0, 0});
    near.has_grouped_uplink = true;
    return near;
}

}  // namespace

CaptureSwitch::CaptureSwitch(io::EventLoop& loop,
                             settings::CaptureConfig config,
                             std::function<void()> on_active,
                             std::string sysctl_record)
    : is_kill_switch_(config.kill_switch)
    , sources_(loop, config.routing_table)
    , control_(std::move(config), std::move(sysctl_record))
    , on_active_(std::move(on_active))
    , loop_(loop)
    , look_timer_(loop, [this] { supervise(); })
    , worker_(std::make_unique<io::WorkerThread>(loop, "cnapt-capture", kMaxSteps)) {
    if (auto monitor = netlink::RuleMonitor::start(loop, [this] { on_rules_changed(); })) {
        monitor_ = std::move(*monitor);
    }
}

base::Result<void> CaptureSwitch::set_up_device(std::string& failure) {
    return control_.set_up_device(failure);
}

base::Result<void> CaptureSwitch::begin_at_once(std::shared_ptr<const classifier::Ruleset> ruleset,
                                                std::string& failure) {
    wish_.ruleset = std::move(ruleset);
    Wish wish = wish_;
    CTN_TRY(apply(wish, failure));
    done_ = std::move(wish);
    return {};
}

void CaptureSwitch::set_ruleset(std::shared_ptr<const classifier::Ruleset> ruleset) {
    wish_.ruleset = std::move(ruleset);
    follow();
}

void CaptureSwitch::set_open(bool is_open) {
    wish_.is_open = is_open;
    follow();
}

void CaptureSwitch::set_portal(std::optional<PortalBypass> portal) {
    wish_.portal = std::move(portal);
    follow();
}

void CaptureSwitch::set_near(NearLinks near, std::vector<base::IpPrefix> on_link) {
    if (near.has_grouped_uplink && !wish_.near.has_grouped_uplink) {
        base::log(
            base::LogLevel::Warning,
            "an uplink is in a group of interfaces (ip link set group); routes to public "
            "destinations over other interfaces lead through the tunnel, but for capture.near");
    }
    wish_.near = std::move(near);
    wish_.on_link = std::move(on_link);
    follow();
}

void CaptureSwitch::set_forward_links(ForwardLinks links) {
    if (links.left_out > wish_.forward_links.left_out) {
        base::log(base::LogLevel::Warning,
                  "%zu interfaces are too many for the kill switch, or have odd names: what is "
                  "forwarded for them stays closed",
                  links.left_out);
    }
    wish_.forward_links = std::move(links);
    follow();
}

void CaptureSwitch::set_plain(uplinks::PlainPlaces places) {
    wish_.plain = std::move(places);
    follow();
}

void CaptureSwitch::set_resolver_links(std::vector<std::string> links) {
    wish_.resolver_links = std::move(links);
    follow();
}

void CaptureSwitch::set_carries_ipv6(bool carries_ipv6) {
    wish_.carries_ipv6 = carries_ipv6;
    follow();
}

void CaptureSwitch::on_tick() {
    follow();
    supervise();
}

base::Result<void> CaptureSwitch::apply(Wish& wish, std::string& failure) {
    if (const auto set = control_.set_near(wish.near, failure); !set) {
        std::string text = failure + ": " + daemon::describe(set.error());
        if (text != near_failure_) {
            base::log(base::LogLevel::Error, "%s; all public routes lead through the tunnel",
                      text.c_str());
            near_failure_ = std::move(text);
        }
        wish.near = near_unknown();
        failure.clear();
    } else {
        near_failure_.clear();
    }
    // If the table or device is gone these fail, and begin() creates them anew.
    const bool has_links = (done_ && done_->forward_links == wish.forward_links) ||
                           control_.set_forward_links(wish.forward_links, failure).has_value();
    if (!done_ || done_->resolver_links != wish.resolver_links) {
        const auto closed = control_.set_resolver_links(wish.resolver_links, failure);
        if (!closed && !std::exchange(has_warned_of_resolver_, true)) {
            base::log(base::LogLevel::Warning,
                      "%s (nftables' owner flag, Linux 5.12): it may ask "
                      "their servers, too",
                      failure.c_str());
        }
        failure.clear();
    }
    const bool had_ipv6 = done_ && done_->carries_ipv6;
    const bool has_address = wish.carries_ipv6 == had_ipv6 ||
                             control_.set_carries_ipv6(wish.carries_ipv6, failure).has_value();
    const bool is_let_in = control_.let_in(wish.is_open, failure).has_value();
    const bool has_new_rules = !done_ || done_->ruleset != wish.ruleset ||
                               done_->portal != wish.portal || done_->plain != wish.plain ||
                               done_->on_link != wish.on_link ||
                               done_->near.is_counted() != wish.near.is_counted();
    control_.set_portal(wish.portal);
    control_.set_plain(wish.plain);
    control_.set_on_link(wish.on_link);
    if (is_let_in && has_links && has_address && !has_new_rules) {
        return {};
    }
    // Also restores what other programs have flushed.
    return control_.begin(*wish.ruleset, failure);
}

// Runs one step at a time, towards the wish at its beginning. Nothing runs before flows are let in
// for the first time.
void CaptureSwitch::follow() {
    const bool is_due = done_ ? *done_ != wish_ : wish_.is_open;
    if (!is_due || is_busy_ || worker_ == nullptr || wish_.ruleset == nullptr) {
        return;
    }
    struct Step {
        Wish wish;
        std::string failure;
        base::Result<void> result;
    };
    auto step = std::make_shared<Step>(Step{wish_, {}, {}});
    is_busy_ = worker_->submit([this, step] { step->result = apply(step->wish, step->failure); },
                               [this, step] {
                                   is_busy_ = false;
                                   if (!step->result) {
                                       log_failure(step->failure, step->result.error());
                                       forget_done();
                                       return;  // the next tick tries again
                                   }
                                   last_failure_.clear();
                                   const bool is_whole = step->wish.near != near_unknown();
                                   done_ = step->wish;
                                   if (done_->is_open && !was_active_) {
                                       was_active_ = true;
                                       on_active_();
                                   }
                                   if (is_whole) {
                                       follow();  // else with the next tick
                                   }
                                   if (is_suspect_) {
                                       supervise();
                                   }
                               });
}

void CaptureSwitch::forget_done() {
    if (done_) {
        done_->ruleset.reset();
    }
}

void CaptureSwitch::on_rules_changed() {
    sources_.suspect();
    if (!is_suspect_) {
        is_suspect_ = true;
        look_soon();
    }
}

void CaptureSwitch::look_soon() {
    if (quick_repairs_ < kMaxQuickRepairs) {
        look_timer_.set(loop_.now() + kLookDelay);
    }
}

// The same failure recurs with each tick.
void CaptureSwitch::log_failure(const std::string& what, const base::Error& error) {
    std::string text = what + ": " + daemon::describe(error);
    if (text != last_failure_) {
        base::log(base::LogLevel::Error, "%s", text.c_str());
        last_failure_ = std::move(text);
    }
}

void CaptureSwitch::count_repair() {
    const base::TimePoint now = loop_.now();
    quick_repairs_ = now - repaired_at_ > kQuietAfter ? 1 : quick_repairs_ + 1;
    repaired_at_ = now;
}

void CaptureSwitch::on_repaired(const base::Result<void>& result, const std::string& failure) {
    count_repair();
    // Another program removed them again before they were measured: that is no failure of ours.
    const bool was_undone = !result && result.error().code == base::Errc::InvalidState;
    is_suspect_ = is_suspect_ || was_undone;
    if (!result && !was_undone) {
        quick_repairs_ = kMaxQuickRepairs;
        log_failure(failure, result.error());
        return;
    }
    last_failure_.clear();
    if (quick_repairs_ <= kMaxQuickRepairs) {
        base::log(
            base::LogLevel::Warning,
            "policy rules, routes or nftables rules were removed by another program; restored");
    }
    if (quick_repairs_ == kMaxQuickRepairs) {
        base::log(base::LogLevel::Warning,
                  "this keeps happening; restored at most once a second now");
    }
}

void CaptureSwitch::supervise() {
    if (is_busy_ || worker_ == nullptr || wish_.ruleset == nullptr) {
        return;
    }
    is_suspect_ = false;
    struct Look {
        bool is_displaced = false;  // by rules that have come before
        bool must_begin = false;
        bool is_damaged = false;
        std::string failure;
        base::Result<void> result;
    };
    auto look = std::make_shared<Look>();
    const auto work = [this, look, ruleset = wish_.ruleset] {
        const bool has_other_ipv6 = control_.follow_ipv6();
        const auto is_in_place = control_.is_in_place();
        look->is_displaced = control_.is_active() && is_in_place && !*is_in_place;
        look->must_begin = control_.is_active() && (has_other_ipv6 || look->is_displaced);
        const auto is_whole = control_.is_whole();
        look->is_damaged = is_whole && !*is_whole && !look->must_begin;
        if (look->must_begin) {
            look->result = control_.begin(*ruleset, look->failure);
        } else if (look->is_damaged) {
            look->result = control_.repair(*ruleset, look->failure);
        }
    };
    is_busy_ = worker_->submit(work, [this, look] {
        is_busy_ = false;
        // IPv6 that comes or goes is nobody's quarrel.
        if (look->is_displaced) {
            count_repair();
        }
        if (look->must_begin && !look->result) {
            log_failure(look->failure, look->result.error());
            forget_done();
        } else if (look->is_damaged) {
            on_repaired(look->result, look->failure);
        }
        follow();
        if (is_suspect_) {
            look_soon();
        }
    });
}

bool CaptureSwitch::leave() {
    monitor_.reset();
    worker_.reset();
    sources_.leave();
    std::string failure;
    const auto left = control_.leave(failure);
    if (!left) {
        base::log(base::LogLevel::Warning, "%s: %s", failure.c_str(),
                  daemon::describe(left.error()).c_str());
    }
    return left.has_value();
}

void CaptureSwitch::end() {
    monitor_.reset();
    worker_.reset();
    control_.end();
    sources_.end();
}

}  // namespace continuo::cnapt::capture
