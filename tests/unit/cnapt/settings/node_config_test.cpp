#include "cnapt/settings/node_config.hpp"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace continuo::cnapt::settings {

using uplinks::OnLink;

namespace {

constexpr std::string_view kRest = "[identity]\nuser = \"u\"\nkey_id = \"k1\"\nkey_file = \"/k\"\n"
                                   "[[snapt]]\nname = \"s\"\naddresses = [\"192.0.2.1\"]\n";

std::string joined(const std::vector<config::Diagnostic>& diagnostics) {
    std::string text;
    for (const config::Diagnostic& diagnostic : diagnostics) {
        text += (text.empty() ? "" : "\n") + to_text(diagnostic);
    }
    return text;
}

std::string sample(const std::string& name) {
    std::ifstream file(CONTINUO_SOURCE_DIR "/tests/unit/config/data/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

NodeConfig good(const std::string& text) {
    const ParsedNodeConfig parsed = parse_node_config(text, "cnapt.toml");
    EXPECT_TRUE(parsed.config) << joined(parsed.diagnostics);
    EXPECT_TRUE(parsed.diagnostics.empty());
    return parsed.config.value_or(NodeConfig{});
}

TEST(NodeConfig, ReadsTheSample) {
    const NodeConfig config = good(sample("cnapt.toml"));
    EXPECT_EQ(config.node, "laptop");
    EXPECT_EQ(config.realm, "continuo");
    EXPECT_EQ(config.protection, Protection::Encrypt);
    EXPECT_EQ(config.identity.psk_identity(), "alice/k1");
    ASSERT_TRUE(config.identity.key);
    EXPECT_EQ(config.identity.key->at(0), 0xDE);
    EXPECT_EQ(config.identity.key->at(31), 0x1B);
    ASSERT_EQ(config.snapts.size(), 1U);
    EXPECT_EQ(config.snapts[0].name, "zrh-1");
    EXPECT_EQ(config.snapts[0].addresses[1].endpoint(),
              base::Endpoint::parse("[2001:db8:9::9]:9347"));
    EXPECT_EQ(config.capture.fwmark, 0x9347U);
    EXPECT_EQ(config.capture.exclude.size(), 1U);
    EXPECT_EQ(config.uplinks.deny, (std::vector<std::string>{"docker*", "virbr*"}));
    EXPECT_EQ(config.classes, config::default_class_knobs());
    EXPECT_EQ(config.limits, NodeLimits());
}

TEST(NodeConfig, NeedsOnlyIdentityAndSnapt) {
    NodeConfig expected;
    expected.identity.user = "u";
    expected.identity.key_id = "k1";
    expected.identity.key_file = "/k";
    expected.snapts = {{"s", {{"192.0.2.1", 9347}}}};
    EXPECT_EQ(good(std::string(kRest)), expected);
}

TEST(NodeConfig, TakesShortTagsWhenOnlyAuthenticating) {
    const NodeConfig config =
        good("protection = \"authenticate\"\ntag_bytes = 10\n" + std::string(kRest));
    EXPECT_EQ(config.tag_bytes, 10);
}

NodeConfig enrolled() {
    NodeConfig config;
    config.realm = "example.net";
    config.identity = {"alice", "k1",
                       config::parse_key("3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs="), ""};
    config.snapts = {
        {"zrh-1", {{"203.0.113.9", 9347}, {"snapt.example.org", 1}}, config::Key{3, 4}},
        {"ber-1", {{"2001:db8::1", 9347}}}};
    return config;
}

TEST(NodeConfig, GoesRoundThroughItsText) {
    EXPECT_EQ(good(render_node_config(enrolled())), enrolled());
    NodeConfig other = enrolled();
    other.node = "laptop";
    other.protection = Protection::Authenticate;
    other.tag_bytes = 10;
    other.identity.key.reset();
    other.identity.key_file = "/etc/\"k\"";
    other.capture.ipv6 = false;
    other.capture.exclude = {*base::IpPrefix::parse("2001:db8::/32")};
    other.capture.near = {*base::IpPrefix::parse("203.0.113.0/24")};
    other.capture.on_link = {{"wlan*", OnLink::Near}, {"*", OnLink::Refuse}};
    other.capture.gateway_interfaces = {"br-lan", "docker*"};
    other.uplinks.deny = {};
    other.dns.servers = {*base::IpAddress::parse("198.51.100.53")};
    other.classes[2].fill_percent = 70;
    other.limits.flows = 5;
    EXPECT_EQ(good(render_node_config(other)), other);
}

TEST(NodeConfig, LooksLikeTheSample) {
    const std::string text = render_node_config(enrolled());
    EXPECT_EQ(text.substr(0, text.find('\n')),
              "# cnapt.toml, as printed by `snapt user add alice`. Secret: it holds the key.");
    for (const std::string_view line :
         {"\nkey = \"3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=\" # base64, 32 bytes; or "
          "key_file\n",
          "\n[class.ht-hd]\nhold_ms = 20\n", "\nfwmark = 0x1034",
          "\naddresses = [\"203.0.113.9:9347\", \"snapt.example.org:1\"] # UDP and TCP"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
    }
}

TEST(NodeConfig, TellsReloadFromRestart) {
    const NodeConfig running = enrolled();
    NodeConfig fresh = running;
    EXPECT_TRUE(changes_between(running, fresh).applied.empty());
    EXPECT_TRUE(changes_between(running, fresh).needs_restart.empty());
    fresh.classes[0].hold = base::milliseconds(1);
    fresh.limits.flows = 7;
    fresh.policy = "/p";
    fresh.capture.fwmark = 7;
    fresh.dns.servers = {*base::IpAddress::parse("198.51.100.53")};
    fresh.identity.user = "bob";
    fresh.snapts.pop_back();
    const ConfigChanges changes = changes_between(running, fresh);
    EXPECT_EQ(changes.applied, (std::vector<std::string>{"class.lt-ld.hold_ms", "policy"}));
    EXPECT_EQ(changes.needs_restart,
              (std::vector<std::string>{"identity.user", "snapt", "capture.fwmark", "limits.flows",
                                        "dns.servers"}));
}

TEST(NodeConfig, TakesAFateOfPublicAddressesInTheLanForAllInterfacesOrByGlob) {
    const auto text = [](const std::string& value) {
        return std::string(kRest) + "[capture]\non_link = " + value + "\n";
    };
    using Rules = std::vector<uplinks::OnLinkRule>;
    EXPECT_EQ(good(std::string(kRest)).capture.on_link, Rules{});
    EXPECT_EQ(good(text("\"tunnel\"")).capture.on_link, (Rules{{"*", OnLink::Tunnel}}));
    EXPECT_EQ(good(text(R"({ "wlan*" = "near", eth0 = "refuse" })")).capture.on_link,
              (Rules{{"wlan*", OnLink::Near}, {"eth0", OnLink::Refuse}}));
    for (const char* bad : {"\"plain\"", "true", R"(["near"])", R"({ eth0 = "plain" })",
                            R"({ eth0 = 1 })", R"({ "a b" = "near" })"}) {
        EXPECT_FALSE(parse_node_config(text(bad), "a").config) << bad;
    }
    NodeConfig other = enrolled();
    other.capture.on_link = {{"*", OnLink::Near}};
    EXPECT_EQ(changes_between(enrolled(), other).needs_restart,
              std::vector<std::string>{"capture.on_link"});
}

TEST(NodeConfig, TakesLanSidesByNameAndByHowNamesBegin) {
    const auto text = [](const std::string& list) {
        return std::string(kRest) + "[capture]\ngateway_interfaces = [" + list + "]\n";
    };
    EXPECT_EQ(good(text(R"("br-lan", "docker*")")).capture.gateway_interfaces,
              (std::vector<std::string>{"br-lan", "docker*"}));
    for (const char* bad : {"\"*\"", "\"*lan\"", "\"br-?\"", "\"br+lan\"", "\"\""}) {
        EXPECT_FALSE(parse_node_config(text(bad), "a").config) << bad;
    }
    EXPECT_EQ(joined(parse_node_config(text("\"cnapt*\""), "a").diagnostics),
              "a:9:23: error: \"gateway_interfaces\" holds \"cnapt*\", the device of the tunnel; "
              "expected interfaces of the LAN");
}

TEST(NodeConfig, AllowsUplinksByGlob) {
    const UplinkConfig uplinks;
    EXPECT_TRUE(uplinks.allows("wlan0"));
    EXPECT_FALSE(uplinks.allows("docker0"));
    EXPECT_FALSE((UplinkConfig{{"eth*"}, {}}.allows("wlan0")));
    EXPECT_FALSE((UplinkConfig{{}, {}}.allows("eth0")));
}

TEST(UserKey, IsThirtyTwoBytesOfBase64) {
    EXPECT_TRUE(config::parse_key(" 3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=\n"));
    EXPECT_FALSE(config::parse_key("3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGg=="));
    EXPECT_FALSE(config::parse_key(""));
    EXPECT_FALSE(config::parse_key(" \n"));
}

TEST(Check, TellsThePolicyFromTheConfiguration) {
    EXPECT_TRUE(check_node_text(sample("cnapt.toml"), "a").empty());
    EXPECT_TRUE(check_node_text(sample("policy.toml"), "a").empty());
    EXPECT_EQ(joined(check_node_text("[default]\ntcp = 1\n", "a")),
              "a:2:7: error: \"tcp\" is 1; expected \"lt-ld\", \"ht-ld\", \"lt-hd\" or \"ht-hd\"");
    EXPECT_EQ(check_node_text("", "a").size(), 2U);
    EXPECT_EQ(check_node_text("a =", "a").size(), 1U);
}

}  // namespace
}  // namespace continuo::cnapt::settings
