#include "classifier/ruleset.hpp"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace continuo::classifier {
namespace {

using base::TrafficClass;
using packet::Protocol;

struct Expectation {
    std::string_view process;  // empty: unknown
    std::string_view parent;
    Protocol protocol;
    uint16_t port;
    std::string_view app;
    TrafficClass traffic_class;
};

constexpr auto kTcp = Protocol::Tcp;
constexpr auto kUdp = Protocol::Udp;
constexpr auto kLtLd = TrafficClass::LtLd;
constexpr auto kHtLd = TrafficClass::HtLd;
constexpr auto kLtHd = TrafficClass::LtHd;
constexpr auto kHtHd = TrafficClass::HtHd;

const Expectation kExpectations[] = {
    {"ssh", "bash", kTcp, 22, "ssh", kLtLd},
    {"ssh", "", kTcp, 2222, "ssh", kLtLd},
    {"ssh", "scp", kTcp, 22, "scp", kHtHd},
    {"ssh", "rsync", kTcp, 22, "rsync", kHtHd},
    {"ssh", "git", kTcp, 22, "git", kHtHd},
    {"", "", kTcp, 22, "ssh", kLtLd},
    {"mosh-client", "", kUdp, 60001, "mosh", kLtLd},
    {"dig", "", kUdp, 53, "dns", kLtLd},
    {"dig", "", kTcp, 53, "dns", kLtLd},
    {"firefox", "", kUdp, 53, "dns", kLtLd},
    {"curl", "", kTcp, 80, "web", kHtHd},
    {"curl", "", kTcp, 8123, "web", kHtHd},
    {"curl", "", kUdp, 443, "web", kHtHd},
    {"wget", "", kTcp, 443, "web", kHtHd},
    {"firefox-esr", "", kTcp, 443, "web", kHtHd},
    {"chrome", "", kUdp, 443, "web", kHtHd},
    {"chrome", "", kUdp, 50000, "webrtc", kHtLd},
    {"chrome", "", kUdp, 3478, "webrtc", kHtLd},
    {"chrome", "", kUdp, 19305, "hangouts", kHtLd},
    {"zoom", "", kUdp, 8801, "zoom", kHtLd},
    {"teams", "", kUdp, 50010, "teams", kHtLd},
    {"iperf3", "", kTcp, 5201, "iperf", kHtHd},
    {"iperf3", "", kUdp, 5201, "iperf", kHtLd},
    {"iperf3", "", kTcp, 7777, "iperf", kHtHd},
    {"ping", "", Protocol::Icmp, 0, "icmp", kLtLd},
    {"", "", Protocol::IcmpV6, 0, "icmp", kLtLd},
    {"traceroute", "", kUdp, 33440, "traceroute", kLtLd},
    {"teamviewerd", "", kTcp, 5938, "teamviewer", kHtLd},
    {"xtigervncviewe", "", kTcp, 5901, "remote-desktop", kLtLd},
    {"", "", kTcp, 3389, "remote-desktop", kLtLd},
    {"thunderbird", "", kTcp, 993, "mail", kLtHd},
    {"", "", kTcp, 587, "mail", kLtHd},
    {"mosquitto_sub", "", kTcp, 1883, "mqtt", kLtHd},
    {"", "", kTcp, 8883, "mqtt", kLtHd},
    {"http", "", kTcp, 80, "packages", kHtHd},
    {"apt-get", "", kTcp, 80, "packages", kHtHd},
    {"dnf", "", kTcp, 443, "packages", kHtHd},
    {"pip", "", kTcp, 443, "packages", kHtHd},
    {"npm install", "", kTcp, 443, "packages", kHtHd},
    {"git-remote-http", "", kTcp, 443, "git", kHtHd},
    {"rsync", "", kTcp, 873, "rsync", kHtHd},
    {"syncthing", "", kTcp, 22000, "syncthing", kHtHd},
    {"chronyd", "", kUdp, 123, "ntp", kLtLd},
    {"lftp", "", kTcp, 21, "ftp", kHtHd},
    {"conky", "", kTcp, 443, "widget", kLtHd},
    {"", "", kTcp, 443, "web", kHtHd},
    {"", "", kUdp, 443, "quic", kHtHd},
    {"nc", "", kTcp, 7000, "", kLtHd},
    {"nc", "", kUdp, 7000, "", kHtLd},
};

TEST(BuiltInPolicy, KnowsTableOneAndItsEquivalentsOfToday) {
    const auto rules = built_in_ruleset();
    for (const Expectation& row : kExpectations) {
        for (const std::string_view remote : {"198.51.100.2", "2001:db8::2"}) {
            FlowFacts facts;
            facts.tuple.remote = base::IpAddress::parse(remote).value();
            facts.tuple.protocol = row.protocol;
            facts.tuple.remote_port = row.port;
            if (!row.process.empty()) {
                facts.process = row.process;
                facts.user = FlowUser{1000, "alice"};
            }
            if (!row.parent.empty()) {
                facts.parent = row.parent;
            }
            const Classification result = rules->classify(facts);
            EXPECT_EQ(result.app, row.app) << row.process << ' ' << row.port;
            EXPECT_EQ(result.traffic_class, row.traffic_class) << row.process << ' ' << row.port;
        }
    }
}

TEST(BuiltInPolicy, HasTheNeedsOfTableOne) {
    const auto rules = built_in_ruleset();
    FlowFacts facts;
    facts.tuple.remote_port = 22;
    facts.process = "ssh";
    const Classification ssh = rules->classify(facts);
    EXPECT_EQ(ssh.min_bits_per_s, 10'000U);
    EXPECT_EQ(ssh.max_delay_ms, 200U);
    facts.process = "curl";
    EXPECT_EQ(rules->classify(facts).max_delay_ms, 5000U);
    EXPECT_TRUE(rules->promotion().is_enabled);
    EXPECT_EQ(rules->promotion().above_bits_per_s, 64'000U);
    EXPECT_EQ(rules->promotion().sustained, base::seconds(2));
    EXPECT_EQ(rules->admission().when_unmet, WhenUnmet::Serve);
}

TEST(BuiltInPolicy, IsTheShippedFile) {
    std::ifstream file(CONTINUO_SOURCE_DIR "/packaging/policy.toml");
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), built_in_policy_text());
}

}  // namespace
}  // namespace continuo::classifier
