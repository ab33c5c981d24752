#include "snapt/snapt_config.hpp"

#include "common/config/base64.hpp"
#include "common/config/prefixes.hpp"
#include "common/config/section.hpp"
#include "common/io/event_loop.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace continuo::snapt {
namespace {

using base::seconds;
using config::Choice;
using config::quote;
using config::Section;

constexpr uint32_t kMaxWorkers = 64;
constexpr uint32_t kMaxCount = 16'777'216;
constexpr uint64_t kMaxBitsPerS = 1'000'000'000'000;
constexpr uint64_t kMinQueueBytes = 65'536;
constexpr uint64_t kMaxQueueBytes = 1ULL << 30U;
constexpr uint64_t kMaxFreeBytes = 1ULL << 50U;
constexpr double kMaxPriceMult = 1000;
constexpr double kPermille = 1000;
constexpr uint16_t kMinMtu = 1280;  // RFC 8200 section 5
constexpr uint16_t kMaxMtu = 9000;
constexpr uint8_t kMinLeaseBits = 2;   // network, the SNAPT, one lease, broadcast
constexpr uint8_t kMaxLeaseBits = 64;  // more cannot be counted
constexpr uint32_t kIntervalDivisor = 900;
constexpr std::string_view kDefaultInnerIpv4 = "100.64.0.0/16";
constexpr std::string_view kDefaultInnerIpv6 = "fd93:47::/64";
constexpr std::array<Choice<Granularity>, 2> kGranularities = {
    {{"flow", Granularity::Flow}, {"aggregate", Granularity::Aggregate}}};
constexpr std::array<Choice<Destinations>, 3> kDestinations = {
    {{"none", Destinations::None}, {"port", Destinations::Port}, {"full", Destinations::Full}}};

std::optional<base::Endpoint> parse_listen(std::string_view text) {
    const auto endpoint = base::Endpoint::parse(text);
    return endpoint && endpoint->port != 0 ? endpoint : std::nullopt;
}

std::optional<base::IpAddress> parse_source(std::string_view text) {
    const auto address = base::IpAddress::parse(text);
    return address && config::is_unicast(*address) ? address : std::nullopt;
}

void read_top(Section& root, SnaptConfig& config) {
    config.name = root.required_text("name", "the SNAPT's name", config::check_name);
    config.realm = root.text("realm", config.realm, config::check_name);
    config.identity_key = config::read_key(root, "identity_key");
    if (root.has("listen")) {
        config.listen = root.list<base::Endpoint>("listen", parse_listen, config::kEndpointForm);
        if (root.items("listen").empty()) {
            root.error("listen", "\"listen\" is an empty list", "at least one address and port");
        }
    }
    (void)root.find("listen");
    config.public_addresses = config::read_hosts(root, "public");
    if (!root.has("public")) {
        root.missing("public", "the addresses that nodes reach, such as \"203.0.113.9:9347\"");
    }
    if (root.has("protection")) {
        config.protection = {false, false};
        for (const config::Node* item : root.items("protection")) {
            if (item->text == "encrypt") {
                config.protection.encrypt = true;
            } else if (item->text == "authenticate") {
                config.protection.authenticate = true;
            } else {
                root.reject_item("protection", *item, R"("encrypt" or "authenticate")");
            }
        }
        if (root.items("protection").empty()) {
            root.error("protection", "\"protection\" is an empty list",
                       R"("encrypt", "authenticate" or both)");
        }
    }
    (void)root.find("protection");
    config.workers = root.integer<uint32_t>("workers", config.workers, 1, kMaxWorkers);
    config.spin_us = root.integer<uint32_t>("spin_us", config.spin_us, 0, io::kMaxSpinUs);
}

std::vector<config::SnaptEntry> read_snapts(Section& root, const std::string& own_name) {
    auto snapts = config::read_snapt_entries(
        root, [&own_name](Section& section, const config::SnaptEntry& entry) {
            if (!entry.name.empty() && entry.name == own_name) {
                section.error("name", "[[snapt]] named " + quote(entry.name) + ", as this SNAPT",
                              "another of the realm; of this one \"public\" is told");
            }
        });
    if (snapts.size() > kMaxOtherSnapts) {
        root.error("snapt", std::to_string(snapts.size()) + " [[snapt]]",
                   std::to_string(kMaxOtherSnapts) + " at most");
    }
    return snapts;
}

// False, as in cnapt.toml, or an empty string.
bool is_no_prefix(const config::Node& node) {
    return (node.kind == config::NodeKind::Boolean && !node.boolean) ||
           (node.kind == config::NodeKind::Text && node.text.empty());
}

// True: the default.
std::optional<base::IpPrefix> read_lease_prefix(Section& section,
                                                std::string_view key,
                                                bool is_v4,
                                                std::optional<base::IpPrefix> fallback) {
    const config::Node* node = section.find(key);
    if (node == nullptr) {
        return fallback;
    }
    if (is_no_prefix(*node)) {
        return std::nullopt;
    }
    if (node->kind == config::NodeKind::Boolean) {
        return fallback;
    }
    const std::string& text = node->text;
    const auto prefix = base::IpPrefix::parse(text);
    const unsigned bits = is_v4 ? 32 : 128;
    if (!prefix || prefix->address.is_v4() != is_v4 || bits - prefix->length < kMinLeaseBits ||
        bits - prefix->length > kMaxLeaseBits || prefix->length == 0) {
        section.reject(key, *node,
                       is_v4 ? "an IPv4 prefix of length 1 to 30, or false"
                             : "an IPv6 prefix of length 64 to 126, or false");
        return std::nullopt;
    }
    const base::IpAddress& address = prefix->address;
    if (!config::is_unicast(address) || address.is_loopback() || address.is_link_local()) {
        section.error(key, quote(key) + " is " + quote(text) + ", which nodes cannot have",
                      "a prefix of unicast addresses, such as " +
                          quote(is_v4 ? kDefaultInnerIpv4 : kDefaultInnerIpv6));
    }
    return prefix;
}

void read_inner(Section& root, InnerConfig& inner) {
    Section section = root.child("inner");
    inner.device = section.text("device", inner.device, config::check_interface);
    inner.ipv4 = read_lease_prefix(section, "ipv4", true, inner.ipv4);
    inner.ipv6 = read_lease_prefix(section, "ipv6", false, inner.ipv6);
    const auto is_off = [&section](std::string_view key) {
        const config::Node* node = section.find(key);
        return node != nullptr && is_no_prefix(*node);
    };
    if (is_off("ipv4") && is_off("ipv6")) {
        section.error("ipv6", R"("ipv4" and "ipv6" are both off)", "at least one prefix");
    }
    inner.mtu = section.integer<uint16_t>("mtu", inner.mtu, kMinMtu, kMaxMtu);
    inner.lease =
        section.duration("lease_s", inner.lease, seconds(1), seconds(60), seconds(31'536'000));
    section.finish();
}

void check_relay(Section& section, const RelayConfig& relay, const std::string& inner_device) {
    for (const config::Node* item : section.items("egress")) {
        if (item->text == inner_device) {
            section.error_at(*item,
                             "\"egress\" holds " + quote(inner_device) + ", the inner device",
                             "interfaces towards the Internet");
        }
    }
    for (const config::Node* item : section.items("deny")) {
        const auto prefix = base::IpPrefix::parse(item->text);
        if (prefix &&
            std::find(relay.allow.begin(), relay.allow.end(), *prefix) != relay.allow.end()) {
            section.error_at(*item, "\"deny\" holds " + item->describe() + " and \"allow\" too",
                             "it in one of them");
        }
    }
}

void read_relay(Section& root, RelayConfig& relay, const std::string& inner_device) {
    Section section = root.child("relay");
    relay.egress = section.texts("egress", config::check_interface);
    relay.source_pool =
        section.list<base::IpAddress>("source_pool", parse_source, "a unicast IP address");
    relay.source_ports = section
                             .value<config::PortRange>("source_ports", config::PortRange::parse,
                                                       "a range of ports such as \"1024-65535\"")
                             .value_or(relay.source_ports);
    relay.allow = config::read_prefixes(section, "allow");
    relay.deny = config::read_prefixes(section, "deny");
    relay.allow_self = read_self_services(section);
    check_relay(section, relay, inner_device);
    relay.set_forwarding = section.boolean("set_forwarding", relay.set_forwarding);
    section.finish();
}

void read_limits(Section& root, SnaptLimits& limits) {
    Section section = root.child("limits");
    limits.user_sessions =
        section.integer<uint32_t>("user_sessions", limits.user_sessions, 0, kMaxCount);
    limits.user_flows = section.integer<uint32_t>("user_flows", limits.user_flows, 0, kMaxCount);
    limits.user_rate_bits_per_s =
        section.rate_bits_per_s("user_rate_bits_per_s", limits.user_rate_bits_per_s, kMaxBitsPerS);
    limits.sessions = section.integer<uint32_t>("sessions", limits.sessions, 0, kMaxCount);
    limits.flows = section.integer<uint32_t>("flows", limits.flows, 0, kMaxCount);
    limits.queue_bytes =
        section.size_bytes("queue_bytes", limits.queue_bytes, kMinQueueBytes, kMaxQueueBytes);
    section.finish();
}

void read_session(Section& root, SessionConfig& session) {
    Section section = root.child("session");
    session.rekey =
        section.duration("rekey_s", session.rekey, seconds(1), seconds(10), seconds(86'400));
    session.rekey_datagrams = section.integer<uint64_t>("rekey_datagrams", session.rekey_datagrams,
                                                        1024, uint64_t{1} << 60U);
    session.keepalive =
        section.duration("keepalive_s", session.keepalive, seconds(1), seconds(1), seconds(3600));
    session.idle_timeout = section.duration("idle_timeout_s", session.idle_timeout, seconds(1),
                                            seconds(10), seconds(31'536'000));
    if (session.idle_timeout <= session.keepalive) {
        section.error(section.has("idle_timeout_s") ? "idle_timeout_s" : "keepalive_s",
                      R"("idle_timeout_s" is not above "keepalive_s")",
                      "a longer time than between keepalives");
    }
    section.finish();
}

// Keys with a single supported value in this version: any other would have no effect.
void read_decided(Section& section) {
    if (!section.boolean("enabled", true)) {
        section.error("enabled", "\"enabled\" is false", "true: usage is always counted");
    }
    const std::string on_failure = section.text("on_ledger_failure", "refuse");
    if (on_failure != "refuse") {
        section.error("on_ledger_failure", "\"on_ledger_failure\" is " + quote(on_failure),
                      "\"refuse\": a session that cannot be written to the ledger is refused");
    }
    Section sinks = section.child("sink");
    for (const config::Member& sink : sinks.members()) {
        sinks.error(sink.key,
                    "[accounting.sink." + config::printable(sink.key) +
                        "] is not supported in this version",
                    "no sink; usage stays in the ledger");
    }
}

// In thousandths, as the directory has it.
uint32_t read_price_mult(Section& section, uint32_t fallback) {
    const double price = section.number("price_mult", fallback / kPermille, 0, kMaxPriceMult);
    const double permille = std::round(price * kPermille);
    if (std::abs(price * kPermille - permille) > 1e-6) {
        section.error("price_mult", "\"price_mult\" has more than three decimals",
                      "a number from 0 to 1000 in thousandths, such as 1.25");
    }
    return static_cast<uint32_t>(permille);
}

void read_accounting(Section& root, AccountingConfig& accounting) {
    Section section = root.child("accounting");
    accounting.interval_s =
        section.integer<uint32_t>("interval_s", accounting.interval_s, 1, kIntervalDivisor);
    if (kIntervalDivisor % accounting.interval_s != 0) {
        section.error("interval_s", "\"interval_s\" is " + std::to_string(accounting.interval_s),
                      "a divisor of 900");
    }
    accounting.checkpoint_s =
        section.integer<uint32_t>("checkpoint_s", accounting.checkpoint_s, 1, 60);
    accounting.granularity =
        section.choice<Granularity>("granularity", accounting.granularity, kGranularities);
    accounting.destinations =
        section.choice<Destinations>("destinations", accounting.destinations, kDestinations);
    accounting.retention_days =
        section.integer<uint32_t>("retention_days", accounting.retention_days, 1, 36'500);
    accounting.live_slots =
        section.integer<uint32_t>("live_slots", accounting.live_slots, 1024, kMaxCount);
    accounting.user_records =
        section.integer<uint32_t>("user_records", accounting.user_records, 0, kMaxCount);
    accounting.min_free_bytes =
        section.integer<uint64_t>("min_free_bytes", accounting.min_free_bytes, 0, kMaxFreeBytes);
    accounting.price_permille = read_price_mult(section, accounting.price_permille);
    read_decided(section);
    section.finish();
}

// The expected form, when the text does not match it.
std::optional<std::string_view> check_rest_listen(std::string_view text) {
    constexpr size_t kMaxPath = 107;  // sockaddr_un
    const auto endpoint = text.starts_with('/') ? std::nullopt : parse_listen(text);
    const bool is_good = text.starts_with('/') ? text.size() <= kMaxPath
                                               : endpoint && endpoint->address.is_loopback();
    return is_good ? std::nullopt
                   : std::optional<std::string_view>(
                         "a loopback address and port such as \"127.0.0.1:9348\", or the path of a "
                         "Unix socket; from elsewhere it is reached by a proxy with TLS");
}

void read_rest(Section& root, RestConfig& rest) {
    Section section = root.child("rest");
    rest.listen = section.texts("listen", check_rest_listen);
    if (rest.listen.size() > kMaxRestListen) {
        section.error("listen", std::to_string(rest.listen.size()) + " addresses",
                      std::to_string(kMaxRestListen) + " at most");
    }
    section.finish();
}

// Keys that are accepted, and with which this version does what it does without them.
void warn_of_no_effect(Section& root, const SnaptConfig& config) {
    const auto warn = [](Section& section, std::string_view key, bool is_so, std::string truth,
                         std::string expected) {
        if (section.has(key) && !is_so) {
            section.warning(key, quote(key) + " has no effect yet: " + std::move(truth),
                            std::move(expected));
        }
    };
    warn(root, "workers", config.workers == 1, "there is one data loop", "workers = 1");
}

std::string line(std::string text, std::string_view comment = {}) {
    constexpr size_t kCommentColumn = 42;
    return config::commented_line(std::move(text), comment, kCommentColumn);
}

template <typename T>
std::string list_text(std::span<const T> values) {
    std::string text = "[";
    for (const T& value : values) {
        text += (text.size() > 1 ? ", " : "") + quote(value.to_string());
    }
    return text + "]";
}

std::string seconds_text(base::Duration span) {
    return std::to_string(std::chrono::duration_cast<seconds>(span).count());
}

std::string render_top(const SnaptConfig& config) {
    std::string text = "# snapt.toml, as written by `snapt init`.\n";
    text += line("name = " + quote(config.name));
    text += line("realm = " + quote(config.realm), "the same on all SNAPTs of the operator");
    if (config.identity_key) {
        text += line("identity_key = " + quote(config::to_base64(*config.identity_key)),
                     "printed by `user add`: hides the users' names on the wire");
    }
    text += line("listen = " + list_text<base::Endpoint>(config.listen), "UDP and TCP on each");
    text += line("public = " + list_text<config::HostPort>(config.public_addresses),
                 "printed by `user add`, told in the directory");
    text += line(R"(protection = ["encrypt", "authenticate"])", "accepted from nodes");
    return text;
}

std::string render_network(const SnaptConfig& config) {
    std::string text = "\n" + line("[inner]");
    text += line("device = " + quote(config.inner.device));
    const auto prefix_text = [](const std::optional<base::IpPrefix>& prefix) {
        return prefix ? quote(prefix->to_string()) : std::string("false");
    };
    text += line("ipv4 = " + prefix_text(config.inner.ipv4),
                 "leases; the first address is the SNAPT's");
    text += line("ipv6 = " + prefix_text(config.inner.ipv6), "false: no IPv6");
    text += line("mtu = " + std::to_string(config.inner.mtu));
    text += line("lease_s = " + seconds_text(config.inner.lease));
    text += "\n" + line("[relay]");
    text += line("egress = []", "interfaces; empty: all but " + config.inner.device);
    text += line("source_pool = []", "empty: masquerade; else SNAT addresses");
    text += line("source_ports = " + quote(config.relay.source_ports.to_string()));
    text += line("allow = []", "prefixes taken out of the built-in deny list");
    text += line("deny = []", "prefixes added to it");
    text += line("allow_self = []", "services of this host for nodes, such as \"tcp/22\"");
    text += line("set_forwarding = true", "ip_forward on while running, restored after");
    return text;
}

std::string render_limits(const SnaptConfig& config) {
    const SnaptLimits& limits = config.limits;
    std::string text = "\n" + line("[limits]", "0: none");
    text += line("user_sessions = " + std::to_string(limits.user_sessions));
    text += line("user_flows = " + std::to_string(limits.user_flows));
    text += line("user_rate_bits_per_s = " + std::to_string(limits.user_rate_bits_per_s),
                 "each way, of all nodes of a user");
    text += line("sessions = " + std::to_string(limits.sessions));
    text += line("flows = " + std::to_string(limits.flows));
    text += line("queue_bytes = " + std::to_string(limits.queue_bytes), "per class and session");
    text += "\n" + line("[session]", "pushed to nodes");
    text += line("rekey_s = " + seconds_text(config.session.rekey));
    text += line("rekey_datagrams = " + std::to_string(config.session.rekey_datagrams));
    text += line("keepalive_s = " + seconds_text(config.session.keepalive));
    text += line("idle_timeout_s = " + seconds_text(config.session.idle_timeout));
    return text;
}

std::string render_accounting(const AccountingConfig& accounting) {
    std::string text = "\n" + line("[accounting]");
    text += line("interval_s = " + std::to_string(accounting.interval_s), "divides 900");
    text += line("checkpoint_s = " + std::to_string(accounting.checkpoint_s),
                 "how much usage a power loss may cost");
    text += line("granularity = \"flow\"", "aggregate: one record a session and class");
    text += line("destinations = \"none\"", "none | port | full, in the records");
    text +=
        line("live_slots = " + std::to_string(accounting.live_slots), "flows counted one by one");
    text += line("user_records = " + std::to_string(accounting.user_records),
                 "records of a user per interval; further flows share");
    text += line("retention_days = " + std::to_string(accounting.retention_days),
                 "how long records stay");
    text += line("min_free_bytes = " + std::to_string(accounting.min_free_bytes),
                 "free disk space; with less all flows share records");
    text += line("price_mult = 1.0", "factor on the plan's price here");
    return text;
}

std::string render_rest() {
    return "\n" + line("[rest]") + line("# listen = [\"127.0.0.1:9348\"]", "the web page and REST");
}

}  // namespace

SnaptConfig default_snapt_config() {
    SnaptConfig config;
    config.listen = {{base::IpAddress::any(base::IpVersion::V4), config::kDefaultPort},
                     {base::IpAddress::any(base::IpVersion::V6), config::kDefaultPort}};
    config.inner.ipv4 = base::IpPrefix::parse(kDefaultInnerIpv4);
    config.inner.ipv6 = base::IpPrefix::parse(kDefaultInnerIpv6);
    return config;
}

ParsedSnaptConfig parse_snapt_config(std::string_view text, const std::string& filename) {
    ParsedSnaptConfig parsed;
    config::DiagnosticSink sink(filename);
    if (const auto tree = config::parse_toml(text, sink)) {
        SnaptConfig config = default_snapt_config();
        Section root(*tree, "", sink);
        read_top(root, config);
        config.snapts = read_snapts(root, config.name);
        read_inner(root, config.inner);
        read_relay(root, config.relay, config.inner.device);
        read_limits(root, config.limits);
        read_session(root, config.session);
        config.classes = config::read_class_knobs(root);
        config.debug = config::read_debug(root);
        read_accounting(root, config.accounting);
        read_rest(root, config.rest);
        root.finish();
        if (!sink.has_errors()) {
            warn_of_no_effect(root, config);
            parsed.config = std::move(config);
        }
    }
    parsed.diagnostics = sink.take();
    return parsed;
}

std::string render_snapt_config(std::string_view name,
                                std::span<const config::HostPort> public_addresses,
                                const std::optional<config::Key>& identity_key,
                                std::string_view realm) {
    SnaptConfig config = default_snapt_config();
    config.name = name;
    config.realm = realm;
    config.identity_key = identity_key;
    config.public_addresses.assign(public_addresses.begin(), public_addresses.end());
    config.listen.clear();
    for (const config::HostPort& address : public_addresses) {
        for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
            const base::Endpoint endpoint{base::IpAddress::any(version), address.port};
            if (std::find(config.listen.begin(), config.listen.end(), endpoint) ==
                config.listen.end()) {
                config.listen.push_back(endpoint);
            }
        }
    }
    if (config.listen.empty()) {
        config.listen = default_snapt_config().listen;
    }
    return render_top(config) + render_network(config) + render_limits(config) + "\n" +
           config::render_class_knobs(config.classes, "down") +
           render_accounting(config.accounting) + render_rest();
}

}  // namespace continuo::snapt
