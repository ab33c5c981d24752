// LeaseStore: inner addresses of nodes at this SNAPT, stable for each node of an account, in the
// ledger's database. Nodes are identified by their id; of several with one name all but one get a
// number appended. Thread-safe, but waits for the disk.
#pragma once

#include "common/base/ip_address.hpp"
#include "snapt/store/account.hpp"
#include "snapt/store/database.hpp"

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

namespace continuo::snapt::store {

struct Lease;

using NodeId = std::array<uint8_t, 16>;

// Addresses of former nodes: how many a user gets at once, and the interval for each further one.
inline constexpr int64_t kUsedLeaseBurst = 16;
inline constexpr int64_t kUsedLeaseIntervalUs = 1'000'000;

struct LeasePool {
    std::optional<base::IpPrefix> ipv4;  // at least one of the two
    std::optional<base::IpPrefix> ipv6;
    int64_t lease_s = 604'800;
    // A user with this many gets no unused address, but the one of its own free leases that expires
    // first. Far above the limit of sessions; 0: no limit.
    int64_t user_leases = 64;
    // Called before addresses of a former node are given out: removes what that node left behind.
    // On failure they are not given out. May take long: only the caller waits.
    std::function<base::Result<void>(const Lease&)> clear;
};

struct Lease {
    Account owner;
    std::string node;  // its name at this SNAPT
    std::optional<base::IpAddress> ipv4;
    std::optional<base::IpAddress> ipv6;
    int64_t expires_us = 0;  // afterwards another node may get the addresses
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

    // The node's lease, for lease_s from now. A new node gets unused addresses, or those that
    // expired first and are not held. LimitReached when there are none, WouldBlock when the user
    // got too many of other nodes recently. assign_held() also holds the lease; the caller must
    // release() it by the name in it. A node without an id is identified by its name; one with an
    // id takes a name and its lease over from another that holds none, and gets "NAME-2" and so on
    // while that one does.
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
    // A lease that has begun lasts lease_s from now.
    base::Result<void> renew(int64_t account_id, const std::string& node, int64_t now_us);
    // Between these calls a session holds the lease: nobody else gets it, for however long and
    // whatever the wall clock does. They return at once.
    void hold(int64_t account_id, const std::string& node);
    void release(int64_t account_id, const std::string& node);
    // Like renew(), for all held leases, in one transaction.
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
    // Addresses that were cleared and not given out since.
    struct Cleared {
        int64_t index = 0;
        uint64_t assignments = 0;
    };
    // The node that requests a lease.
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
    // Nothing: clear the addresses in `cleared` first.
    base::Result<std::optional<Lease>>
    try_to_assign(const Claimant& claimant, int64_t now_us, std::optional<Cleared>& cleared);
    base::Result<Lease> assign(const Claimant& claimant, int64_t now_us, bool is_held);
    base::Result<void>
    write(const Lease& lease, int64_t index, const std::optional<NodeId>& node_id);
    bool may_have_used(int64_t account_id, int64_t now_us);
    // Takes a lease from a user with more than its share and removes it.
    base::Result<std::optional<int64_t>> surplus_index(int64_t account_id);
    // The oldest expired lease that nobody holds.
    base::Result<std::optional<int64_t>> expired_index(int64_t now_us);
    base::Result<std::optional<int64_t>> first_not_held(Statement& leases);
    base::Result<void> remove(int64_t index);

    // The caller holds mutex_.
    base::Result<void> set_expiry(int64_t account_id, const std::string& node, int64_t expires_us);

    using Holder = std::pair<int64_t, std::string>;  // account, node
    std::multiset<Holder> held();

    std::mutex held_mutex_;  // never held while waiting for the disk
    std::multiset<Holder> held_;
    std::mutex mutex_;
    Database database_;
    LeasePool pool_;
    int64_t last_index_;
    uint64_t assignments_ = 0;
    // When all used addresses of an account are paid for; only accounts still paying.
    std::map<int64_t, int64_t> paid_at_us_;
};

}  // namespace continuo::snapt::store
