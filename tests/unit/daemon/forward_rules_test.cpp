#include "common/daemon/forward_rules.hpp"

#include <gtest/gtest.h>

namespace continuo::daemon {
namespace {

using report::JsonValue;

JsonValue json(const std::string& text) {
    auto parsed = JsonValue::parse(text);
    EXPECT_TRUE(parsed) << text;
    return parsed ? std::move(*parsed) : JsonValue();
}

// As `nft -j list table ip filter` prints it: `rules` are "CHAIN: EXPRESSIONS".
JsonValue table_of(const std::vector<std::pair<std::string, std::string>>& rules) {
    std::string text = R"({"nftables":[{"metainfo":{"json_schema_version":1}})";
    for (const auto& [chain, expressions] : rules) {
        text += R"(,{"rule":{"family":"ip","table":"filter","chain":")" + chain +
                R"(","handle":1,"expr":[)" + expressions + "]}}";
    }
    return json(text + "]}");
}

std::string by(const std::string& key, const std::string& right, const std::string& op = "==") {
    return R"({"match":{"op":")" + op + R"(","left":{"meta":{"key":")" + key + R"("}},"right":)" +
           right + "}}";
}
std::string state(const std::string& right) {
    return R"({"match":{"op":"in","left":{"ct":{"key":"state"}},"right":)" + right + "}}";
}
const std::string kAccept = R"({"counter":{"packets":0,"bytes":0}},{"accept":null})";
const std::string kDrop = R"({"drop":null})";
const std::string kSource =
    R"({"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"192.0.2.1"}})";

Passage of(const std::vector<std::pair<std::string, std::string>>& rules, bool drops = true) {
    return passage(table_of(rules), {"ip", "filter", "FORWARD", drops},
                   ForwardWay{"snapt0", "eth0"});
}

TEST(ForwardRules, FindsTheChainsThatLookAtForwardedPackets) {
    const auto chains = forward_chains(json(R"({"nftables":[
        {"metainfo":{"version":"1.0.6"}},
        {"chain":{"family":"ip","table":"filter","name":"FORWARD","handle":2,"type":"filter",
                  "hook":"forward","prio":0,"policy":"drop"}},
        {"chain":{"family":"ip","table":"filter","name":"DOCKER","handle":3}},
        {"chain":{"family":"inet","table":"firewalld","name":"filter_FORWARD","handle":4,
                  "type":"filter","hook":"forward","prio":10,"policy":"accept"}},
        {"chain":{"family":"bridge","table":"b","name":"f","handle":5,"type":"filter",
                  "hook":"forward","prio":0,"policy":"drop"}},
        {"chain":{"family":"inet","table":"continuo_snapt_snapt0","name":"forward","handle":6,
                  "type":"filter","hook":"forward","prio":0,"policy":"accept"}}]})"));
    ASSERT_EQ(chains.size(), 2U);
    EXPECT_EQ(chains[0].to_string(), "ip filter FORWARD");
    EXPECT_TRUE(chains[0].drops);
    EXPECT_EQ(chains[1].to_string(), "inet firewalld filter_FORWARD");
    EXPECT_FALSE(chains[1].drops);
}

TEST(ForwardRules, APolicyThatDropsNeedsARuleForTheInterface) {
    EXPECT_EQ(of({}), Passage::No);
    EXPECT_EQ(of({}, false), Passage::Yes);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("snapt0")") + "," + kAccept}}), Passage::Yes);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("snapt*")") + "," + kAccept}}), Passage::Yes);
    EXPECT_EQ(of({{"FORWARD", by("oifname", R"({"set":["docker0","eth0"]})") + "," + kAccept}}),
              Passage::Yes);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("docker0")") + "," + kAccept}}), Passage::No);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("docker0")", "!=") + "," + kAccept}}), Passage::Yes);
    EXPECT_EQ(of({{"OTHER", kAccept}}), Passage::No) << "of another chain";
}

TEST(ForwardRules, AWayHasAnInterfaceAtEachEnd) {
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("eth0")") + "," + kDrop}}, false), Passage::Yes);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("eth0")") + "," + state(R"("new")") + "," + kDrop}},
                 false),
              Passage::Yes)
        << "what begins outside";
    EXPECT_EQ(of({{"FORWARD", by("oifname", R"("snapt0")") + "," + kAccept}}), Passage::No);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("snapt0")") + "," + by("oifname", R"("eth0")") +
                                  "," + kAccept}}),
              Passage::Yes);
    EXPECT_EQ(of({{"FORWARD",
                   by("iifname", R"("snapt0")") + "," + by("oifname", R"("eth1")") + "," + kDrop}},
                 false),
              Passage::Yes);
    EXPECT_EQ(passage(table_of({{"FORWARD", by("oifname", R"("eth0")") + "," + kAccept}}),
                      {"ip", "filter", "FORWARD", true}, ForwardWay{"snapt0", ""}),
              Passage::Perhaps)
        << "an interface that is not known";
}

