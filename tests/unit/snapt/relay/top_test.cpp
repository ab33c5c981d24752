#include "snapt/relay/top.hpp"
#include "tests/unit/snapt/relay/relay_fixture.hpp"

namespace continuo::snapt::relay {
namespace {

using report::JsonValue;

class TopTest : public RelayTest {
  protected:
    NodeSession& join(const char* user, uint8_t number) {
        SessionGrant grant;
        grant.user = user;
        grant.node = "laptop" + std::to_string(number);
        grant.session_id[0] = number;
        grant.lease_ipv4 = *base::IpAddress::parse("100.64.0." + std::to_string(number));
        return *relay.table().find(relay.reserve(grant)->wire_id);
    }
    // Traffic up in the last seconds.
    void carried(NodeSession& node, base::TrafficClass traffic_class, uint64_t bytes) {
        const size_t index = base::index_of(traffic_class);
        node.class_rates[index].look(node.up_class_bytes[index], 0, loop.now() - base::seconds(2));
        node.up_class_bytes[index] += bytes;
    }
    JsonValue top(const std::string& request) {
        const std::string text =
            top_json(relay, *JsonValue::parse("{" + request + "}"), loop.now());
        return *JsonValue::parse(text);
    }
};

TEST_F(TopTest, TheBusiestComesFirstAndTheOthersAreSummedUp) {
    NodeSession& laptop = join("alice", 2);
    NodeSession& phone = join("alice", 3);
    NodeSession& bobs = join("bob", 4);
    join("carol", 5);
    carried(laptop, base::TrafficClass::HtHd, 100'000);
    carried(phone, base::TrafficClass::LtLd, 50'000);
    carried(bobs, base::TrafficClass::HtHd, 120'000);
    const JsonValue all = top("");
    ASSERT_EQ(all["rows"].items().size(), 3U);
    const JsonValue& first = all["rows"].items()[0];
    EXPECT_EQ(first.text("user"), "alice");
    EXPECT_EQ(first["sessions"].unsigned_integer(), 2U);
    EXPECT_EQ(first["up_bytes"].unsigned_integer(), 150'000U);
    EXPECT_EQ(first["up_bits_per_s"].unsigned_integer(), 600'000U);
    EXPECT_EQ(all["rows"].items()[1].text("user"), "bob");
    EXPECT_EQ(all["others"]["rows"].unsigned_integer(), 0U);
    const JsonValue one = top(R"("limit":1)");
    ASSERT_EQ(one["rows"].items().size(), 1U);
    EXPECT_EQ(one["others"]["rows"].unsigned_integer(), 2U);
    EXPECT_EQ(one["others"]["sessions"].unsigned_integer(), 2U);
    EXPECT_EQ(one["others"]["up_bytes"].unsigned_integer(), 120'000U);
}

TEST_F(TopTest, AClassHasTheSessionsThatUseIt) {
    carried(join("alice", 2), base::TrafficClass::HtHd, 100'000);
    carried(join("bob", 3), base::TrafficClass::HtHd, 1000);
    const JsonValue by_class = top(R"("by":"class")");
    ASSERT_EQ(by_class["rows"].items().size(), 4U);
    EXPECT_EQ(by_class["rows"].items()[0].text("class"), "ht-hd");
    EXPECT_EQ(by_class["rows"].items()[0]["sessions"].unsigned_integer(), 2U);
    EXPECT_EQ(by_class["rows"].items()[1]["sessions"].unsigned_integer(), 0U);
    EXPECT_FALSE(by_class["rows"].items()[0].has("user"));
    const JsonValue both = top(R"("by":"user,class")");
    ASSERT_EQ(both["rows"].items().size(), 2U) << "classes that were not used have no row";
    EXPECT_EQ(both["rows"].items()[0].text("user"), "alice");
}

TEST_F(TopTest, WhatIsWrongIsAnError) {
    for (const char* request :
         {R"("by":"day")", R"("limit":0)", R"("limit":1001)", R"("limit":"x")"}) {
        EXPECT_TRUE(top(request).has("error")) << request;
    }
}

}  // namespace
}  // namespace continuo::snapt::relay
