#include "snapt/store/lease_store.hpp"
#include "snapt/store/user_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

namespace continuo::snapt::store {
namespace {

using base::Errc;
using base::IpAddress;
using base::IpPrefix;
using ledger::kNoon;
using ledger::kSecond;

class LeaseStoreTest : public ledger::StateFolder {
  protected:
    static LeasePool pool(const char* ipv4, const char* ipv6) {
        LeasePool pool;
        pool.ipv4 = *ipv4 == '\0' ? std::nullopt : IpPrefix::parse(ipv4);
        pool.ipv6 = *ipv6 == '\0' ? std::nullopt : IpPrefix::parse(ipv6);
        pool.lease_s = 100;
        return pool;
    }
    std::unique_ptr<LeaseStore> open(const char* ipv4, const char* ipv6) const {
        return LeaseStore::open(folder_, pool(ipv4, ipv6)).value();
    }
    static IpAddress ip(const char* text) { return *IpAddress::parse(text); }
    // The account of a user that there is once.
    Account of(const std::string& user) {
        return {
            accounts_.try_emplace(user, static_cast<int64_t>(accounts_.size()) + 1).first->second,
            user};
    }
    std::map<std::string, int64_t> accounts_;
};

TEST_F(LeaseStoreTest, FirstAddressIsTheSnaptsAndNodesFollow) {
    const auto leases = open("100.64.0.0/16", "fd93:47::/64");
    EXPECT_EQ(leases->own_ipv4(), ip("100.64.0.1"));
    EXPECT_EQ(leases->own_ipv6(), ip("fd93:47::1"));
    const auto first = leases->assign(of("alice"), "laptop", kNoon).value();
    EXPECT_EQ(first.ipv4, ip("100.64.0.2"));
    EXPECT_EQ(first.ipv6, ip("fd93:47::2"));
    EXPECT_EQ(first.expires_us, kNoon + 100 * kSecond);
    EXPECT_EQ(leases->assign(of("alice"), "phone", kNoon)->ipv4, ip("100.64.0.3"));
    EXPECT_EQ(leases->assign(of("bob"), "laptop", kNoon)->ipv4, ip("100.64.0.4"));
}

TEST_F(LeaseStoreTest, NodeKeepsItsAddressesOverRestartAndLongAfterExpiry) {
    {
        const auto leases = open("100.64.0.0/16", "fd93:47::/64");
        ASSERT_TRUE(leases->assign(of("bob"), "x", kNoon));
        ASSERT_TRUE(leases->assign(of("alice"), "laptop", kNoon));
    }
    const auto leases = open("100.64.0.0/16", "fd93:47::/64");
    const auto again = leases->assign(of("alice"), "laptop", kNoon + 5000 * kSecond).value();
    EXPECT_EQ(again.ipv4, ip("100.64.0.3"));
    EXPECT_EQ(again.expires_us, kNoon + 5100 * kSecond);
    EXPECT_EQ(leases->list()->size(), 2U);
}

TEST_F(LeaseStoreTest, AnotherAccountOfTheNameGetsNoneOfTheFormersLeases) {
    const auto leases = open("100.64.0.0/16", "fd93:47::/64");
    const auto former = leases->assign_held({1, "alice"}, "laptop", kNoon, NodeId{1}).value();
    const auto fresh = leases->assign_held({2, "alice"}, "laptop", kNoon, NodeId{1}).value();
    EXPECT_EQ(fresh.node, "laptop") << "no number: it is alone there";
    EXPECT_NE(fresh.ipv4, former.ipv4);
    EXPECT_NE(fresh.ipv6, former.ipv6);
    leases->release(2, "laptop");
    leases->release(2, "laptop");  // the other one is held still
    EXPECT_EQ(leases->assign({1, "alice"}, "laptop", kNoon, NodeId{2})->node, "laptop-2");
    const auto list = leases->list().value();
    ASSERT_EQ(list.size(), 3U);
    EXPECT_EQ(list[0].owner.id, 1);
    EXPECT_EQ(list[2].owner.id, 2);
    EXPECT_EQ(list[2].owner.user, "alice");
}

TEST_F(LeaseStoreTest, AddressIsGivenToAnotherOnlyAfterItsLeaseExpired) {
    const auto leases = open("192.0.2.0/29", "");  // .2 to .6 for nodes
    for (int i = 0; i < 5; ++i) {
        const auto lease = leases->assign(of("u" + std::to_string(i)), "n", kNoon + i * kSecond);
        ASSERT_TRUE(lease);
        EXPECT_FALSE(lease->ipv6);
        EXPECT_NE(lease->ipv4, ip("192.0.2.7"));
    }
    ASSERT_TRUE(leases->assign(of("u0"), "n", kNoon + 50 * kSecond));
    EXPECT_EQ(leases->assign(of("new"), "n", kNoon + 101 * kSecond - 1).error().code,
              Errc::LimitReached);
    EXPECT_EQ(leases->assign(of("new"), "n", kNoon + 101 * kSecond)->ipv4, ip("192.0.2.3"));
    // The node that lost it gets the next expired one.
    EXPECT_EQ(leases->assign(of("u1"), "n", kNoon + 102 * kSecond)->ipv4, ip("192.0.2.4"));
}

TEST_F(LeaseStoreTest, ALeaseThatASessionHasIsNobodyElsesHoweverLate) {
    const auto leases = open("192.0.2.0/30", "");  // .2 for a node
    ASSERT_TRUE(leases->assign(of("alice"), "n", kNoon));
    leases->hold(of("alice").id, "n");
    leases->hold(of("alice").id, "n");  // a newer session
    leases->release(of("alice").id, "n");
    constexpr int64_t kLate = kNoon + 5'000'000 * kSecond;
    EXPECT_EQ(leases->assign(of("bob"), "n", kLate).error().code, Errc::LimitReached);
    EXPECT_EQ(leases->assign(of("alice"), "n", kNoon)->ipv4, ip("192.0.2.2"));
    leases->release(of("alice").id, "n");
    leases->release(of("alice").id, "n");
    ASSERT_TRUE(leases->renew(of("alice").id, "n", kLate));
    EXPECT_EQ(leases->assign(of("bob"), "n", kLate + 100 * kSecond - 1).error().code,
              Errc::LimitReached);
    EXPECT_EQ(leases->assign(of("bob"), "n", kLate + 100 * kSecond)->ipv4, ip("192.0.2.2"));
    ASSERT_TRUE(leases->renew(of("alice").id, "n", kLate));
    EXPECT_EQ(leases->list()->size(), 1U);
}

// Names of nodes cost nothing.
TEST_F(LeaseStoreTest, AUserWithManyNodesDoesNotTakeAllAddresses) {
    const auto leases = open("192.0.2.0/24", "");
    for (int64_t i = 0; i < LeasePool{}.user_leases; ++i) {
        ASSERT_TRUE(leases->assign(of("alice"), "n" + std::to_string(i), kNoon + i));
    }
    leases->hold(of("alice").id, "n0");
    for (int i = 0; i < 300; ++i) {
        const auto lease =
            leases->assign(of("alice"), "m" + std::to_string(i), kNoon + kSecond + i);
        ASSERT_TRUE(lease) << i;
        EXPECT_NE(lease->ipv4, ip("192.0.2.2")) << "a session has it";
    }
    EXPECT_EQ(leases->list()->size(), static_cast<size_t>(LeasePool{}.user_leases));
    EXPECT_TRUE(leases->assign(of("bob"), "n", kNoon + kSecond));
    EXPECT_EQ(leases->assign(of("alice"), "n0", kNoon + kSecond)->ipv4, ip("192.0.2.2"));
}

TEST_F(LeaseStoreTest, WhatSessionsHaveIsRenewedAndNothingElse) {
    const auto leases = open("192.0.2.0/24", "");
    for (const char* user : {"alice", "bob", "carol"}) {
        ASSERT_TRUE(leases->assign(of(user), "n", kNoon));
    }
    leases->hold(of("alice").id, "n");
    leases->hold(of("alice").id, "n");
    leases->hold(of("carol").id, "n");
    leases->hold(of("dave").id, "n");  // has none
    ASSERT_TRUE(leases->renew_held(kNoon + 50 * kSecond));
    const auto list = leases->list().value();
    ASSERT_EQ(list.size(), 3U);
    EXPECT_EQ(list[0].expires_us, kNoon + 150 * kSecond);
    EXPECT_EQ(list[1].expires_us, kNoon + 100 * kSecond);
    EXPECT_EQ(list[2].expires_us, kNoon + 150 * kSecond);
}

TEST_F(LeaseStoreTest, OtherPrefixMovesEveryNodeToItsPlaceThere) {
    ASSERT_TRUE(open("100.64.0.0/16", "")->assign(of("alice"), "laptop", kNoon));
    const auto leases = open("198.51.100.0/24", "2001:db8::/64");
    const auto lease = leases->assign(of("alice"), "laptop", kNoon).value();
    EXPECT_EQ(lease.ipv4, ip("198.51.100.2"));
    EXPECT_EQ(lease.ipv6, ip("2001:db8::2"));
}

TEST_F(LeaseStoreTest, GapsAreFilledWhenThePrefixEnds) {
    const auto leases = open("192.0.2.0/29", "");
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(leases->assign(of("u" + std::to_string(i)), "n", kNoon));
    }
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute("DELETE FROM lease WHERE user_id='u2'"));
    EXPECT_EQ(leases->assign(of("new"), "n", kNoon)->ipv4, ip("192.0.2.4"));
}

