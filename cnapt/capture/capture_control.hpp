// CaptureControl: sets cnapt0 up, lets the host's traffic into it, and removes everything again,
// also the remains of a killed run. Meanwhile the guard, an nftables chain, keeps packets with
// cnapt0's addresses off the uplinks in both directions. Blocks briefly on netlink and nftables:
// not for the data loop. One thread at a time.
#pragma once

#include "classifier/ruleset.hpp"
#include "cnapt/capture/answers_table.hpp"
#include "cnapt/capture/lan_timeouts.hpp"
#include "cnapt/capture/routes.hpp"
#include "cnapt/capture/rule_place.hpp"
#include "cnapt/settings/node_config.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "cnapt/uplinks/node_addresses.hpp"
#include "cnapt/uplinks/plain_places.hpp"
#include "common/base/result.hpp"
#include "common/netfilter/nft.hpp"
#include "common/netlink/netlink_route.hpp"

#include <string>

namespace continuo::cnapt::capture {

// Group for interfaces that are no uplinks: a number unique to this instance.
uint32_t near_group(const settings::CaptureConfig& config);

class CaptureControl {
  public:
    // `sysctl_record`: where a gateway stores former values of kernel parameters; empty: it changes
    // none.
    explicit CaptureControl(settings::CaptureConfig config, std::string sysctl_record = {})
        : config_(std::move(config)), lan_timeouts_(std::move(sysctl_record)) {}

    // Removes rules and routes of an earlier run, and its nftables table except the guard, unless
    // that belongs to a kill switch that continues. Parts that a run of the same configuration left
    // for a restart stay, with their connections.
    base::Result<void> clean_up();
    // After clean_up(): the device and its settings come from an earlier run.
    bool has_taken_over() const { return has_taken_over_; }
    // Sets addresses and state of the device, and the way of packets that have its IPv6 address;
    // nothing is captured yet.
    base::Result<void> set_up_device(std::string& failure);
    // Sets rules, routes, nftables. Idempotent; call it also after a change of the policy. New
    // flows are captured if let_in() said so last.
    base::Result<void> begin(const classifier::Ruleset& ruleset, std::string& failure);
    // Whether new flows are captured. Those in the tunnel stay there; with the kill switch all do.
    base::Result<void> let_in(bool is_open, std::string& failure);
    // False if another program has removed rules, routes or the table. Cheap: five netlink requests
    // while nobody changes nftables.
    base::Result<bool> is_whole();
    // Restores it, like begin(). InvalidState: all of it was in place, and another program has
    // removed some of it again since.
    base::Result<void> repair(const classifier::Ruleset& ruleset, std::string& failure);
    // Checks whether the host has IPv6; a change is logged. True: call begin(). Nothing changes if
    // IPv4 is not captured.
    bool follow_ipv6();
    // Whether the rules are in their place, before rules that others added later without a priority
    // (rule_place.hpp). False: call begin().
    base::Result<bool> is_in_place();
    // Restores plain routing; `device` must be gone. Ends connections that would otherwise continue
    // with its addresses outside the tunnel: IPv6 connections of this host and translated ones of
    // the LAN sides. (IPv4 packets whose source is no address of the host are not routed.)
    void end();
    // Ends this run for a restart, in place of end(): new flows are no longer captured unless there
    // is the kill switch; everything else stays, and the device gets a mark that the next run
    // recognises.
    base::Result<void> leave(std::string& failure);
    // A setting for the next begin().
    void set_portal(std::optional<PortalBypass> portal) { portal_ = std::move(portal); }
    // A setting for the next begin(). With the kill switch none of it leaves outside the tunnel.
    void set_plain(uplinks::PlainPlaces places) { plain_ = std::move(places); }
    // A setting for the next begin(): public prefixes in the network of an uplink that stay outside
    // the tunnel.
    void set_on_link(std::vector<base::IpPrefix> near) { on_link_ = std::move(near); }
    // Whether a SNAPT carries IPv6. While none does, cnapt0's IPv6 address is deprecated, so that
    // programs try IPv4 first. Takes effect at once; initially none does.
    base::Result<void> set_carries_ipv6(bool carries_ipv6, std::string& failure);
    // Moves these interfaces into the group, and others out. The next begin() uses the new set of
    // near links. On failure no link is near: the tunnel takes more, and begin() may proceed.
    base::Result<void> set_near(const uplinks::NearLinks& near, std::string& failure);
    // With the kill switch: the host's interfaces. Takes effect at once, and with each begin().
    base::Result<void> set_forward_links(const ForwardLinks& links, std::string& failure);
    // Names go through the tunnel: systemd-resolved does not ask name servers on these interfaces.
    // Takes effect at once, and ends with this process.
    base::Result<void> set_resolver_links(const std::vector<std::string>& links,
                                          std::string& failure);
    bool is_active() const { return is_active_; }

    base::IpAddress ipv4() const { return uplinks::default_node_ipv4(); }
    base::IpAddress ipv6() const { return uplinks::default_node_ipv6(); }

  private:
    // Number of our objects in the kernel.
    struct Extent {
        size_t table_rules = 0;
        size_t policy_rules = 0;
        size_t routes = 0;
        bool operator==(const Extent&) const = default;
    };

    CaptureOptions options(const classifier::Ruleset* ruleset) const;
    // Excludes rules and routes; the guard covers both versions, whatever is captured.
    CapturePlan plan_of_guard() const;
    base::Result<void> move_rules(const CapturePlan& plan);
    base::Result<void> replace_table(const CapturePlan& plan, std::string& failure);
    void add_answers(const CapturePlan& plan);
    base::Result<void> set_rules(CapturePlan plan, std::string& failure);
    base::Result<void> remove_rules() const;
    base::Result<size_t> count_policy_rules() const;
    base::Result<size_t> count_routes() const;
    base::Result<Extent> measure();
    // InvalidState: rules or routes that were just added are gone.
    base::Result<void> note_extent();
    base::Result<void> set_groups(const uplinks::NearLinks& near) const;
    base::Result<void> set_addresses(netlink::RouteClient& routes);
    base::Result<void> set_own_way(netlink::RouteClient& routes);
    // capture_restart.cpp
    base::Result<void> take_over();
    base::Result<void> adopt_rules(netlink::RouteClient& routes);
    base::Result<void> forget_mark(netlink::RouteClient& routes, uint32_t index);
    void end_connections() const;

    settings::CaptureConfig config_;
    LanTimeouts lan_timeouts_;
    std::optional<PortalBypass> portal_;
    uplinks::PlainPlaces plain_;
    std::vector<base::IpPrefix> on_link_;
    ForwardLinks forward_links_;
    netfilter::OwnedTable resolver_table_;
    bool has_near_links_ = false;
    bool has_taken_over_ = false;
    bool has_ipv6_ = true;  // the host
    bool carries_ipv6_ = false;
    uint32_t rule_priority_ = kUsualRulePriority;
    CapturePlan plan_;
    netfilter::Nft nft_;
    AnswersTable answers_;
    bool is_active_ = false;
    bool is_open_ = true;
    bool has_warned_of_answers_ = false;
    std::optional<Extent> extent_;  // after the last change by this object
    uint32_t generation_ = 0;       // the ruleset's, when our rules were last counted
};

}  // namespace continuo::cnapt::capture
