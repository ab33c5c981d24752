// SourceRoutes: packets with an uplink's address leave by that uplink where the host would use a
// default route. Strict reverse path filters (the sysctl rp_filter = 1, nftables' `fib saddr . iif
// oif`) look up the interface by which the answer to a packet would leave, and drop the packet if
// it came by another: everything that comes by an uplink whose default route is not the best, or
// while another VPN has the default route. Each uplink has a table N:
//
//   9346   from ADDRESS -> N     no default routes: to SNAPTs, and on-link ones of the interface
//   32764  from ADDRESS -> main  no default routes
//   32765  from ADDRESS -> N
//
// The first precedes rules that lead elsewhere, also later ones without a priority
// (rule_place.hpp). The others come after the host's own rules and before `main`. The tunnel's own
// datagrams have a mark and use none of the three, so that outdated routes do not mislead them.
#pragma once

#include "cnapt/uplinks/fwmark.hpp"
#include "common/base/result.hpp"
#include "common/io/worker_thread.hpp"
#include "common/netlink/net_monitor.hpp"
#include "common/wire/constants.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace continuo::cnapt::capture {

inline constexpr uint32_t kSnaptRulePriority = 9346;  // directly before those of the capture
inline constexpr uint32_t kNearSourceRulePriority = 32764;
inline constexpr uint32_t kSourceRulePriority = 32765;

// Most routes of one uplink; further ones are left out (counted). Choices, not measured.
inline constexpr size_t kMaxSourceDefaults = 8;  // default routes, also in parts
inline constexpr size_t kMaxSourceOnLink = 8;
inline constexpr size_t kMaxSourceSnapts = 32;  // addresses of SNAPTs

struct SourceUplink {
    uint8_t slot = 0;  // below wire::kTcpPath
    uint32_t interface_index = 0;
    base::IpAddress address;
};

struct SourceNumbers {
    uint32_t routing_table = 9347;
    uint32_t fwmark = uplinks::kDefaultFwmark;
};

struct SourcePlan {
    std::vector<netlink::RouteEntry> routes;
    std::vector<netlink::RuleEntry> rules;
    size_t left_out = 0;

    bool operator==(const SourcePlan&) const = default;
};

// Table of an uplink: none of the kernel's, `routing_table` or the portal's.
uint32_t source_table(uint32_t routing_table, uint8_t slot);

// Pure. There are no rules for an uplink without any route, for an address that two uplinks share,
// which no rule can tell apart, or for a gateway of the other IP version, which a copy would lose.
SourcePlan source_plan(const netlink::NetSnapshot& network,
                       std::span<const SourceUplink> uplinks,
                       std::span<const base::IpAddress> snapts,
                       const SourceNumbers& numbers);

// True for one of these rules, wherever it stands.
bool is_source_rule(const netlink::RuleEntry& rule);

// Makes the kernel's rules of ours equal to `plan`, and its routes in `tables`. Idempotent;
// continues after an error and returns the first. Blocks briefly on netlink.
base::Result<void> apply_source_plan(const SourcePlan& plan, std::span<const uint32_t> tables);

// Keeps a plan in force, on a helper thread. Data loop.
class SourceRoutes {
  public:
    // `loop` must outlive this.
    SourceRoutes(io::EventLoop& loop, uint32_t routing_table);
    SourceRoutes(const SourceRoutes&) = delete;
    SourceRoutes& operator=(const SourceRoutes&) = delete;
    ~SourceRoutes() = default;

    // Takes effect soon. Call at each change of the network and once a second: the state is checked
    // at intervals, and failures are tried again.
    void set(SourcePlan plan);
    size_t left_out() const { return wish_.left_out; }
    // Rules have changed: what is ours is put back with the next set(), if it is gone.
    void suspect() { is_suspect_ = true; }
    // Waits for the step in progress. The plan stays in force for the next run.
    void leave() { worker_.reset(); }
    // The same, and removes it.
    void end();

  private:
    void follow();
    std::vector<uint32_t> tables(bool all) const;

    io::EventLoop& loop_;
    const uint32_t routing_table_;
    SourcePlan wish_;
    std::optional<SourcePlan> done_;  // in force; nothing: it is not known what is
    base::TimePoint look_at_{};
    bool is_suspect_ = false;
    bool is_due_ = false;
    bool is_busy_ = false;
    size_t told_left_out_ = 0;
    unsigned failures_ = 0;  // one behind the other
    std::unique_ptr<io::WorkerThread> worker_;
};

}  // namespace continuo::cnapt::capture