TEST_F(LeaseStoreTest, AddressesThatAnotherNodeHadAreClearedBeforeTheyAreGiven) {
    std::vector<Lease> cleared;
    bool succeeds = true;
    LeasePool settings = pool("192.0.2.0/29", "2001:db8::/64");
    settings.user_leases = 4;
    settings.clear = [&](const Lease& lease) {
        cleared.push_back(lease);
        return succeeds ? base::Result<void>() : base::Error{Errc::System, "clear"};
    };
    const auto leases = LeaseStore::open(folder_, settings).value();
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(leases->assign(of("alice"), "n" + std::to_string(i), kNoon + i));
    }
    ASSERT_TRUE(leases->assign(of("bob"), "n", kNoon + 4));
    ASSERT_TRUE(leases->assign(of("alice"), "n0", kNoon + 10));
    EXPECT_TRUE(cleared.empty()) << "never leased, or its own";
    // The same user's oldest lease goes when it asks for more nodes than it may have.
    ASSERT_TRUE(leases->assign(of("alice"), "n4", kNoon + 5));
    ASSERT_EQ(cleared.size(), 1U);
    EXPECT_EQ(cleared[0].ipv4, ip("192.0.2.3"));
    EXPECT_EQ(cleared[0].ipv6, ip("2001:db8::3"));
    // Another user's expired lease is not given away while the connections cannot be deleted.
    succeeds = false;
    EXPECT_EQ(leases->assign(of("carol"), "n", kNoon + 1000 * kSecond).error().code, Errc::System);
    EXPECT_EQ(cleared.size(), 2U);
    EXPECT_EQ(leases->list()->size(), 5U) << "nothing has changed";
    succeeds = true;
    const auto lease = leases->assign(of("carol"), "n", kNoon + 1000 * kSecond);
    ASSERT_TRUE(lease);
    EXPECT_EQ(cleared.size(), 3U);
    EXPECT_EQ(cleared[2].ipv4, lease->ipv4);
    EXPECT_EQ(cleared[1].ipv4, lease->ipv4);
}

