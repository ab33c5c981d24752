// LeaseStore: inner addresses of nodes at this SNAPT, stable for each node of an account, in the
// ledger's database. A node is known by its id; of several with one name all but one get a number
// behind theirs. Thread-safe, but waits for the disk.
#pragma once

#include "common/base/ip_address.hpp"
#include "snapt/accounting/account.hpp"
#include "snapt/accounting/database.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace continuo::snapt {

struct Lease;

using NodeId = std::array<uint8_t, 16>;

// Addresses that another node had: how many a user gets at once, and one more each.
inline constexpr int64_t kUsedLeaseBurst = 16;
inline constexpr int64_t kUsedLeaseIntervalUs = 1'000'000;

struct LeasePool {
    std::optional<base::IpPrefix> ipv4;  // at least one of the two
    std::optional<base::IpPrefix> ipv6;
    int64_t lease_s = 604'800;
    // A user with so many gets no address never leased: of its own that nobody holds the one that
    // expires first. Far more than a user may have sessions; 0: no limit.
    int64_t user_leases = 64;
    // Before addresses that another node had are given: ends what that one left behind. They are
    // not given when it fails. It may take long: nobody waits for it but who gets the addresses.
    std::function<base::Result<void>(const Lease&)> clear;
};

struct Lease {
    Account owner;
    std::string node;  // as it is called here
    std::optional<base::IpAddress> ipv4;
    std::optional<base::IpAddress> ipv6;
    int64_t expires_us = 0;  // from then on another node may get the addresses
};

class LeaseStore {
  public:
    // InvalidConfig when a prefix has no room for the SNAPT and one node.
    static base::Result<std::unique_ptr<LeaseStore>> open(const std::string& state_directory,
                                                          const LeasePool& pool);
    LeaseStore(const LeaseStore&) = delete;
    LeaseStore& operator=(const LeaseStore&) = delete;

    // SNAPT's own address: the first behind the network's.
    std::optional<base::IpAddress> own_ipv4() const;
    std::optional<base::IpAddress> own_ipv6() const;

    // The node's lease, for lease_s from now. A new node gets addresses never leased, else those
    // that expired first and are not held. LimitReached when there are none, WouldBlock when the
    // user had too many of other nodes just now. The caller must release() a lease that it gets by
    // assign_held(), by the name that is in it: nobody else got it since. A node without an id is
    // whoever has its name; one with an id takes over a name and its lease from another that holds
    // none, and gets "NAME-2" and so on while that holds it.
    base::Result<Lease> assign(const Account& owner,
                               const std::string& node,
                               int64_t now_us,
                               const std::optional<NodeId>& node_id = std::nullopt);
    base::Result<Lease> assign_held(const Account& owner,
                                    const std::string& node,
                                    int64_t now_us,
                                    const std::optional<NodeId>& node_id = std::nullopt);
    // LeasePool::user_leases, from now on.
    void set_user_leases(int64_t user_leases);
    // From now on a lease that has begun lasts lease_s.
    base::Result<void> renew(int64_t account_id, const std::string& node, int64_t now_us);
    // Between them a session has the lease: nobody else gets it, however long that lasts and
    // whatever the wall clock does. They count, and wait for nothing.
    void hold(int64_t account_id, const std::string& node);
    void release(int64_t account_id, const std::string& node);
    // As renew(), for all that are held, in one transaction.
    base::Result<void> renew_held(int64_t now_us);
    base::Result<std::vector<Lease>> list();

  private:
    LeaseStore(Database database, LeasePool pool);
    Lease lease_of(const Account& owner,
                   const std::string& node,
                   int64_t index,
                   int64_t expires_us) const;
    base::Result<std::optional<int64_t>> index_of(int64_t account_id, const std::string& node);
    // `is_used`: another node had it.
    struct FreeIndex {
        int64_t index = 0;
        bool is_used = true;
    };
    base::Result<FreeIndex> free_index(int64_t account_id, int64_t now_us);
    // Addresses that were cleared, while nobody got any.
    struct Cleared {
        int64_t index = 0;
        uint64_t assignments = 0;
    };
    // The node that asks for a lease.
    struct Claimant {
        Account owner;
        std::string node;  // as it calls itself
        std::optional<NodeId> node_id;
    };
    struct Naming {
        std::string name;
        bool is_taken_over = false;  // from a node with another id
    };
    base::Result<Naming> name_of(const Claimant& claimant);
    // Nothing when `cleared` becomes what must be cleared first.
    base::Result<std::optional<Lease>>
    try_to_assign(const Claimant& claimant, int64_t now_us, std::optional<Cleared>& cleared);
    base::Result<Lease> assign(const Claimant& claimant, int64_t now_us, bool is_held);
    base::Result<void>
    write(const Lease& lease, int64_t index, const std::optional<NodeId>& node_id);
    bool may_have_used(int64_t account_id, int64_t now_us);
    // Takes a lease from a user with more than its share; the lease is removed.
    base::Result<std::optional<int64_t>> surplus_index(int64_t account_id);
    // The oldest of the expired leases that nobody holds.
    base::Result<std::optional<int64_t>> expired_index(int64_t now_us);
    base::Result<std::optional<int64_t>> first_not_held(Statement& leases);
    base::Result<void> remove(int64_t index);

    // The caller has locked mutex_.
    base::Result<void> set_expiry(int64_t account_id, const std::string& node, int64_t expires_us);

    using Holder = std::pair<int64_t, std::string>;  // account, node
    std::multiset<Holder> held();

    std::mutex held_mutex_;  // never locked over what waits for the disk
    std::multiset<Holder> held_;
    std::mutex mutex_;
    Database database_;
    LeasePool pool_;
    int64_t last_index_;
    uint64_t assignments_ = 0;
    // When all used addresses that an account got are paid for; only accounts that still pay.
    std::map<int64_t, int64_t> paid_at_us_;
};

}  // namespace continuo::snapt
