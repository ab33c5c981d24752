#include "classifier/ruleset.hpp"

#include <gtest/gtest.h>

namespace continuo::classifier {
namespace {

using base::TrafficClass;
using packet::Protocol;

std::shared_ptr<const Ruleset> make(std::string_view text) {
    ParsedPolicy parsed = parse_policy(text, "policy.toml");
    EXPECT_TRUE(parsed.ruleset) << (parsed.diagnostics.empty()
                                        ? ""
                                        : to_text(parsed.diagnostics.front()));
    return parsed.ruleset;
}

FlowFacts flow(Protocol protocol, uint16_t port, std::string_view remote = "198.51.100.2") {
    FlowFacts facts;
    facts.tuple.protocol = protocol;
    facts.tuple.remote_port = port;
    facts.tuple.remote = base::IpAddress::parse(remote).value();
    facts.tuple.local = base::IpAddress::any(facts.tuple.remote.version);
    return facts;
}

FlowFacts owned(FlowFacts facts, std::string_view process) {
    facts.process = process;
    facts.user = FlowUser{1000, "alice"};
    return facts;
}

TEST(Ruleset, FallsBackToTheDefaultsOfTheProtocol) {
    const auto rules = make("[default]\ntcp = \"ht-hd\"\nmode = \"flow\"\n");
    const Classification tcp = rules->classify(flow(Protocol::Tcp, 80));
    EXPECT_EQ(tcp.traffic_class, TrafficClass::HtHd);
    EXPECT_EQ(tcp.app, "");
    EXPECT_EQ(tcp.app_tag, 0);
    EXPECT_FALSE(tcp.rule_index);
    EXPECT_EQ(tcp.mode, PathMode::Flow);
    EXPECT_EQ(rules->classify(flow(Protocol::Udp, 80)).traffic_class, TrafficClass::HtLd);
    EXPECT_EQ(rules->classify(flow(Protocol::Icmp, 0)).traffic_class, TrafficClass::LtLd);
    EXPECT_EQ(rules->classify(flow(Protocol::IcmpV6, 0)).traffic_class, TrafficClass::LtLd);
}

TEST(Ruleset, TakesTheFirstMatch) {
    const auto rules =
        make("[[rule]]\napp = \"a\"\nmatch = { dport = 53 }\nclass = \"lt-ld\"\n"
             "[[rule]]\napp = \"b\"\nmatch = { dport = \"50-60\" }\nclass = \"ht-hd\"\n"
             "[[rule]]\napp = \"a\"\nmatch = {}\n");
    EXPECT_EQ(rules->classify(flow(Protocol::Udp, 53)).rule_index, 0U);
    EXPECT_EQ(rules->classify(flow(Protocol::Udp, 50)).app, "b");
    EXPECT_EQ(rules->classify(flow(Protocol::Udp, 60)).app, "b");
    const Classification rest = rules->classify(flow(Protocol::Udp, 61));
    EXPECT_EQ(rest.rule_index, 2U);
    EXPECT_EQ(rest.traffic_class, TrafficClass::HtLd);
    EXPECT_EQ(rest.app_tag, 1);
    EXPECT_EQ(rules->app_names(), (std::vector<std::string>{"", "a", "b"}));
}

TEST(Ruleset, AndsKeysAndOrsValues) {
    const auto rules = make("[[rule]]\napp = \"x\"\nmatch = { proto = [\"tcp\", \"udp\"], "
                            "dport = [5, 9], dst = [\"198.51.100.0/24\", \"2001:db8::/32\"], "
                            "dscp = [\"cs1\", 46] }\n");
    const auto matches = [&rules](Protocol protocol, uint16_t port, std::string_view remote,
                                  uint8_t dscp) {
        FlowFacts facts = flow(protocol, port, remote);
        facts.dscp = dscp;
        return rules->classify(facts).rule_index.has_value();
    };
    EXPECT_TRUE(matches(Protocol::Tcp, 5, "198.51.100.0", 8));
    EXPECT_TRUE(matches(Protocol::Udp, 9, "2001:db8:ffff::1", 46));
    EXPECT_TRUE(matches(Protocol::Udp, 9, "198.51.100.255", 46));
    EXPECT_FALSE(matches(Protocol::Udp, 7, "198.51.100.1", 46));
    EXPECT_FALSE(matches(Protocol::Udp, 9, "198.51.101.0", 46));
    EXPECT_FALSE(matches(Protocol::Udp, 9, "2001:db9::", 46));
    EXPECT_FALSE(matches(Protocol::Udp, 9, "198.51.100.1", 0));
}

TEST(Ruleset, GivesPortsToTcpAndUdpOnly) {
    const auto rules = make("[[rule]]\napp = \"x\"\nmatch = { dport = \"1-65535\" }\n"
                            "[[rule]]\napp = \"ping\"\nmatch = { proto = \"icmp\" }\n");
    EXPECT_EQ(rules->classify(flow(Protocol::Tcp, 1)).app, "x");
    EXPECT_EQ(rules->classify(flow(Protocol::Icmp, 7)).app, "ping");
    EXPECT_EQ(rules->classify(flow(Protocol::IcmpV6, 7, "2001:db8::1")).app, "ping");
}

TEST(Ruleset, MatchesProcessesByNameAndGlob) {
    const auto rules = make("[[rule]]\napp = \"x\"\nmatch = { process = [\"ssh\", \"fire*\", "
                            "\"a-rather-long-name\"] }\n");
    const auto matches = [&rules](std::string_view process) {
        return rules->classify(owned(flow(Protocol::Tcp, 1), process)).app == "x";
    };
    EXPECT_TRUE(matches("ssh"));
    EXPECT_TRUE(matches("firefox-esr"));
    EXPECT_TRUE(matches("a-rather-long-n"));  // as the kernel cuts it
    EXPECT_TRUE(matches("a-rather-long-name"));
    EXPECT_FALSE(matches("SSH"));
    EXPECT_FALSE(matches("sshd"));
    EXPECT_FALSE(matches("a-rather-long-"));
    EXPECT_FALSE(matches(""));
    EXPECT_FALSE(rules->classify(flow(Protocol::Tcp, 1)).rule_index);
}

TEST(Ruleset, TellsChildrenByTheirParent) {
    const auto rules =
        make("[[rule]]\napp = \"scp\"\nmatch = { process = \"ssh\", parent = [\"scp\", \"sf*\"] }\n"
             "[[rule]]\napp = \"ssh\"\nmatch = { process = \"ssh\" }\n");
    FlowFacts facts = owned(flow(Protocol::Tcp, 22), "ssh");
    EXPECT_EQ(rules->classify(facts).app, "ssh");
    EXPECT_FALSE(rules->needs_process(facts));
    facts.parent = "sftp";
    EXPECT_EQ(rules->classify(facts).app, "scp");
    facts.parent = "bash";
    EXPECT_EQ(rules->classify(facts).app, "ssh");
}

TEST(Ruleset, MatchesUsersByNameAndNumber) {
    const auto rules = make("[[rule]]\napp = \"x\"\nmatch = { user = [\"backup\", 7, \"8\"] }\n");
    const auto matches = [&rules](FlowUser user) {
        FlowFacts facts = flow(Protocol::Tcp, 1);
        facts.user = user;
        return rules->classify(facts).app == "x";
    };
    EXPECT_TRUE(matches({34, "backup"}));
    EXPECT_TRUE(matches({7, ""}));
    EXPECT_TRUE(matches({8, "somebody"}));
    EXPECT_FALSE(matches({34, ""}));
    EXPECT_FALSE(matches({0, "root"}));
}

TEST(Ruleset, WaitsForTheProcessOnlyWhenItCanMatter) {
    const auto rules = make(
        "[[rule]]\napp = \"dns\"\nmatch = { dport = 53 }\nclass = \"lt-ld\"\n"
        "[[rule]]\napp = \"ssh\"\nmatch = { process = \"ssh\", proto = \"tcp\" }\nclass = "
        "\"lt-ld\"\n"
        "[[rule]]\napp = \"dns\"\nmatch = { user = 53, dport = 54 }\nclass = \"lt-ld\"\n"
        "[[rule]]\napp = \"dns\"\nmatch = { proto = \"udp\", dport = 54 }\nclass = \"lt-ld\"\n");
    EXPECT_FALSE(rules->needs_process(flow(Protocol::Tcp, 53)));  // decided before
    EXPECT_TRUE(rules->needs_process(flow(Protocol::Tcp, 80)));
    EXPECT_FALSE(rules->needs_process(owned(flow(Protocol::Tcp, 80), "curl")));
    EXPECT_FALSE(rules->needs_process(flow(Protocol::Udp, 80)));
    EXPECT_FALSE(rules->needs_process(flow(Protocol::Udp, 54)));  // same result either way
    EXPECT_FALSE(rules->needs_process(flow(Protocol::Icmp, 0)));
}

TEST(Ruleset, CarriesEverythingTheRuleSays) {
    const auto rules = make(
        "[[rule]]\napp = \"x\"\nmatch = {}\nclass = \"ht-ld\"\nmin_bits_per_s = \"128kbit\"\n"
        "max_delay_ms = 200\ncompression = false\nsnapt = [\"b\", \"a\"]\nmode = \"redundant\"\n");
    const Classification result = rules->classify(flow(Protocol::Tcp, 1));
    EXPECT_EQ(result.traffic_class, TrafficClass::HtLd);
    EXPECT_EQ(result.min_bits_per_s, 128'000U);
    EXPECT_EQ(result.max_delay_ms, 200U);
    EXPECT_FALSE(result.may_compress);
    ASSERT_EQ(result.snapts.size(), 2U);
    EXPECT_EQ(result.snapts[0], "b");
    EXPECT_EQ(result.mode, PathMode::Redundant);
    EXPECT_EQ(result.action, Action::Serve);
}

TEST(Ruleset, GivesTheKernelWhatItCanDecide) {
    const auto rules =
        make("[[rule]]\napp = \"a\"\nmatch = { process = \"ssh\" }\nclass = \"lt-ld\"\n"
             "[[rule]]\napp = \"b\"\nmatch = { dport = 22 }\nclass = \"lt-ld\"\n"
             "[[rule]]\napp = \"c\"\nmatch = { dst = \"198.51.100.0/24\" }\naction = \"bypass\"\n"
             "[[rule]]\napp = \"d\"\nmatch = { dport = 80 }\nclass = \"ht-hd\"\n");
    const auto steps = rules->bypass_steps();
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_FALSE(steps[0].is_bypassed);
    EXPECT_EQ(steps[0].match->ports[0].first, 22);
    EXPECT_TRUE(steps[1].is_bypassed);
    EXPECT_TRUE(make("")->bypass_steps().empty());
    EXPECT_EQ(rules->classify(flow(Protocol::Tcp, 9)).action, Action::Bypass);
}

// As an exception without its DSCP it would take everything that a later rule bypasses.
TEST(Ruleset, GivesTheKernelNoExceptionThatIsWiderThanTheRule) {
    const auto rules =
        make("[[rule]]\napp = \"a\"\nmatch = { proto = \"udp\", dscp = \"ef\" }\nclass = "
             "\"lt-ld\"\n"
             "[[rule]]\napp = \"b\"\nmatch = { proto = \"udp\" }\naction = \"bypass\"\n");
    const auto steps = rules->bypass_steps();
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_TRUE(steps[0].is_bypassed);
    EXPECT_EQ(steps[0].rule_index, 1U);
}

TEST(Ruleset, CountsTheCombinationsOfARule) {
    const auto count = [](const std::string& match) {
        return make("[[rule]]\napp = \"x\"\nmatch = { " + match + " }\n")
            ->rules()[0]
            .match.routing_rules();
    };
    EXPECT_EQ(count(""), 1U);
    EXPECT_EQ(count("proto = [\"tcp\", \"icmp\"]"), 2U);
    EXPECT_EQ(count("dport = [1, \"3-9\", 20]"), 6U);
    EXPECT_EQ(count("proto = \"tcp\", dport = [1, 3], user = [0, \"nobody\"], "
                    "dst = [\"192.0.2.0/24\", \"2001:db8::/32\", \"203.0.113.1/32\"]"),
              12U);
}

TEST(Ruleset, MergesOverlappingAndAdjacentSets) {
    const auto rules = make("[[rule]]\napp = \"x\"\nmatch = { dport = [\"10-20\", \"15-30\", 12], "
                            "dst = [\"0.0.0.0/0\", \"198.51.100.0/24\", \"::/0\"] }\n");
    for (const uint16_t port : std::initializer_list<uint16_t>{10, 12, 20, 25, 30}) {
        EXPECT_TRUE(rules->classify(flow(Protocol::Tcp, port)).rule_index) << port;
        EXPECT_TRUE(rules->classify(flow(Protocol::Tcp, port, "2001:db8::1")).rule_index) << port;
    }
    EXPECT_FALSE(rules->classify(flow(Protocol::Tcp, 31)).rule_index);
    EXPECT_FALSE(rules->classify(flow(Protocol::Tcp, 9)).rule_index);
}

}  // namespace
}  // namespace continuo::classifier
