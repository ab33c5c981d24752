// HostNetwork: the SNAPT's changes to its host: addresses and state of its TUN device, NAT rules,
// kernel parameters. All of them are undone at the end.
#pragma once

#include "common/host/sysctl.hpp"
#include "common/netfilter/netfilter.hpp"
#include "common/netfilter/nft.hpp"
#include "common/netlink/netlink_route.hpp"
#include "snapt/nat/connection_room.hpp"
#include "snapt/nat/forwarding_parameters.hpp"
#include "snapt/nat/nat_ports.hpp"
#include "snapt/nat/settled_trouble.hpp"
#include "snapt/settings/snapt_config.hpp"
#include "snapt/store/lease_store.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace continuo::snapt::nat {

// Makes the kernel forget all connections from nodes with these addresses. Milliseconds.
base::Result<void> forget_connections_of(const store::Lease& lease);
// Any thread. The same for those flows; the kernel's own time-outs cover failures.
base::Result<void> forget_flows(std::span<const packet::FiveTuple> flows);
// Any thread. Connection tracking of this host now. Nothing: not known.
std::optional<ConnectionTable> connection_table();

// The configured rules; no ports are left out yet.
RelayOptions nat_options(const settings::SnaptConfig& config);

class HostNetwork {
  public:
    // `config` must outlive this. Former kernel parameters are stored in `state`, a folder, so that
    // a crash loses none.
    HostNetwork(const settings::SnaptConfig& config, std::string state);

    // Restores what an earlier run changed. On failure `failure` has the text.
    base::Result<void> open(std::string& failure);
    // The device exists. `leases` knows its addresses.
    base::Result<void> set_up(store::LeaseStore& leases, std::string& failure);
    // Any thread. Checks which ports this host listens on now: NAT does not assign them, and
    // forgets its connections at new ones. Milliseconds, more with many connections. `wants_all`:
    // TakenPorts::look.
    void renew_ports(bool wants_all);
    // Any thread. Handles IPv6 being switched off or on at this host, which costs the device its
    // address. Milliseconds.
    void follow_ipv6(const store::LeaseStore& leases);
    // Any thread. Configured, and not switched off on this host.
    bool has_ipv6() const { return has_ipv6_; }
    // Any thread. Checks whether the host still forwards packets of nodes, restores our part of
    // that, and says what else blocks them. Milliseconds after a change of rules, less otherwise.
    // `is_thorough`: also checks the rules of others.
    ForwardingTroubles watch(bool is_thorough);
    // Any thread. Sets a new limit `user_flows`; the counts of all leases start anew.
    void set_user_flows(uint32_t user_flows);
    // New connections that were refused; nothing where there is no limit.
    std::optional<uint64_t> refused_connections() const;
    // Also after a set_up() that failed half-way.
    void tear_down();

  private:
    base::Result<void> set_up_device(const store::LeaseStore& leases);
    base::Result<void> set_ipv6_address(netlink::RouteClient& routes,
                                        const store::LeaseStore& leases) const;
    enum class Versions : uint8_t { All, Six };
    base::Result<void> set_parameters(Versions versions, std::string& failure);
    base::Result<void>
    restore_ipv6(const store::LeaseStore& leases, bool had_it, std::string& failure);
    // host_network_watch.cpp
    struct Prints {
        uint64_t relay = 0;
        uint64_t limit = 0;
    };
    // Reasons why packets of nodes do not pass, each a sentence.
    using Troubles = std::vector<std::string>;
    base::Result<void> write_relay();
    base::Result<bool> change_nat(const RelayOptions& nat);
    base::Result<void> write_limit(uint32_t user_flows, bool keeps_counts);
    base::Result<Prints> prints() const;
    bool is_relay_whole() const;
    bool is_relay_whole(const Prints& found) const;
    bool is_limit_whole(const Prints& found) const;
    base::Result<void> watch_tables();
    base::Result<void> put_back_tables(const Prints& found);
    void say_put_back(const std::string& what);
    std::string watch_others();
    std::string watch_way_out(const ForwardingPath& path);
    // host_network_parameters.cpp
    std::vector<ForwardingPath> paths() const;
    void remember_parameters();
    void keep_router_advertisements();
    std::vector<std::string> open_paths();
    void watch_parameters(Troubles& troubles);
    void set_guard();
    void watch_guard(Troubles& troubles);
    void watch_guard_rule(const netlink::RuleEntry& rule, Troubles& troubles);
    bool set_answers_mark();
    base::Result<void> forget_left_connections(store::LeaseStore& leases);
    // Nothing when they cannot be listed.
    std::optional<TakenPorts::Taken> look_at_listeners(bool wants_all);
    // Returns false if some may be left.
    bool
    forget_connections(const std::function<bool(const netfilter::TrackedConnection&)>& is_unwanted);

    const settings::SnaptConfig& config_;
    std::string state_;
    std::unique_ptr<host::SysctlGuard> sysctls_;
    std::atomic<bool> has_ipv6_;
    // Guards the members below: renew_ports() is called beside the loop.
    std::mutex mutex_;
    netfilter::Nft nft_;
    bool is_set_up_ = false;
    RelayOptions nat_;
    TakenPorts taken_ports_;
    std::vector<process::ListeningPort> taken_;  // ports without connections since the last check
    bool can_list_ = true;
    bool can_have_ipv6_ = true;  // restore_ipv6() did not fail
    netfilter::OwnedTable guard_;
    Prints prints_;                // our tables as they were written; 0: not known
    uint32_t generation_ = 0;      // the whole nftables ruleset's, at the last check
    base::TimePoint said_from_{};  // the minute in which said_ was logged, and unsaid_ was not
    unsigned said_ = 0;
    unsigned unsaid_ = 0;
    // Subject and result of the latest check of others' rules.
    struct Others {
        uint32_t generation = 0;
        std::vector<std::vector<std::string>> egress;
        bool operator==(const Others&) const = default;
    };
    Others others_;
    std::string others_trouble_;
    base::TimePoint others_free_at_{};  // when the latest check of others' rules is paid for
    uint32_t user_flows_ = 0;           // limit in the current table
    // State of the routing rule, by IP version.
    enum class Guard : uint8_t {
        Unset,
        Failed,  // and logged
        Set,
    };
    Guard& guard_of(base::IpVersion version) {
        return version == base::IpVersion::V4 ? guards_[0] : guards_[1];
    }
    std::array<Guard, 2> guards_{};
    std::array<bool, 2> had_way_out_{};  // IPv4, IPv6: since the start
};

}  // namespace continuo::snapt::nat
