#include "classifier/policy_changes.hpp"

#include <gtest/gtest.h>

namespace continuo::classifier {
namespace {

using Changes = std::vector<std::string>;

constexpr std::string_view kPolicy = R"([default]
tcp = "lt-hd"
[[rule]]
app = "chat"
match = { proto = "tcp", dport = 7000 }
class = "lt-ld"
[[rule]]
app = "voice"
match = { proto = "udp", dport = 7001 }
class = "ht-ld"
)";

std::shared_ptr<const Ruleset> make(std::string_view text) {
    ParsedPolicy parsed = parse_policy(text, "policy.toml");
    EXPECT_TRUE(parsed.ruleset) << (parsed.diagnostics.empty()
                                        ? ""
                                        : to_text(parsed.diagnostics.front()));
    return parsed.ruleset;
}

Changes changes(std::string_view from, std::string_view to) {
    return policy_changes(*make(from), *make(to));
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
    return text.replace(text.find(what), what.size(), by);
}

TEST(PolicyChanges, OfTheSamePolicyThereIsNone) {
    EXPECT_EQ(changes(kPolicy, std::string(kPolicy) + "# a comment\n"), Changes());
}

TEST(PolicyChanges, NamesRulesThatDiffer) {
    const std::string policy(kPolicy);
    EXPECT_EQ(changes(policy, replaced(policy, "7000", "7002")),
              Changes{"policy.rule chat (changed)"});
    EXPECT_EQ(
        changes(policy,
                policy + "[[rule]]\napp = \"names\"\nmatch = { dport = 53 }\nclass = \"lt-ld\"\n"),
        Changes{"policy.rule names (added)"});
    const std::string without = policy.substr(0, policy.rfind("[[rule]]"));
    EXPECT_EQ(changes(policy, without), Changes{"policy.rule voice (removed)"});
    EXPECT_EQ(changes(without, policy), Changes{"policy.rule voice (added)"});
    EXPECT_EQ(changes(policy, replaced(policy, "lt-hd", "ht-hd")), Changes{"policy.default"});
    EXPECT_EQ(changes(policy, policy + "[admission]\nwhen_unmet = \"refuse\"\n"),
              Changes{"policy.admission"});
}

TEST(PolicyChanges, TellsOrderFromContent) {
    const std::string policy(kPolicy);
    const size_t first = policy.find("[[rule]]");
    const size_t second = policy.rfind("[[rule]]");
    const std::string other =
        policy.substr(0, first) + policy.substr(second) + policy.substr(first, second - first);
    EXPECT_EQ(changes(policy, other), Changes{"policy.rule order"});
}

TEST(PolicyChanges, NamesNoMoreThanPeopleRead) {
    std::string many;
    for (int port = 1; port <= 40; ++port) {
        many += "[[rule]]\napp = \"app" + std::to_string(port) +
                "\"\nmatch = { proto = \"tcp\", dport = " + std::to_string(port) +
                " }\nclass = \"lt-ld\"\n";
    }
    const Changes found = changes("[default]\n", many);
    ASSERT_EQ(found.size(), kMaxNamedRules + 1);
    EXPECT_EQ(found.front(), "policy.rule app1 (added)");
    EXPECT_EQ(found.back(), "policy: 24 more rules");
    std::string most = many;
    for (int port = 100; port < 1000; ++port) {
        most +=
            "[[rule]]\napp = \"more\"\nmatch = { proto = \"udp\", dport = " + std::to_string(port) +
            " }\nclass = \"lt-ld\"\n";
    }
    EXPECT_EQ(changes(many, most), Changes{"policy.rule 41 and more (changed)"});
}

}  // namespace
}  // namespace continuo::classifier