// It takes long, and the ledger's writer would wait for it.
TEST_F(LeaseStoreTest, TheDatabaseIsNotLockedWhileAddressesAreCleared) {
    LeaseStore* store = nullptr;
    std::vector<base::IpAddress> cleared;
    LeasePool settings = pool("192.0.2.0/29", "");
    settings.user_leases = 2;
    settings.clear = [&](const Lease& lease) {
        auto other = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
        EXPECT_TRUE(other.execute("UPDATE lease SET expires=expires+1"));
        // Its session comes back meanwhile: another address is chosen.
        if (cleared.empty()) {
            store->hold(of("alice").id, "n0");
        }
        cleared.push_back(*lease.ipv4);
        return base::Result<void>();
    };
    const auto leases = LeaseStore::open(folder_, settings).value();
    store = leases.get();
    ASSERT_TRUE(leases->assign(of("alice"), "n0", kNoon));
    ASSERT_TRUE(leases->assign(of("alice"), "n1", kNoon + 1));
    const auto lease = leases->assign(of("alice"), "n2", kNoon + 2);
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->ipv4, ip("192.0.2.3"));
    EXPECT_EQ(cleared, (std::vector{ip("192.0.2.2"), ip("192.0.2.3")}));
    EXPECT_EQ(leases->assign(of("alice"), "n0", kNoon + 3)->ipv4, ip("192.0.2.2"));
}

