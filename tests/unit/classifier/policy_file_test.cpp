#include "classifier/ruleset.hpp"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace continuo::classifier {
namespace {

std::string joined(const std::vector<config::Diagnostic>& diagnostics) {
    std::string text;
    for (const config::Diagnostic& diagnostic : diagnostics) {
        text += (text.empty() ? "" : "\n") + to_text(diagnostic);
    }
    return text;
}

TEST(PolicyFile, ReadsTheSample) {
    std::ifstream file(CONTINUO_SOURCE_DIR "/tests/unit/config/data/policy.toml");
    std::ostringstream text;
    text << file.rdbuf();
    ASSERT_FALSE(text.str().empty());
    const ParsedPolicy parsed = parse_policy(text.str(), "policy.toml");
    ASSERT_TRUE(parsed.ruleset) << joined(parsed.diagnostics);
    EXPECT_TRUE(parsed.diagnostics.empty());
    const auto& rules = parsed.ruleset->rules();
    ASSERT_EQ(rules.size(), 5U);
    EXPECT_EQ(rules[0].match.processes, (std::vector<std::string>{"ssh", "mosh-client"}));
    EXPECT_EQ(rules[0].match.protocols, (ProtocolSet{true, true, false}));
    EXPECT_EQ(rules[1].match.ports, (std::vector<config::PortRange>{{53, 53}, {5353, 5355}}));
    EXPECT_EQ(rules[2].match.user_names, std::vector<std::string>{"backup"});
    EXPECT_EQ(rules[2].match.destinations.size(), 2U);
    EXPECT_EQ(rules[2].match.dscp, (std::vector<uint8_t>{8, 8}));
    EXPECT_FALSE(rules[2].may_compress);
    EXPECT_EQ(rules[2].snapts, std::vector<std::string>{"zrh-1"});
    EXPECT_EQ(rules[2].mode, PathMode::Flow);
    EXPECT_EQ(rules[3].action, Action::Deny);
    EXPECT_EQ(rules[4].action, Action::Bypass);
}

TEST(PolicyFile, HasNoPromotionUnlessItAsksForIt) {
    EXPECT_FALSE(parse_policy("", "f").ruleset->promotion().is_enabled);
    EXPECT_TRUE(parse_policy("[promotion]\n", "f").ruleset->promotion().is_enabled);
    EXPECT_FALSE(
        parse_policy("[promotion]\nenabled = false\n", "f").ruleset->promotion().is_enabled);
}

TEST(PolicyFile, BoundsTheNumberOfRules) {
    std::string text;
    for (size_t i = 0; i <= kMaxRules; ++i) {
        text += "[[rule]]\napp=\"x\"\nmatch={}\n";
    }
    const ParsedPolicy parsed = parse_policy(text, "f");
    EXPECT_FALSE(parsed.ruleset);
    ASSERT_EQ(parsed.diagnostics.size(), 1U);
    EXPECT_EQ(to_text(parsed.diagnostics[0]), "f:1:1: error: 4097 rules; expected at most 4096");
}

// A rule that the kernel does not get would not be bypassed.
TEST(PolicyFile, BoundsWhatTheKernelIsToldOfBypass) {
    const auto rule_of = [](size_t ports, const std::string& action) {
        std::string text = "[[rule]]\napp=\"x\"\naction=\"" + action +
                           "\"\nmatch={proto=\"tcp\",dport=[" + (action == "bypass" ? "2" : "1");
        for (size_t i = 1; i < ports; ++i) {
            text += (i % 100 == 0 ? ",\n" : ",") + std::to_string(1 + 2 * i);
        }
        return text + "]}\n";
    };
    EXPECT_TRUE(
        parse_policy(rule_of(kMaxBypassMatches - 1, "serve") + rule_of(1, "bypass"), "f").ruleset);
    EXPECT_TRUE(
        parse_policy(rule_of(1, "bypass") + rule_of(kMaxBypassMatches, "serve"), "f").ruleset);
    const ParsedPolicy parsed =
        parse_policy(rule_of(kMaxBypassMatches, "serve") + rule_of(1, "bypass"), "f");
    EXPECT_FALSE(parsed.ruleset);
    ASSERT_FALSE(parsed.diagnostics.empty());
    EXPECT_EQ(
        to_text(parsed.diagnostics[0]),
        "f:16:5: error: more than 1024 combinations of user, proto, dport and dst in the rules "
        "up to the last with action = \"bypass\"; expected bypass rules first, with wider "
        "prefixes and port ranges");
}

}  // namespace
}  // namespace continuo::classifier
