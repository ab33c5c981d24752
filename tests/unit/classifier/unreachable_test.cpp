#include "classifier/ruleset.hpp"
#include "classifier/unreachable.hpp"

#include <gtest/gtest.h>

namespace continuo::classifier {
namespace {

// Whether a rule with `narrow` is unreachable behind one with `wide`, by the warnings of the file.
bool hides(const std::string& wide, const std::string& narrow) {
    const std::string text = "[[rule]]\napp = \"wide\"\nmatch = { " + wide +
                             " }\n[[rule]]\napp = \"narrow\"\nmatch = { " + narrow + " }\n";
    const ParsedPolicy parsed = parse_policy(text, "f");
    EXPECT_TRUE(parsed.ruleset) << text;
    EXPECT_LE(parsed.diagnostics.size(), 1U) << text;
    return !parsed.diagnostics.empty();
}

TEST(Unreachable, WhateverFollowsARuleForAllFlows) {
    EXPECT_TRUE(hides("", ""));
    EXPECT_TRUE(hides("", "process = \"ssh\", user = 0, dport = 22"));
}

TEST(Unreachable, ANarrowerRuleIsHiddenInEveryDimension) {
    EXPECT_TRUE(hides("proto = [\"tcp\", \"udp\"]", "dport = 53"));
    EXPECT_TRUE(hides("dport = \"1-1023\"", "dport = [22, \"80-443\"], proto = \"tcp\""));
    EXPECT_TRUE(hides("dst = \"2001:db8::/32\"", "dst = \"2001:db8:1::/48\""));
    EXPECT_TRUE(hides("dscp = [\"ef\", 8]", "dscp = \"cs1\""));
    EXPECT_TRUE(hides("user = [\"a\", 7]", "user = 7"));
    EXPECT_TRUE(hides("process = [\"ssh\", \"scp\"]", "process = \"scp\", parent = \"make\""));
}

TEST(Unreachable, ARuleThatSomeFlowReachesIsNot) {
    EXPECT_FALSE(hides("dport = 53", ""));
    EXPECT_FALSE(hides("dport = 53", "proto = \"udp\""));
    EXPECT_FALSE(hides("dport = \"1-65535\"", "proto = [\"udp\", \"icmp\"]"));
    EXPECT_FALSE(hides("dport = \"1-100\"", "dport = \"100-101\""));
    EXPECT_FALSE(hides("dst = \"198.51.100.0/25\"", "dst = \"198.51.100.0/24\""));
    EXPECT_FALSE(hides("dst = \"0.0.0.0/0\"", "dst = \"2001:db8::/32\""));
    EXPECT_FALSE(hides("user = \"a\"", "user = [\"a\", 7]"));
    EXPECT_FALSE(hides("user = \"a\"", "process = \"ssh\""));
    EXPECT_FALSE(hides("process = \"ssh\"", "process = [\"ssh\", \"scp\"]"));
    EXPECT_FALSE(hides("process = \"ssh\"", "parent = \"ssh\""));
    EXPECT_FALSE(hides("dscp = 8", "dscp = [8, 9]"));
}

TEST(Unreachable, NoFlowOfAHiddenRuleEverGetsToIt) {
    const ParsedPolicy parsed =
        parse_policy("[[rule]]\napp = \"wide\"\nmatch = { dport = \"1-99\" }\n"
                     "[[rule]]\napp = \"narrow\"\nmatch = { dport = 53 }\n",
                     "f");
    ASSERT_TRUE(parsed.ruleset);
    FlowFacts facts;
    facts.tuple.protocol = packet::Protocol::Udp;
    facts.tuple.remote_port = 53;
    EXPECT_EQ(parsed.ruleset->classify(facts).app, "wide");
}

std::string rule(const std::string& app, const std::string& match, const std::string& rest = "") {
    return "[[rule]]\napp = \"" + app + "\"\nmatch = { " + match + " }\n" + rest;
}

const std::string kBypass = "action = \"bypass\"\n";

std::string warnings(const std::string& text) {
    const ParsedPolicy parsed = parse_policy(text, "f");
    EXPECT_TRUE(parsed.ruleset) << text;
    std::string all;
    for (const config::Diagnostic& diagnostic : parsed.diagnostics) {
        all += to_text(diagnostic) + "\n";
    }
    return all;
}

TEST(Unreachable, ABypassHidesWhatRoutingDoesNotKnowWhereverItStands) {
    const std::string lan = rule("lan", "dst = \"10.0.0.0/8\"", kBypass);
    const std::string hidden =
        " bypasses all that it would, which is decided before process, parent and DSCP are known; "
        "expected a narrower rule with action = \"bypass\"\n";
    for (const std::string asked : {"process = \"ssh\"", "parent = \"make\"", "dscp = 8"}) {
        const std::string narrow = rule("narrow", asked + ", dst = \"10.1.0.0/16\"");
        EXPECT_EQ(warnings(narrow + lan),
                  "f:2:7: warning: rule \"narrow\" never matches: rule \"lan\" of line 4" + hidden);
        EXPECT_EQ(warnings(lan + narrow),
                  "f:6:7: warning: rule \"narrow\" never matches: rule \"lan\" of line 1" + hidden);
        EXPECT_EQ(warnings(rule("narrow", asked) + lan), "") << "elsewhere it does";
    }
}

TEST(Unreachable, OfWhatRoutingKnowsTheFirstDecides) {
    const std::string lan = rule("lan", "dst = \"10.0.0.0/8\"", kBypass);
    const std::string narrow = rule("narrow", "dst = \"10.1.0.0/16\"");
    EXPECT_EQ(warnings(narrow + lan), "");
    EXPECT_EQ(warnings(lan + narrow),
              "f:6:7: warning: rule \"narrow\" never matches: rule \"lan\" of line 1 bypasses all "
              "that it would; expected the narrower rule first\n");
}

// It leaves the rule by process the flows that it takes from the bypass.
TEST(Unreachable, ARuleInFrontOfTheBypassMayLeaveSomethingToFind) {
    const std::string ssh = rule("ssh", "process = \"ssh\", dst = \"10.0.0.0/8\"");
    const std::string lan = rule("lan", "dst = \"10.0.0.0/8\"", kBypass);
    EXPECT_EQ(warnings(ssh + rule("near", "dst = \"10.1.0.0/16\"") + lan), "");
    EXPECT_EQ(warnings(ssh + rule("mine", "user = 7") + lan), "");
    for (const std::string elsewhere :
         {"dst = \"192.0.2.0/24\"", "dst = \"2001:db8::/32\"", "process = \"scp\""}) {
        EXPECT_NE(warnings(ssh + rule("other", elsewhere) + lan), "") << elsewhere;
    }
    const std::string web = rule("web", "process = \"curl\", dst = \"10.0.0.0/8\", dport = 80");
    EXPECT_EQ(warnings(web + rule("low", "dport = \"1-80\"") + lan), "");
    EXPECT_NE(warnings(web + rule("low", "dport = \"1-79\"") + lan), "");
    EXPECT_NE(warnings(web + rule("ping", "proto = \"icmp\"") + lan), "");
}

TEST(Unreachable, TheBuiltInPolicyHasNone) {
    EXPECT_TRUE(parse_policy(std::string(built_in_policy_text()), "f").diagnostics.empty());
}

TEST(Unreachable, GivesUpOnEndlessListsAndStaysQuick) {
    std::vector<Rule> rules(200);
    for (Rule& rule : rules) {
        rule.match.ports.assign(5000, config::PortRange{1, 2});
        rule.match.ports.push_back({static_cast<uint16_t>(&rule - rules.data() + 3), 500});
    }
    EXPECT_LE(unreachable_rules(rules).size(), rules.size());
}

}  // namespace
}  // namespace continuo::classifier