TEST_F(LeaseStoreTest, AUserGetsOnlySoManyAddressesOfOtherNodesInATime) {
    int64_t cleared = 0;
    LeasePool settings = pool("192.0.2.0/24", "");
    settings.user_leases = 2;
    settings.clear = [&](const Lease& /*lease*/) {
        ++cleared;
        return base::Result<void>();
    };
    const auto leases = LeaseStore::open(folder_, settings).value();
    const auto assign = [&](int i, int64_t now_us) {
        return leases->assign(of("alice"), "n" + std::to_string(i), now_us);
    };
    ASSERT_TRUE(assign(0, kNoon));
    ASSERT_TRUE(assign(1, kNoon));
    for (int i = 2; i < 500; ++i) {
        const auto lease = assign(i, kNoon);
        EXPECT_EQ(lease.has_value(), i < 2 + kUsedLeaseBurst) << i;
        EXPECT_TRUE(lease || lease.error().code == Errc::WouldBlock) << i;
    }
    EXPECT_EQ(cleared, kUsedLeaseBurst);
    EXPECT_TRUE(assign(1 + kUsedLeaseBurst, kNoon)) << "its own";
    ASSERT_TRUE(leases->assign(of("bob"), "n", kNoon));
    EXPECT_TRUE(assign(1000, kNoon + kUsedLeaseIntervalUs));
    EXPECT_FALSE(assign(1001, kNoon + kUsedLeaseIntervalUs));
    EXPECT_TRUE(assign(1002, kNoon - 1000 * kSecond)) << "the clock was set";
}

TEST_F(LeaseStoreTest, AnAddressOnItsWayToANodeIsGivenToNoOther) {
    const auto leases = open("192.0.2.0/24", "");
    leases->set_user_leases(2);
    EXPECT_EQ(leases->assign_held(of("alice"), "n0", kNoon)->ipv4, ip("192.0.2.2"));
    EXPECT_EQ(leases->assign_held(of("alice"), "n1", kNoon + 1)->ipv4, ip("192.0.2.3"));
    EXPECT_EQ(leases->assign_held(of("alice"), "n2", kNoon + 2)->ipv4, ip("192.0.2.4"));
    leases->release(of("alice").id, "n1");
    EXPECT_EQ(leases->assign_held(of("alice"), "n3", kNoon + 3)->ipv4, ip("192.0.2.3"));
    leases->set_user_leases(8);
    EXPECT_EQ(leases->assign_held(of("alice"), "n4", kNoon + 4)->ipv4, ip("192.0.2.5"));
}

