// HostNetwork: what the SNAPT changes at its host: addresses and state of its TUN device, the NAT's
// rules, kernel parameters. All of it is taken back.
#pragma once

#include "common/io/netfilter.hpp"
#include "common/io/netlink_route.hpp"
#include "common/io/nft.hpp"
#include "common/io/sysctl.hpp"
#include "snapt/accounting/lease_store.hpp"
#include "snapt/forwarding_parameters.hpp"
#include "snapt/nat_ports.hpp"
#include "snapt/snapt_config.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace continuo::snapt {

// Forgets all tracked connections that nodes with these addresses began. Milliseconds.
base::Result<void> forget_connections_of(const Lease& lease);
// Any thread. Likewise of those flows; the kernel forgets by itself what it cannot forget now.
void forget_flows(std::span<const packet::FiveTuple> flows);

// The rules as configured; no ports are left out yet.
RelayOptions nat_options(const SnaptConfig& config);

class HostNetwork {
  public:
    // `config` must outlive this. Kernel parameters found are kept in `state`, a folder, so that a
    // crash loses none.
    HostNetwork(const SnaptConfig& config, std::string state);

    // Puts back what an earlier run left changed. The text of a failure is in `failure`.
    base::Result<void> open(std::string& failure);
    // The device is there. `leases` knows its addresses.
    base::Result<void> set_up(LeaseStore& leases, std::string& failure);
    // Any thread. Looks who listens at this host now: NAT hands out no port of theirs, and forgets
    // what it has at one that is new. Milliseconds, more with many connections. `wants_all`:
    // TakenPorts::look.
    void renew_ports(bool wants_all);
    // Any thread. IPv6 may have been switched off on this host, or on again, which costs the device
    // its address. Milliseconds.
    void follow_ipv6(const LeaseStore& leases);
    // Any thread. Configured, and not switched off on this host.
    bool has_ipv6() const { return has_ipv6_; }
    // Any thread. Looks whether the host still lets packets of nodes through, puts back what is
    // ours of that, and says what keeps them from passing nevertheless; empty: nothing.
    // Milliseconds after a change of rules, less otherwise. `is_thorough`: also the rules of
    // others.
    std::string watch(bool is_thorough);
    // Any thread. Another `user_flows` holds from now on; the counts of all leases begin anew then.
    void set_user_flows(uint32_t user_flows);
    // New connections that were refused; nothing where there is no limit.
    std::optional<uint64_t> refused_connections() const;
    // Also after a set_up() that failed half-way.
    void tear_down();

  private:
    base::Result<void> set_up_device(const LeaseStore& leases);
    base::Result<void> set_ipv6_address(io::RouteClient& routes, const LeaseStore& leases) const;
    enum class Versions : uint8_t { All, Six };
    base::Result<void> set_parameters(Versions versions, std::string& failure);
    base::Result<void> restore_ipv6(const LeaseStore& leases, bool had_it, std::string& failure);
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
    // host_network_parameters.cpp
    std::vector<ForwardingPath> paths() const;
    void remember_parameters();
    void keep_router_advertisements();
    std::vector<std::string> open_paths();
    void watch_parameters(Troubles& troubles);
    void set_guard();
    void watch_guard(Troubles& troubles);
    void watch_guard_rule(const io::RuleEntry& rule, Troubles& troubles);
    bool set_answers_mark();
    base::Result<void> forget_left_connections(LeaseStore& leases);
    // Nothing when they cannot be listed.
    std::optional<TakenPorts::Taken> look_at_listeners(bool wants_all);
    // False when some may still be there.
    bool forget_connections(const std::function<bool(const io::TrackedConnection&)>& is_unwanted);

    const SnaptConfig& config_;
    std::string state_;
    std::unique_ptr<io::SysctlGuard> sysctls_;
    std::atomic<bool> has_ipv6_;
    // Guards the members below: renew_ports() is called beside the loop.
    std::mutex mutex_;
    io::Nft nft_;
    bool is_set_up_ = false;
    RelayOptions nat_;
    TakenPorts taken_ports_;
    std::vector<io::ListeningPort> taken_;  // what has no connections since the last look
    bool can_list_ = true;
    bool can_have_ipv6_ = true;  // restore_ipv6() did not fail
    io::OwnedTable guard_;
    Prints prints_;                // of our tables as they were written; 0: not known
    uint32_t generation_ = 0;      // of all of nftables, when they were looked at last
    base::TimePoint said_from_{};  // the minute in which said_ was logged, and unsaid_ was not
    unsigned said_ = 0;
    unsigned unsaid_ = 0;
    // Subject and result of the latest look at others' rules.
    struct Others {
        uint32_t generation = 0;
        std::vector<std::vector<std::string>> egress;
        bool operator==(const Others&) const = default;
    };
    Others others_;
    std::string others_trouble_;
    base::TimePoint others_free_at_{};  // when the latest look at what is others' is paid for
    uint32_t user_flows_ = 0;           // that the limit is for
    // State of the routing rule, by IP version.
    enum class Guard : uint8_t {
        Unset,
        Failed,  // and that was said
        Set,
    };
    Guard& guard_of(base::IpVersion version) {
        return version == base::IpVersion::V4 ? guards_[0] : guards_[1];
    }
    std::array<Guard, 2> guards_{};
};

}  // namespace continuo::snapt
