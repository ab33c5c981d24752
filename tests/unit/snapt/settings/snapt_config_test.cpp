#include "snapt/ledger/ledger_options.hpp"
#include "snapt/settings/snapt_config.hpp"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace continuo::snapt::settings {
namespace {

constexpr std::string_view kBeginning = "name = \"s\"\npublic = \"192.0.2.1:9347\"\n";

std::string joined(const std::vector<config::Diagnostic>& diagnostics) {
    std::string text;
    for (const config::Diagnostic& diagnostic : diagnostics) {
        text += (text.empty() ? "" : "\n") + to_text(diagnostic);
    }
    return text;
}

SnaptConfig good(const std::string& text) {
    const ParsedSnaptConfig parsed = parse_snapt_config(text, "snapt.toml");
    EXPECT_TRUE(parsed.config) << joined(parsed.diagnostics);
    EXPECT_TRUE(parsed.diagnostics.empty());
    return parsed.config.value_or(SnaptConfig{});
}

TEST(SnaptConfig, ReadsTheSample) {
    std::ifstream file(CONTINUO_SOURCE_DIR "/tests/unit/config/data/snapt.toml");
    std::ostringstream text;
    text << file.rdbuf();
    const SnaptConfig config = good(text.str());
    SnaptConfig expected = default_snapt_config();
    expected.name = "zrh-1";
    expected.public_addresses = {{"203.0.113.9", 9347}};
    EXPECT_EQ(config, expected);
    EXPECT_EQ(config.listen[1], base::Endpoint::parse("[::]:9347"));
    EXPECT_EQ(config.inner.ipv4, base::IpPrefix::parse("100.64.0.0/16"));
    EXPECT_EQ(config.session.rekey_datagrams, 4'294'967'296U);
}

TEST(SnaptConfig, AVersionIsSwitchedOffAsInTheNodesFileOrByAnEmptyPrefix) {
    const std::string inner = std::string(kBeginning) + "[inner]\n";
    for (const std::string off : {"false", "\"\""}) {
        const SnaptConfig no_ipv6 = good(inner + "ipv6 = " + off + "\n");
        EXPECT_FALSE(no_ipv6.inner.ipv6) << off;
        EXPECT_EQ(no_ipv6.inner.ipv4, default_snapt_config().inner.ipv4) << off;
        EXPECT_FALSE(good(inner + "ipv4 = " + off + "\n").inner.ipv4) << off;
    }
    EXPECT_EQ(good(inner + "ipv4 = true\nipv6 = true\n").inner, default_snapt_config().inner);
}

// Keys without effect cause a warning: tests/vectors/bad_config.
TEST(SnaptConfig, TakesEveryAccountingKey) {
    const ParsedSnaptConfig parsed = parse_snapt_config(
        std::string(kBeginning) + "[accounting]\nenabled = true\ninterval_s = 900\n"
                                  "checkpoint_s = 1\ngranularity = \"aggregate\"\n"
                                  "destinations = \"full\"\nretention_days = 30\n"
                                  "on_ledger_failure = \"refuse\"\nlive_slots = 4096\n"
                                  "user_records = 0\nmin_free_bytes = 1\nprice_mult = 1.25\n",
        "snapt.toml");
    ASSERT_TRUE(parsed.config) << joined(parsed.diagnostics);
    EXPECT_EQ(parsed.config->accounting,
              (AccountingConfig{900, 1, Granularity::Aggregate, Destinations::Full, 30, 4096, 0, 1,
                                1250}));
}

// Options with which the ledger is started.
std::string used_of(const AccountingConfig& accounting) {
    SnaptConfig config = default_snapt_config();
    config.accounting = accounting;
    const ledger::LedgerOptions options = ledger::ledger_options(config, "/s");
    std::ostringstream text;
    text << options.interval_s << ' ' << options.checkpoint_s << ' ' << options.live_slots << ' '
         << static_cast<int>(options.destinations) << ' ' << options.user_records << ' '
         << options.is_aggregate << ' ' << options.min_free_bytes << ' ' << options.price_permille
         << ' ' << accounting.retention_days;
    return text.str();
}

// The keys that the section knows, by its own words.
std::set<std::string> accounting_keys() {
    const auto parsed = parse_snapt_config(
        std::string(kBeginning) + "[accounting]\nnothing_like_it = 1\n", "snapt.toml");
    const std::string text = joined(parsed.diagnostics);
    const std::string_view before = "expected one of ";
    std::set<std::string> keys;
    std::istringstream list(text.substr(text.find(before) + before.size()));
    for (std::string key; std::getline(list >> std::ws, key, ',');) {
        keys.insert(key);
    }
    return keys;
}

TEST(SnaptConfig, EveryAccountingKeyActsOrIsRefused) {
    const std::map<std::string, std::string> others = {
        {"enabled", "enabled = false"},
        {"interval_s", "interval_s = 30"},
        {"checkpoint_s", "checkpoint_s = 6"},
        {"granularity", "granularity = \"aggregate\""},
        {"destinations", "destinations = \"port\""},
        {"retention_days", "retention_days = 30"},
        {"live_slots", "live_slots = 2048"},
        {"user_records", "user_records = 7"},
        {"min_free_bytes", "min_free_bytes = 1"},
        {"on_ledger_failure", "on_ledger_failure = \"forward\""},
        {"price_mult", "price_mult = 2"},
        {"sink", "[accounting.sink.file]"}};
    const std::set<std::string> refused = {"enabled", "on_ledger_failure", "sink"};
    const std::set<std::string> keys = accounting_keys();
    EXPECT_EQ(keys.size(), others.size());
    for (const std::string& key : keys) {
        ASSERT_TRUE(others.contains(key)) << key << " is new: does it act?";
        const auto parsed = parse_snapt_config(
            std::string(kBeginning) + "[accounting]\n" + others.at(key) + "\n", "snapt.toml");
        EXPECT_EQ(parsed.config.has_value(), !refused.contains(key)) << key;
        if (!parsed.config) {
            EXPECT_NE(joined(parsed.diagnostics).find("error: "), std::string::npos) << key;
            continue;
        }
        EXPECT_NE(used_of(parsed.config->accounting), used_of({})) << key;
        const auto changes = changes_between(good(std::string(kBeginning)), *parsed.config);
        EXPECT_EQ(changes.needs_restart, std::vector{"accounting." + key});
    }
}

TEST(SnaptConfig, OfKeysWithoutEffectWhatHappensAnywayIsNoWarning) {
    good(std::string(kBeginning) +
         "workers = 1\n"
         "[accounting]\nenabled = true\non_ledger_failure = \"refuse\"\n");
}

TEST(SnaptConfig, RestListensOnThisHostAlone) {
    const std::string rest = std::string(kBeginning) + "[rest]\nlisten = ";
    EXPECT_EQ(good(rest + R"(["127.0.0.1:9348", "[::1]:9348", "/run/x.sock"])").rest.listen,
              (std::vector<std::string>{"127.0.0.1:9348", "[::1]:9348", "/run/x.sock"}));
    EXPECT_TRUE(good(rest + "[]").rest.listen.empty());
    for (const char* text : {R"(["0.0.0.0:9348"])", R"(["192.0.2.1:9348"])", R"(["127.0.0.1"])",
                             R"(["127.0.0.1:0"])", R"(["run/x.sock"])", R"([""])"}) {
        EXPECT_FALSE(parse_snapt_config(rest + text, "snapt.toml").config) << text;
    }
}

TEST(SnaptConfig, SinksAreRefused) {
    const ParsedSnaptConfig parsed = parse_snapt_config(
        std::string(kBeginning) + "[accounting.sink.postgres]\nrequired = true\n", "snapt.toml");
    EXPECT_FALSE(parsed.config);
    EXPECT_EQ(joined(parsed.diagnostics),
              "snapt.toml:3:1: error: [accounting.sink.postgres] is not supported in this "
              "version; expected no sink; usage stays in the ledger");
}

TEST(SnaptConfig, TakesServicesOfItsHostForNodes) {
    const SnaptConfig config =
        good(std::string(kBeginning) + "[relay]\nallow_self = [\"tcp/22\", \"ping\"]\n");
    ASSERT_EQ(config.relay.allow_self.size(), 2U);
    EXPECT_EQ(config.relay.allow_self[0].to_string(), "tcp/22");
    std::string many;
    for (size_t port = 1; port <= kMaxSelfServices + 1; ++port) {
        many += "\"udp/" + std::to_string(port) + "\",";
    }
    const ParsedSnaptConfig parsed = parse_snapt_config(
        std::string(kBeginning) + "[relay]\nallow_self = [" + many + "]\n", "snapt.toml");
    EXPECT_EQ(joined(parsed.diagnostics),
              "snapt.toml:4:14: error: 65 services; expected 64 at most");
}

TEST(SnaptConfig, GoesRoundThroughTheTextOfInit) {
    const std::vector<config::HostPort> addresses = {{"192.0.2.1", 9400}, {"a.example", 9400}};
    const SnaptConfig config =
        good(render_snapt_config("zrh-1", addresses, config::Key{1, 2}, "example.net"));
    SnaptConfig expected = default_snapt_config();
    expected.name = "zrh-1";
    expected.realm = "example.net";
    expected.identity_key = config::Key{1, 2};
    expected.public_addresses = addresses;
    expected.listen = {*base::Endpoint::parse("0.0.0.0:9400"), *base::Endpoint::parse("[::]:9400")};
    EXPECT_EQ(config, expected);
}

TEST(SnaptConfig, TellsReloadFromRestart) {
    SnaptConfig running = default_snapt_config();
    SnaptConfig fresh = running;
    EXPECT_TRUE(changes_between(running, fresh).applied.empty());
    EXPECT_TRUE(changes_between(running, fresh).needs_restart.empty());
    fresh.workers = 2;
    fresh.inner.mtu = 1400;
    fresh.relay.allow_self = {*SelfService::parse("tcp/22")};
    fresh.accounting.interval_s = 30;
    fresh.rest.listen = {"127.0.0.1:9348"};
    fresh.limits.user_flows = 1;
    fresh.classes[1].dscp = 0;
    const ConfigChanges changes = changes_between(running, fresh);
    EXPECT_EQ(changes.applied, (std::vector<std::string>{"class.ht-ld.dscp", "limits.user_flows"}));
    EXPECT_EQ(changes.needs_restart,
              (std::vector<std::string>{"workers", "inner.mtu", "relay.allow_self",
                                        "accounting.interval_s", "rest.listen"}));
}

}  // namespace
}  // namespace continuo::snapt::settings
