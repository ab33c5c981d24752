// CaptureSwitch: CaptureControl for a running daemon. Netlink and nftables are used on a helper
// thread, in order, and a step that fails is tried again. Belongs to the data loop.
#pragma once

#include "cnapt/capture/capture_control.hpp"
#include "cnapt/capture/source_routes.hpp"
#include "common/io/worker_thread.hpp"
#include "common/netlink/rule_monitor.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace continuo::cnapt::capture {

class CaptureSwitch {
  public:
    // `on_active` is called once traffic is captured for the first time. `loop` must outlive this.
    // `sysctl_record`: as CaptureControl's.
    CaptureSwitch(io::EventLoop& loop,
                  settings::CaptureConfig config,
                  std::function<void()> on_active,
                  std::string sysctl_record = {});
    CaptureSwitch(const CaptureSwitch&) = delete;
    CaptureSwitch& operator=(const CaptureSwitch&) = delete;
    ~CaptureSwitch() = default;

    // At the start, before anything else: these block.
    base::Result<void> clean_up() { return control_.clean_up(); }
    base::Result<void> set_up_device(std::string& failure);
    base::Result<void> begin_at_once(std::shared_ptr<const classifier::Ruleset> ruleset,
                                     std::string& failure);

    // The wanted state: the policy rules, and whether new flows are captured. Takes effect soon.
    void set_ruleset(std::shared_ptr<const classifier::Ruleset> ruleset);
    void set_open(bool is_open);
    // Only while there are rules: traffic is captured, or was.
    void set_portal(std::optional<PortalBypass> portal);
    // `on_link`: prefixes in the networks of uplinks that are near.
    void set_near(uplinks::NearLinks near, std::vector<base::IpPrefix> on_link);
    void set_forward_links(ForwardLinks links);
    void set_plain(uplinks::PlainPlaces places);
    // As CaptureControl's, once traffic is captured.
    void set_resolver_links(std::vector<std::string> links);
    void set_carries_ipv6(bool carries_ipv6);
    // Takes effect also while nothing is captured.
    void set_sources(SourcePlan plan) { sources_.set(std::move(plan)); }
    size_t sources_left_out() const { return sources_.left_out(); }
    // New flows are captured now; with the kill switch always.
    bool is_open() const { return done_ && (done_->is_open || is_kill_switch_); }
    // Tries failed steps again. Checks for parts that other programs have removed; this also
    // happens, sooner, when the kernel reports a change.
    void on_tick();
    // Waits for the step in progress, then restores plain routing.
    void end();
    // Waits likewise. Flows in the tunnel stay there for the next run; new ones bypass it until
    // then, unless there is the kill switch. The device must exist and must stay. False: it failed,
    // which is logged; call end().
    bool leave();
    bool has_taken_over() const { return control_.has_taken_over(); }

    base::IpAddress ipv4() const { return control_.ipv4(); }
    base::IpAddress ipv6() const { return control_.ipv6(); }

  private:
    struct Wish {
        std::shared_ptr<const classifier::Ruleset> ruleset;
        bool is_open = false;
        std::optional<PortalBypass> portal;
        uplinks::NearLinks near;
        std::vector<base::IpPrefix> on_link;
        ForwardLinks forward_links;
        uplinks::PlainPlaces plain;
        std::vector<std::string> resolver_links;
        bool carries_ipv6 = false;
        bool operator==(const Wish&) const = default;
    };
    void follow();
    void forget_done();  // so that the next tick tries again
    void on_rules_changed();
    void look_soon();
    void supervise();
    void count_repair();
    void on_repaired(const base::Result<void>& result, const std::string& failure);
    void log_failure(const std::string& what, const base::Error& error);
    // Applies `wish` to the kernel. A part that fails without harm to the rest is removed from
    // `wish`.
    base::Result<void> apply(Wish& wish, std::string& failure);

    const bool is_kill_switch_;
    SourceRoutes sources_;
    CaptureControl control_;  // the helper thread's while is_busy_
    std::function<void()> on_active_;
    io::EventLoop& loop_;
    io::DeadlineTimer look_timer_;
    std::unique_ptr<netlink::RuleMonitor> monitor_;  // may be absent: then the tick alone looks
    std::unique_ptr<io::WorkerThread> worker_;
    Wish wish_;
    std::optional<Wish> done_;  // the state in force; without a ruleset: the rules are unknown
    bool is_busy_ = false;
    bool is_suspect_ = false;  // rules have changed since they were looked at
    bool was_active_ = false;
    bool has_warned_of_resolver_ = false;  // the helper thread's while is_busy_
    unsigned quick_repairs_ = 0;
    base::TimePoint repaired_at_{};
    std::string last_failure_;
    std::string near_failure_;  // the last that was logged; the helper thread's while is_busy_
};

}  // namespace continuo::cnapt::capture
