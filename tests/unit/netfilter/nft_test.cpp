#include "common/netfilter/nft.hpp"
#include "tests/support/net_namespace.hpp"

namespace continuo::netfilter {
namespace {

constexpr const char* kTable = "inet continuo_test";

class NftTest : public test::NetNamespaceTest {
  protected:
    Nft nft_;
};

TEST_F(NftTest, RulesetIsAppliedAndItsCountersAreRead) {
    ASSERT_TRUE(nft_.apply("table inet continuo_test {\n  counter seen { }\n  counter other { }\n"
                           "  chain output { type filter hook output priority 0;\n"
                           "    ip daddr 127.0.0.9 counter name seen\n  }\n}\n"))
        << nft_.error_text();
    ASSERT_TRUE(net().shell("ping -q -c 3 -i 0.01 127.0.0.9 >/dev/null"));
    const auto counter = nft_.counter(kTable, "seen");
    ASSERT_TRUE(counter);
    EXPECT_EQ(counter->packets, 3U);
    EXPECT_EQ(counter->bytes, 3U * 84U);
    EXPECT_EQ(nft_.counters(kTable)->size(), 2U);
    EXPECT_FALSE(nft_.counter(kTable, "nosuch"));
    const auto json = nft_.list_table_json(kTable);
    ASSERT_TRUE(json);
    EXPECT_NE(json->find("\"nftables\""), std::string::npos);
}

TEST_F(NftTest, ATableIsListedWithoutTheElementsOfItsNamedSets) {
    ASSERT_TRUE(nft_.apply("table inet continuo_test {\n"
                           "  set many { type ipv4_addr; elements = { 192.0.2.77 }\n  }\n"
                           "  chain c {\n    iifname { \"one0\", \"two0\" } accept\n  }\n}\n"))
        << nft_.error_text();
    const auto json = nft_.list_table_json(kTable);
    ASSERT_TRUE(json);
    EXPECT_EQ(json->find("192.0.2.77"), std::string::npos);
    EXPECT_NE(json->find("two0"), std::string::npos) << "those of a rule are part of it";
}

TEST_F(NftTest, FaultyRulesetChangesNothingAndSaysWhy) {
    ASSERT_TRUE(nft_.apply("table inet continuo_test { }\n"));
    const auto refused =
        nft_.apply("delete table inet continuo_test\ntable inet other { nonsense }\n");
    ASSERT_FALSE(refused);
    EXPECT_NE(nft_.error_text().find("error"), std::string::npos);
    EXPECT_TRUE(nft_.list_table_json(kTable));
    EXPECT_FALSE(nft_.list_table_json("inet other"));
}

TEST_F(NftTest, RemovingAMissingTableIsNoErrorAndListingItIsNotFound) {
    EXPECT_TRUE(nft_.remove_table(kTable)) << nft_.error_text();
    const auto missing = nft_.counters(kTable);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, base::Errc::NotFound);
}

TEST_F(NftTest, AnOwnedTableIsNobodyElsesAndGoesWithItsOwner) {
    const auto has_table = [&] { return nft_.list_table_json("inet owned").has_value(); };
    {
        OwnedTable table;
        ASSERT_TRUE(table.make("table inet owned {\n  flags owner;\n"
                               "  chain nat { type nat hook postrouting priority 100; }\n}\n"));
        ASSERT_TRUE(net().shell("nft flush ruleset"));
        EXPECT_TRUE(has_table());
        EXPECT_FALSE(net().shell("nft delete table inet owned 2>/dev/null"));
        EXPECT_TRUE(has_table());
        ASSERT_TRUE(table.make("table inet owned {\n  flags owner;\n}\n")) << "anew";
        EXPECT_TRUE(has_table());
        EXPECT_FALSE(table.make("table inet owned { nonsense }\n"));
    }
    EXPECT_FALSE(has_table());
}

}  // namespace
}  // namespace continuo::netfilter
