// CaptureControl: sets cnapt0 up and lets the host's traffic into it, and takes everything away
// again, also what a killed run left. From the first to the last of it an nftables chain, the
// guard, keeps packets with cnapt0's addresses off the uplinks, both ways. Blocks for a moment on
// netlink and nftables: not for the data loop. One thread at a time.
#pragma once

#include "classifier/ruleset.hpp"
#include "cnapt/lan_timeouts.hpp"
#include "cnapt/near_links.hpp"
#include "cnapt/node_config.hpp"
#include "cnapt/plain_places.hpp"
#include "cnapt/routes.hpp"
#include "cnapt/rule_place.hpp"
#include "common/base/result.hpp"
#include "common/io/netlink_route.hpp"
#include "common/io/nft.hpp"

#include <string>

namespace continuo::cnapt {

// Group of interfaces that are no uplinks: a number of this instance's own.
uint32_t near_group(const CaptureConfig& config);

class CaptureControl {
  public:
    // `sysctl_record`: where a gateway keeps former values of kernel parameters; empty: it changes
    // none.
    explicit CaptureControl(CaptureConfig config, std::string sysctl_record = {})
        : config_(std::move(config)), lan_timeouts_(std::move(sysctl_record)) {}

    // Removes rules and routes of an earlier run, and its nftables table but for the guard, unless
    // that is a kill switch that goes on. The parts that a run of this configuration has left for a
    // restart stay, and connections go on in them.
    base::Result<void> clean_up();
    // After clean_up(): the device and what belongs to it are of an earlier run.
    bool has_taken_over() const { return has_taken_over_; }
    // Addresses and state of the device; nothing is captured yet.
    base::Result<void> set_up_device(std::string& failure);
    // Rules, routes, nftables. Idempotent; also after a change of the policy. New flows are
    // captured if let_in() said so last.
    base::Result<void> begin(const classifier::Ruleset& ruleset, std::string& failure);
    // Whether new flows are captured. Those in the tunnel stay there; with the kill switch all do.
    base::Result<void> let_in(bool is_open, std::string& failure);
    // False if somebody else has removed rules, routes or the table. Cheap: five requests of
    // netlink while nobody changes nftables.
    base::Result<bool> is_whole();
    // Puts it back. As begin().
    base::Result<void> repair(const classifier::Ruleset& ruleset, std::string& failure);
    // Looks whether the host has IPv6; a change is logged. True: begin() is due. Without IPv4 to
    // capture nothing changes.
    bool follow_ipv6();
    // Whether the rules stand where they belong: before those that others gave later without a
    // priority (rule_place.hpp). False: begin() is due.
    base::Result<bool> is_in_place();
    // Back to plain routing; `device` must be gone. Connections that would go on with its addresses
    // beside the tunnel are ended: IPv6 connections of this host and translated ones of the LAN
    // sides. (IPv4 packets with a source that is no address of the host are not routed.)
    void end();
    // Ends this run for a restart, in place of end(): new flows are no longer captured unless there
    // is the kill switch, all else stays, and the device gets a mark by which the next run knows
    // it.
    base::Result<void> leave(std::string& failure);
    // Part of what begin() sets, from the next time on.
    void set_portal(std::optional<PortalBypass> portal) { portal_ = std::move(portal); }
    // Part of what begin() sets, from the next time on. With the kill switch nothing goes beside
    // the tunnel for that.
    void set_plain(PlainPlaces places) { plain_ = std::move(places); }
    // Part of what begin() sets, from the next time on: public prefixes in the network of an uplink
    // that stay beside the tunnel.
    void set_on_link(std::vector<base::IpPrefix> near) { on_link_ = std::move(near); }
    // Whether some SNAPT carries IPv6. While none does, cnapt0's IPv6 address is deprecated, so
    // that programs try IPv4 first. Takes effect at once; until the first call none does.
    base::Result<void> set_carries_ipv6(bool carries_ipv6, std::string& failure);
    // Puts the interfaces into their group, and others back. The next begin() uses the new set of
    // near links. When it fails no link is near: the tunnel takes more, and begin() may go on.
    base::Result<void> set_near(const NearLinks& near, std::string& failure);
    // With the kill switch: what is known of the host's interfaces. Takes effect at once, and with
    // each begin().
    base::Result<void> set_forward_links(const ForwardLinks& links, std::string& failure);
    // Names go through the tunnel: systemd-resolved does not ask name servers by these interfaces.
    // Takes effect at once, and ends with this process.
    base::Result<void> set_resolver_links(const std::vector<std::string>& links,
                                          std::string& failure);
    bool is_active() const { return is_active_; }

    base::IpAddress ipv4() const { return default_node_ipv4(); }
    base::IpAddress ipv6() const { return default_node_ipv6(); }

  private:
    // How much of ours is in the kernel.
    struct Extent {
        size_t table_rules = 0;
        size_t policy_rules = 0;
        size_t routes = 0;
        bool operator==(const Extent&) const = default;
    };

    CaptureOptions options(const classifier::Ruleset* ruleset) const;
    // Without rules and routes; the guard is for both versions, whatever is captured.
    CapturePlan plan_of_guard() const;
    base::Result<void> move_rules(const CapturePlan& plan);
    base::Result<void> replace_table(const CapturePlan& plan, std::string& failure);
    void add_answers(const CapturePlan& plan);
    base::Result<void> set_rules(CapturePlan plan, std::string& failure);
    base::Result<void> remove_rules() const;
    base::Result<size_t> count_policy_rules() const;
    base::Result<size_t> count_routes() const;
    base::Result<Extent> measure();
    // Error: NotFound, if nothing is there.
    base::Result<void> note_extent();
    base::Result<void> set_groups(const NearLinks& near) const;
    base::Result<void> set_addresses(io::RouteClient& routes);
    // capture_restart.cpp
    base::Result<void> take_over();
    base::Result<void> adopt_rules(io::RouteClient& routes);
    base::Result<void> forget_mark(io::RouteClient& routes, uint32_t index);
    void end_connections() const;

    CaptureConfig config_;
    LanTimeouts lan_timeouts_;
    std::optional<PortalBypass> portal_;
    PlainPlaces plain_;
    std::vector<base::IpPrefix> on_link_;
    ForwardLinks forward_links_;
    io::OwnedTable resolver_table_;
    bool has_near_links_ = false;
    bool has_taken_over_ = false;
    bool has_ipv6_ = true;  // the host
    bool carries_ipv6_ = false;
    uint32_t rule_priority_ = kUsualRulePriority;
    CapturePlan plan_;
    io::Nft nft_;
    bool is_active_ = false;
    bool is_open_ = true;
    bool has_warned_of_answers_ = false;
    std::optional<Extent> extent_;  // after the last change by this object
    uint32_t generation_ = 0;       // of all of nftables, when its rules were last counted
};

}  // namespace continuo::cnapt
