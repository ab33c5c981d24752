#include "snapt/store/lease_store.hpp"

#include "common/config/units.hpp"
#include "snapt/store/user_store.hpp"

#include <algorithm>

namespace continuo::snapt::store {
namespace {

using base::Errc;
using base::Error;
using base::IpAddress;
using base::IpPrefix;
using base::Result;

constexpr int64_t kOwnIndex = 1;
constexpr int64_t kFirstIndex = 2;
constexpr int64_t kMaxIndex = 0x7FFF'FFFF;
constexpr int64_t kUsPerS = 1'000'000;

// Largest index of a node in the prefix; IPv4's last address is the broadcast address.
int64_t last_index(const IpPrefix& prefix) {
    const int host_bits = (prefix.address.is_v4() ? 32 : 128) - prefix.length;
    if (host_bits > 31) {
        return kMaxIndex;
    }
    const int64_t last = (int64_t{1} << host_bits) - 1;
    return prefix.address.is_v4() ? last - 1 : last;
}

IpAddress address_at(const IpPrefix& prefix, int64_t index) {
    IpAddress address = prefix.address;
    const size_t size = address.bytes().size();
    for (size_t i = 0; i < sizeof(uint32_t); ++i) {
        address.octets[size - 1 - i] |= static_cast<uint8_t>(index >> (8 * i));
    }
    return address;
}

std::optional<IpAddress> address_at(const std::optional<IpPrefix>& prefix, int64_t index) {
    return prefix ? std::optional(address_at(*prefix, index)) : std::nullopt;
}

// "laptop", "laptop-2", … of at most kMaxNameBytes.
std::string numbered(const std::string& name, size_t number) {
    if (number <= 1) {
        return name;
    }
    const std::string suffix = "-" + std::to_string(number);
    return name.substr(0, kMaxNameBytes - suffix.size()) + suffix;
}

// True when numbered() can make `form` from `name`.
bool is_form_of(const std::string& form, const std::string& name) {
    constexpr uint64_t kMaxNumber = 1'000'000;
    const size_t dash = form.rfind('-');
    const auto number = dash == std::string::npos
                            ? std::nullopt
                            : config::parse_unsigned(form.substr(dash + 1), kMaxNumber);
    return form == name || (number && numbered(name, *number) == form);
}

std::optional<std::string> text_of(const std::optional<IpAddress>& address) {
    return address ? std::optional(address->to_string()) : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<LeaseStore>> LeaseStore::open(const std::string& state_directory,
                                                     const LeasePool& pool) {
    const bool has_room = (!pool.ipv4 || last_index(*pool.ipv4) >= kFirstIndex) &&
                          (!pool.ipv6 || last_index(*pool.ipv6) >= kFirstIndex);
    if (!has_room || (!pool.ipv4 && !pool.ipv6) || pool.lease_s <= 0) {
        return Error{Errc::InvalidConfig, "inner prefix has no room for a node", 0};
    }
    Database database =
        CTN_TRY(Database::open(state_directory + "/" + kLedgerFileName, OpenMode::ReadWrite));
    return std::unique_ptr<LeaseStore>(new LeaseStore(std::move(database), pool));
}

LeaseStore::LeaseStore(Database database, LeasePool pool)
    : database_(std::move(database))
    , pool_(std::move(pool))
    , last_index_(std::min(pool_.ipv4 ? last_index(*pool_.ipv4) : kMaxIndex,
                           pool_.ipv6 ? last_index(*pool_.ipv6) : kMaxIndex)) {}

std::optional<IpAddress> LeaseStore::own_ipv4() const {
    return address_at(pool_.ipv4, kOwnIndex);
}

std::optional<IpAddress> LeaseStore::own_ipv6() const {
    return address_at(pool_.ipv6, kOwnIndex);
}

Lease LeaseStore::lease_of(const Account& owner,
                           const std::string& node,
                           int64_t index,
                           int64_t expires_us) const {
    return {owner, node, address_at(pool_.ipv4, index), address_at(pool_.ipv6, index), expires_us};
}

Result<std::optional<int64_t>> LeaseStore::index_of(int64_t account_id, const std::string& node) {
    Statement select =
        CTN_TRY(database_.prepare("SELECT address_index FROM lease WHERE account_id=? AND node=?"));
    select.bind(1, account_id).bind(2, std::string_view(node));
    if (!CTN_TRY(select.step()) || select.integer(0) < kFirstIndex ||
        select.integer(0) > last_index_) {
        return std::optional<int64_t>();  // none, or of a prefix that was larger
    }
    return std::optional(select.integer(0));
}

Result<LeaseStore::FreeIndex> LeaseStore::free_index(int64_t account_id, int64_t now_us) {
    if (const auto surplus = CTN_TRY(surplus_index(account_id))) {
        return FreeIndex{*surplus};
    }
    Statement highest = CTN_TRY(database_.prepare("SELECT coalesce(max(address_index),?1-1) FROM "
                                                  "lease WHERE address_index BETWEEN ?1 AND ?2"));
    CTN_TRY(highest.bind(1, kFirstIndex).bind(2, last_index_).step());
    if (highest.integer(0) < last_index_) {
        return FreeIndex{highest.integer(0) + 1, false};
    }
    Statement gap = CTN_TRY(database_.prepare(
        "SELECT min(i) FROM (SELECT ?1 AS i UNION ALL SELECT address_index+1 FROM lease "
        "WHERE address_index BETWEEN ?1 AND ?2-1) WHERE i NOT IN (SELECT address_index FROM "
        "lease)"));
    CTN_TRY(gap.bind(1, kFirstIndex).bind(2, last_index_).step());
    if (!gap.is_null(0)) {
        return FreeIndex{gap.integer(0)};
    }
    const auto expired = CTN_TRY(expired_index(now_us));
    if (!expired) {
        return Error{Errc::LimitReached, "every inner address is leased", 0};
    }
    CTN_TRY(remove(*expired));
    return FreeIndex{*expired};
}

Result<std::optional<int64_t>> LeaseStore::expired_index(int64_t now_us) {
    Statement expired = CTN_TRY(
        database_.prepare("SELECT address_index,account_id,node FROM lease WHERE expires<=?1 "
                          "AND address_index BETWEEN ?2 AND ?3 ORDER BY expires"));
    expired.bind(1, now_us).bind(2, kFirstIndex).bind(3, last_index_);
    return first_not_held(expired);
}

// From rows of address_index, account_id and node.
Result<std::optional<int64_t>> LeaseStore::first_not_held(Statement& leases) {
    const std::multiset<Holder> held = this->held();
    while (CTN_TRY(leases.step())) {
        if (!held.contains({leases.integer(1), leases.text(2)})) {
            return std::optional(leases.integer(0));
        }
    }
    return std::optional<int64_t>();
}

Result<void> LeaseStore::remove(int64_t index) {
    Statement remove = CTN_TRY(database_.prepare("DELETE FROM lease WHERE address_index=?"));
    return remove.bind(1, index).run();
}

// Limits new addresses: a user could otherwise take every address for lease_s with made-up node
// names, which cost nothing.
Result<std::optional<int64_t>> LeaseStore::surplus_index(int64_t account_id) {
    Statement count = CTN_TRY(database_.prepare(
        "SELECT count(*) FROM lease WHERE account_id=? AND address_index BETWEEN ? AND ?"));
    count.bind(1, account_id).bind(2, kFirstIndex).bind(3, last_index_);
    CTN_TRY(count.step());
    if (pool_.user_leases == 0 || count.integer(0) < pool_.user_leases) {
        return std::optional<int64_t>();
    }
    Statement own = CTN_TRY(
        database_.prepare("SELECT address_index,account_id,node FROM lease WHERE account_id=? AND "
                          "address_index BETWEEN ? AND ? ORDER BY expires"));
    own.bind(1, account_id).bind(2, kFirstIndex).bind(3, last_index_);
    const auto index = CTN_TRY(first_not_held(own));
    if (index) {
        CTN_TRY(remove(*index));
    }
    return index;
}

// Clearing takes long, and a user with many node names triggers it each time.
bool LeaseStore::may_have_used(int64_t account_id, int64_t now_us) {
    constexpr int64_t kMostUs = kUsedLeaseBurst * kUsedLeaseIntervalUs;
    std::erase_if(paid_at_us_, [now_us](const auto& paid) {
        return paid.second <= now_us || paid.second > now_us + kMostUs;  // or the clock was set
    });
    const auto paid = paid_at_us_.try_emplace(account_id, now_us).first;
    if (paid->second + kUsedLeaseIntervalUs > now_us + kMostUs) {
        return false;
    }
    paid->second += kUsedLeaseIntervalUs;
    return true;
}

Result<void>
LeaseStore::write(const Lease& lease, int64_t index, const std::optional<NodeId>& node_id) {
    Statement upsert = CTN_TRY(database_.prepare(
        "INSERT INTO lease(account_id,node,address_index,ipv4,ipv6,expires,node_id,user_id) "
        "VALUES(?1,?2,?3,?4,?5,?6,?7,?8) ON CONFLICT(account_id,node) DO UPDATE SET "
        "address_index=?3,"
        "ipv4=?4,ipv6=?5,expires=?6,node_id=coalesce(?7,node_id)"));
    upsert.bind(1, lease.owner.id)
        .bind(2, std::string_view(lease.node))
        .bind(3, index)
        .bind(4, text_of(lease.ipv4))
        .bind(5, text_of(lease.ipv6))
        .bind(6, lease.expires_us)
        .bind(8, std::string_view(lease.owner.user));
    if (node_id) {
        upsert.bind(7, base::ByteView(*node_id));
    } else {
        upsert.bind_null(7);
    }
    return upsert.run();
}

std::multiset<LeaseStore::Holder> LeaseStore::held() {
    const std::lock_guard lock(held_mutex_);
    return held_;
}

Result<LeaseStore::Naming> LeaseStore::name_of(const Claimant& claimant) {
    if (!claimant.node_id) {
        return Naming{claimant.node};
    }
    std::map<std::string, std::optional<NodeId>> nodes;  // the user's
    Statement select =
        CTN_TRY(database_.prepare("SELECT node,node_id FROM lease WHERE account_id=?"));
    select.bind(1, claimant.owner.id);
    while (CTN_TRY(select.step())) {
        const base::ByteView bytes = select.blob(1);
        std::optional<NodeId>& id = nodes[select.text(0)];
        if (bytes.size() == NodeId().size()) {
            std::copy(bytes.begin(), bytes.end(), id.emplace().begin());
        }
    }
    for (const auto& [name, id] : nodes) {
        if (id == claimant.node_id && is_form_of(name, claimant.node)) {
            return Naming{name};
        }
    }
    const std::multiset<Holder> held = this->held();
    for (size_t number = 1;; ++number) {
        const std::string name = numbered(claimant.node, number);
        const auto other = nodes.find(name);
        // A lease without an id belongs to the node: it is from a version that had no ids.
        if (other == nodes.end() || !other->second) {
            return Naming{name};
        }
        if (!held.contains({claimant.owner.id, name})) {
            return Naming{name, true};
        }
    }
}

Result<std::optional<Lease>> LeaseStore::try_to_assign(const Claimant& claimant,
                                                       int64_t now_us,
                                                       std::optional<Cleared>& cleared) {
    const int64_t account_id = claimant.owner.id;
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    const auto [node, is_taken_over] = CTN_TRY(name_of(claimant));
    const std::optional<int64_t> own = CTN_TRY(index_of(account_id, node));
    const FreeIndex chosen =
        own ? FreeIndex{*own, is_taken_over} : CTN_TRY(free_index(account_id, now_us));
    const bool is_cleared =
        cleared && cleared->index == chosen.index && cleared->assignments == assignments_;
    if (chosen.is_used && pool_.clear && !is_cleared) {
        if (pool_.user_leases != 0 && !may_have_used(account_id, now_us)) {
            return Error{Errc::WouldBlock, "too many addresses of other nodes", 0};
        }
        cleared = Cleared{chosen.index, assignments_};
        return std::optional<Lease>();
    }
    const Lease lease =
        lease_of(claimant.owner, node, chosen.index, now_us + pool_.lease_s * kUsPerS);
    CTN_TRY(write(lease, chosen.index, claimant.node_id));
    CTN_TRY(transaction.commit());
    ++assignments_;
    return std::optional(lease);
}

Result<Lease> LeaseStore::assign(const Claimant& claimant, int64_t now_us, bool is_held) {
    if (!is_valid_name(claimant.owner.user) || !is_valid_name(claimant.node)) {
        return Error{Errc::Malformed, "name of user or node", 0};
    }
    constexpr int kTries = 4;
    std::optional<Cleared> cleared;
    for (int i = 0; i < kTries; ++i) {
        {
            const std::lock_guard lock(mutex_);
            const auto lease = CTN_TRY(try_to_assign(claimant, now_us, cleared));
            if (lease && is_held) {
                hold(lease->owner.id, lease->node);
            }
            if (lease) {
                return *lease;
            }
        }
        CTN_TRY(pool_.clear(lease_of(claimant.owner, claimant.node, cleared->index, now_us)));
    }
    return Error{Errc::WouldBlock, "others get the addresses first", 0};
}

Result<Lease> LeaseStore::assign(const Account& owner,
                                 const std::string& node,
                                 int64_t now_us,
                                 const std::optional<NodeId>& node_id) {
    return assign({owner, node, node_id}, now_us, false);
}

Result<Lease> LeaseStore::assign_held(const Account& owner,
                                      const std::string& node,
                                      int64_t now_us,
                                      const std::optional<NodeId>& node_id) {
    return assign({owner, node, node_id}, now_us, true);
}

void LeaseStore::set_user_leases(int64_t user_leases) {
    const std::lock_guard lock(mutex_);
    pool_.user_leases = user_leases;
}

Result<void> LeaseStore::renew(int64_t account_id, const std::string& node, int64_t now_us) {
    const std::lock_guard lock(mutex_);
    return set_expiry(account_id, node, now_us + pool_.lease_s * kUsPerS);
}

Result<void>
LeaseStore::set_expiry(int64_t account_id, const std::string& node, int64_t expires_us) {
    Statement update =
        CTN_TRY(database_.prepare("UPDATE lease SET expires=? WHERE account_id=? AND node=?"));
    update.bind(1, expires_us).bind(2, account_id).bind(3, std::string_view(node));
    return update.run();
}

Result<void> LeaseStore::renew_held(int64_t now_us) {
    const std::multiset<Holder> held = this->held();
    if (held.empty()) {
        return {};
    }
    const std::lock_guard lock(mutex_);
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    for (auto holder = held.begin(); holder != held.end(); holder = held.upper_bound(*holder)) {
        CTN_TRY(set_expiry(holder->first, holder->second, now_us + pool_.lease_s * kUsPerS));
    }
    return transaction.commit();
}

void LeaseStore::hold(int64_t account_id, const std::string& node) {
    const std::lock_guard lock(held_mutex_);
    held_.emplace(account_id, node);
}

void LeaseStore::release(int64_t account_id, const std::string& node) {
    const std::lock_guard lock(held_mutex_);
    if (const auto held = held_.find({account_id, node}); held != held_.end()) {
        held_.erase(held);
    }
}

Result<std::vector<Lease>> LeaseStore::list() {
    const std::lock_guard lock(mutex_);
    Statement select = CTN_TRY(database_.prepare(
        "SELECT user_id,node,address_index,expires,account_id FROM lease WHERE address_index "
        "BETWEEN ? AND ? ORDER BY user_id,account_id,node"));
    select.bind(1, kFirstIndex).bind(2, last_index_);
    std::vector<Lease> leases;
    while (CTN_TRY(select.step())) {
        leases.push_back(lease_of({select.integer(4), select.text(0)}, select.text(1),
                                  select.integer(2), select.integer(3)));
    }
    return leases;
}

}  // namespace continuo::snapt::store