TEST(ForwardRules, SeveralWaysAreClosedWhereEachIs) {
    const ForwardChain chain = {"ip", "filter", "FORWARD", true};
    const std::vector<ForwardWay> ways = {{"snapt0", "eth0"}, {"snapt0", "eth1"}};
    EXPECT_EQ(passage(table_of({}), chain, ways), Passage::No);
    EXPECT_EQ(
        passage(table_of({{"FORWARD", by("oifname", R"("eth1")") + "," + kAccept}}), chain, ways),
        Passage::Perhaps);
    EXPECT_EQ(
        passage(table_of({{"FORWARD", by("iifname", R"("snapt0")") + "," + kAccept}}), chain, ways),
        Passage::Yes);
}

TEST(ForwardRules, RulesForEstablishedConnectionsDoNotHelpNewOnes) {
    EXPECT_EQ(of({{"FORWARD", state(R"(["established","related"])") + "," + kAccept}}),
              Passage::No);
    EXPECT_EQ(of({{"FORWARD", state(R"(["established","new"])") + "," + kAccept}}), Passage::Yes);
    EXPECT_EQ(of({{"FORWARD", state(R"("established")") + "," + kAccept},
                  {"FORWARD", by("iifname", R"("snapt0")") + "," + by("oifname", R"("eth0")") +
                                  "," + kAccept}}),
              Passage::Yes);
}

TEST(ForwardRules, ConditionsThatAreNotFollowedLeaveItOpen) {
    EXPECT_EQ(of({{"FORWARD", kSource + "," + kAccept}}), Passage::Perhaps);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("@lans")") + "," + kAccept}}), Passage::Perhaps);
    EXPECT_EQ(of({{"FORWARD", R"({"vmap":{"key":{},"data":{}}})"}}), Passage::Perhaps);
    EXPECT_EQ(of({{"FORWARD", R"({"queue":{"num":1}})"}}), Passage::Perhaps);
    EXPECT_EQ(of({{"FORWARD", R"({"counter":{"packets":0}},{"log":null},{"limit":{"rate":1}})"}}),
              Passage::No)
        << "no verdict";
    // iptables-nft tells only that there is a condition: it may hold for new connections.
    for (const char* name : {"conntrack", "state", "set"}) {
        const std::string extension =
            R"({"xt":{"type":"match","name":")" + std::string(name) + R"("}})";
        EXPECT_EQ(of({{"FORWARD", extension + "," + kAccept}}), Passage::Perhaps) << name;
        EXPECT_EQ(of({{"FORWARD", by("iifname", R"("snapt0")") + "," + by("oifname", R"("eth0")") +
                                      "," + extension + "," + kAccept}}),
                  Passage::Perhaps)
            << name;
    }
    EXPECT_EQ(of({{"FORWARD", R"({"xt":{"type":"target","name":"NFQUEUE"}})"}}), Passage::Perhaps);
}

TEST(ForwardRules, FollowsJumpsAndTheOrderOfRules) {
    EXPECT_EQ(of({{"FORWARD", R"({"jump":{"target":"mine"}})"},
                  {"mine", by("iifname", R"("snapt0")") + "," + kAccept}}),
              Passage::Yes);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("docker0")") + R"(,{"jump":{"target":"mine"}})"},
                  {"mine", kAccept}}),
              Passage::No);
    EXPECT_EQ(of({{"FORWARD", kDrop}, {"FORWARD", kAccept}}, false), Passage::No);
    EXPECT_EQ(of({{"FORWARD", by("iifname", R"("snapt0")") + "," + kAccept},
                  {"FORWARD", R"({"reject":{"type":"icmpx","expr":"admin-prohibited"}})"}},
                 false),
              Passage::Yes);
    // Chains that lead to each other are not made by the kernel, but by a table that was changed
    // while it was listed.
    EXPECT_EQ(of({{"FORWARD", R"({"jump":{"target":"FORWARD"}})"}}), Passage::Perhaps);
}

TEST(ForwardRules, SurvivesListsOfAnotherShape) {
    for (const char* text :
         {"{}", "[]", "null", R"({"nftables":[7,{"rule":[]},{"chain":"x"}]})",
          R"({"nftables":[{"rule":{"chain":"FORWARD","expr":[{"match":7}]}}]})"}) {
        EXPECT_TRUE(forward_chains(json(text)).empty());
        const Passage result =
            passage(json(text), {"ip", "filter", "FORWARD", true}, ForwardWay{"snapt0", "eth0"});
        EXPECT_NE(result, Passage::Yes);
    }
}

}  // namespace
}  // namespace continuo::daemon