TEST_F(LeaseStoreTest, NodesOfOneNameAreToldApartByTheirIds) {
    const NodeId a{1};
    const NodeId b{2};
    const NodeId c{3};
    {
        const auto leases = open("192.0.2.0/24", "");
        const auto first = leases->assign_held(of("alice"), "laptop", kNoon, a).value();
        const auto second = leases->assign_held(of("alice"), "laptop", kNoon, b).value();
        EXPECT_EQ(first.node, "laptop");
        EXPECT_EQ(second.node, "laptop-2");
        EXPECT_NE(first.ipv4, second.ipv4);
        EXPECT_EQ(leases->assign_held(of("alice"), "laptop", kNoon, c)->node, "laptop-3");
        EXPECT_EQ(leases->assign_held(of("bob"), "laptop", kNoon, b)->node, "laptop");
        EXPECT_EQ(leases->assign_held(of("alice"), "laptop-2", kNoon, a)->node, "laptop-2-2")
            << "a name of its own, which another one has";
        EXPECT_EQ(leases->assign(of("alice"), "laptop", kNoon)->ipv4, first.ipv4)
            << "without an id";
        EXPECT_EQ(leases->assign(of("alice"), "laptop", kNoon, a)->ipv4, first.ipv4)
            << "it stays a's";
    }
    const auto leases = open("192.0.2.0/24", "");
    EXPECT_EQ(leases->assign(of("alice"), "laptop", kNoon, c)->node, "laptop-3") << "in any order";
    EXPECT_EQ(leases->assign(of("alice"), "laptop", kNoon, b)->node, "laptop-2");
    EXPECT_EQ(leases->assign(of("alice"), "laptop", kNoon, a)->node, "laptop");
    EXPECT_EQ(leases->list()->size(), 5U);
}

// Installed anew, or a container without a state of its own.
TEST_F(LeaseStoreTest, ANodeWithANewIdTakesOverItsNameAndAClearedLease) {
    LeasePool settings = pool("192.0.2.0/24", "");
    std::vector<Lease> cleared;
    settings.clear = [&cleared](const Lease& lease) {
        cleared.push_back(lease);
        return base::Result<void>();
    };
    const auto leases = LeaseStore::open(folder_, settings).value();
    const auto first = leases->assign_held(of("alice"), "laptop", kNoon, NodeId{1}).value();
    leases->release(of("alice").id, "laptop");
    const auto second = leases->assign_held(of("alice"), "laptop", kNoon, NodeId{2}).value();
    EXPECT_EQ(second.node, "laptop");
    EXPECT_EQ(second.ipv4, first.ipv4);
    ASSERT_EQ(cleared.size(), 1U);
    EXPECT_EQ(cleared[0].ipv4, first.ipv4);
    EXPECT_EQ(leases->assign(of("alice"), "laptop", kNoon, NodeId{1})->node, "laptop-2");
    EXPECT_EQ(cleared.size(), 1U);
}

TEST_F(LeaseStoreTest, ANumberFitsBehindTheLongestName) {
    const auto leases = open("192.0.2.0/24", "");
    const std::string name(kMaxNameBytes, 'n');
    EXPECT_EQ(leases->assign_held(of("alice"), name, kNoon, NodeId{1})->node, name);
    const auto second = leases->assign_held(of("alice"), name, kNoon, NodeId{2}).value();
    EXPECT_EQ(second.node, std::string(kMaxNameBytes - 2, 'n') + "-2");
    EXPECT_EQ(leases->assign(of("alice"), name, kNoon, NodeId{2})->node, second.node);
}

TEST_F(LeaseStoreTest, PoolWithoutRoomAndBadNamesAreErrors) {
    EXPECT_FALSE(LeaseStore::open(folder_, pool("192.0.2.0/31", "")));
    EXPECT_FALSE(LeaseStore::open(folder_, pool("", "2001:db8::/128")));
    EXPECT_FALSE(LeaseStore::open(folder_, pool("", "")));
    const auto leases = open("192.0.2.0/24", "");
    EXPECT_FALSE(leases->assign(of("alice"), "", kNoon));
    EXPECT_FALSE(leases->assign(of("alice"), "a/b", kNoon));
    EXPECT_FALSE(leases->assign(of("alice"), std::string(65, 'n'), kNoon));
}

}  // namespace
}  // namespace continuo::snapt::store
