#include "cnapt/settings/node_config.hpp"

#include "classifier/ruleset.hpp"
#include "cnapt/uplinks/interface_name.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "common/config/base64.hpp"
#include "common/config/prefixes.hpp"
#include "common/config/section.hpp"
#include "common/io/event_loop.hpp"

#include <algorithm>
#include <charconv>

#include <fnmatch.h>

namespace continuo::cnapt::settings {

using uplinks::OnLink;
using uplinks::OnLinkRule;

namespace {

using config::Choice;
using config::quote;
using config::Section;

constexpr uint32_t kMaxFlows = 16'777'216;
constexpr uint32_t kMaxFwmark = UINT32_MAX - 3;  // the next three are used, too
constexpr uint64_t kMinQueueBytes = 65'536;
constexpr uint64_t kMaxQueueBytes = 1ULL << 30U;
constexpr uint8_t kFullTagBytes = 16;
constexpr uint8_t kShortTagBytes = 10;
// Tables of the kernel: unspec, default, main, local.
constexpr std::array<uint32_t, 4> kReservedTables = {0, 253, 254, 255};
constexpr std::array<std::string_view, 5> kPolicyKeys = {"rule", "default", "promotion",
                                                         "admission", "version"};
constexpr std::array<std::string_view, 14> kNodeKeys = {
    "node",    "realm",   "protection", "tag_bytes", "policy", "identity", "snapt",
    "capture", "uplinks", "dns",        "class",     "limits", "debug",    "spin_us"};
constexpr std::array<Choice<Protection>, 2> kProtections = {
    {{"encrypt", Protection::Encrypt}, {"authenticate", Protection::Authenticate}}};

constexpr std::array<Choice<OnLink>, 3> kOnLinkFates = {
    {{"tunnel", OnLink::Tunnel}, {"refuse", OnLink::Refuse}, {"near", OnLink::Near}}};

void read_identity(Section& root, Identity& identity) {
    if (!root.has("identity")) {
        (void)root.find("identity");
        root.missing("identity", "[identity] with user, key_id and key");
        return;
    }
    Section section = root.child("identity");
    if (!section.is_present()) {
        return;
    }
    identity.user = section.required_text("user", "a user name", config::check_name);
    identity.key_id =
        section.required_text("key_id", "a key name such as \"k1\"", config::check_name);
    identity.key = config::read_key(section, "key");
    identity.key_file = section.text("key_file", "", config::check_not_empty);
    if (section.has("key") && section.has("key_file")) {
        section.error("key_file", R"("key" and "key_file" together)", "one of them");
    } else if (!section.has("key") && !section.has("key_file")) {
        section.missing("key", R"("key" or "key_file")");
    }
    section.finish();
}

std::vector<SnaptEntry> read_snapts(Section& root) {
    if (!root.has("snapt")) {
        root.missing("snapt", "at least one [[snapt]] with name and addresses");
    }
    return config::read_snapt_entries(root, [](Section& section, SnaptEntry& entry) {
        entry.identity_key = config::read_key(section, "identity_key");
    });
}

std::optional<std::string_view> check_gateway_interface(std::string_view text) {
    if (uplinks::is_gateway_pattern(text)) {
        return std::nullopt;
    }
    return "an interface name, or how names begin and a star, such as \"br-*\"";
}

void check_capture(Section& section, const CaptureConfig& capture) {
    for (const config::Node* item : section.items("exclude")) {
        const auto prefix = base::IpPrefix::parse(item->text);
        if (prefix && prefix->length == 0) {
            const std::string family = prefix->address.is_v4() ? "ipv4" : "ipv6";
            section.error_at(*item, "\"exclude\" holds " + item->describe() + ", all there is",
                             family + " = false, or a longer prefix");
        }
    }
    for (const config::Node* item : section.items("near")) {
        const auto prefix = base::IpPrefix::parse(item->text);
        if (prefix && prefix->length <= uplinks::kLongestPartOfDefault &&
            !uplinks::is_private(prefix->address)) {
            section.error_at(*item, "\"near\" holds " + item->describe() + ", most of the Internet",
                             "a prefix of 8 bits or more");
        } else if (prefix && uplinks::is_private(prefix->address)) {
            section.warning_at(*item,
                               "\"near\" holds " + item->describe() + ", which is near anyway",
                               "public prefixes");
        }
    }
    for (const config::Node* item : section.items("gateway_interfaces")) {
        if (fnmatch(item->text.c_str(), capture.device.c_str(), 0) == 0) {
            section.error_at(*item,
                             "\"gateway_interfaces\" holds " + quote(item->text) +
                                 ", the device of the tunnel",
                             "interfaces of the LAN");
        }
    }
}

// One word for all interfaces, or a table with a word for each glob.
void read_on_link(Section& section, std::vector<OnLinkRule>& rules) {
    const config::Node* node = section.find("on_link");
    if (node == nullptr) {
        return;
    }
    if (node->kind != config::NodeKind::Table) {
        const auto fate = section.choice<OnLink>("on_link", OnLink::Tunnel, kOnLinkFates);
        rules.push_back({"*", fate});
        return;
    }
    Section globs = section.child("on_link");
    for (const config::Member& member : globs.members()) {
        if (const auto wanted = config::check_interface_glob(member.key)) {
            globs.error(member.key, "\"on_link\" holds " + quote(member.key), std::string(*wanted));
        }
        const auto fate = globs.choice<OnLink>(member.key, OnLink::Tunnel, kOnLinkFates);
        rules.push_back({member.key, fate});
    }
}

void read_capture(Section& root, CaptureConfig& capture) {
    Section section = root.child("capture");
    capture.device = section.text("device", capture.device, config::check_interface);
    capture.ipv4 = section.boolean("ipv4", capture.ipv4);
    capture.ipv6 = section.boolean("ipv6", capture.ipv6);
    if (!capture.ipv4 && !capture.ipv6) {
        section.error("ipv6", R"("ipv4" and "ipv6" are both false)", "at least one of them true");
    }
    capture.routing_table =
        section.integer<uint32_t>("routing_table", capture.routing_table, 1, UINT32_MAX);
    if (std::find(kReservedTables.begin(), kReservedTables.end(), capture.routing_table) !=
        kReservedTables.end()) {
        section.error("routing_table",
                      "\"routing_table\" is " + std::to_string(capture.routing_table) +
                          ", which belongs to the kernel",
                      "a number other than 253, 254 and 255");
    }
    capture.fwmark = section.integer<uint32_t>("fwmark", capture.fwmark, 1, kMaxFwmark);
    capture.exclude = config::read_prefixes(section, "exclude");
    capture.near = config::read_prefixes(section, "near");
    read_on_link(section, capture.on_link);
    capture.gateway_interfaces = section.texts("gateway_interfaces", check_gateway_interface);
    check_capture(section, capture);
    capture.kill_switch = section.boolean("kill_switch", capture.kill_switch);
    section.finish();
}

void read_uplinks(Section& root, UplinkConfig& uplinks) {
    Section section = root.child("uplinks");
    if (section.has("allow")) {
        uplinks.allow = section.texts("allow", config::check_interface_glob);
    }
    if (section.has("deny")) {
        uplinks.deny = section.texts("deny", config::check_interface_glob);
    }
    (void)section.find("allow");
    if (section.has("allow") && section.items("allow").empty()) {
        section.error("allow", "\"allow\" is an empty list", R"(at least one glob, or "*")");
    }
    for (const config::Node* item : section.items("deny")) {
        if (item->text == "*") {
            section.error_at(*item, R"("deny" holds "*", which leaves no uplink)",
                             "globs of some interfaces");
        }
    }
    section.finish();
}

// A server that is not reached through the tunnel would be asked outside it.
void check_dns_server(Section& section, const config::Node& item, const CaptureConfig& capture) {
    const auto server = base::IpAddress::parse(item.text);
    if (!server) {
        return;
    }
    const std::string start = "\"servers\" holds " + item.describe();
    if (!config::is_unicast(*server) || server->is_loopback() || server->is_link_local()) {
        section.error_at(item, start + ", which cannot be reached through the tunnel",
                         "the address of a name server");
    }
    if (!(server->is_v4() ? capture.ipv4 : capture.ipv6)) {
        section.error_at(item, start + ", and its IP version is not captured",
                         std::string("capture.") + (server->is_v4() ? "ipv4" : "ipv6") + " = true");
    }
    for (const base::IpPrefix& prefix : capture.exclude) {
        if (prefix.contains(*server)) {
            section.error_at(item,
                             start + ", which \"capture.exclude\" keeps out of the tunnel by " +
                                 quote(prefix.to_string()),
                             "a server that is not excluded");
        }
    }
    for (const base::IpPrefix& prefix : capture.near) {
        if (prefix.contains(*server)) {
            section.error_at(item,
                             start + ", which \"capture.near\" may keep out of the tunnel by " +
                                 quote(prefix.to_string()),
                             "a server that is not near");
        }
    }
}

void read_dns(Section& root, const CaptureConfig& capture, DnsConfig& dns) {
    Section section = root.child("dns");
    dns.servers = section.list<base::IpAddress>("servers", base::IpAddress::parse, "IP addresses");
    for (const config::Node* item : section.items("servers")) {
        check_dns_server(section, *item, capture);
    }
    if (dns.servers.size() > kMaxNameServers) {
        section.error("servers",
                      "\"servers\" holds " + std::to_string(dns.servers.size()) + " addresses",
                      "at most 3, since more are not asked");
    }
    section.finish();
}

void read_top(Section& root, NodeConfig& config) {
    config.node = root.text("node", "", config::check_name);
    config.realm = root.text("realm", config.realm, config::check_name);
    config.protection = root.choice<Protection>("protection", config.protection, kProtections);
    const auto tag_bytes = root.integer<int>("tag_bytes", kFullTagBytes, 0, kFullTagBytes);
    if (tag_bytes != kFullTagBytes && tag_bytes != kShortTagBytes) {
        root.error("tag_bytes", "\"tag_bytes\" is " + std::to_string(tag_bytes), "16 or 10");
    } else if (tag_bytes == kShortTagBytes && config.protection == Protection::Encrypt) {
        root.error("tag_bytes", R"("tag_bytes" is 10 with protection = "encrypt")",
                   "16, or protection = \"authenticate\"");
    }
    config.tag_bytes = static_cast<uint8_t>(tag_bytes);
    config.policy = root.text("policy", config.policy, config::check_not_empty);
    config.spin_us = root.integer<uint32_t>("spin_us", config.spin_us, 0, io::kMaxSpinUs);
}

template <typename T>
std::string list_text(const std::vector<T>& values) {
    std::string text = "[";
    for (const T& value : values) {
        text += text.size() > 1 ? ", " : "";
        if constexpr (std::is_same_v<T, std::string>) {
            text += quote(value);
        } else {
            text += quote(value.to_string());
        }
    }
    return text + "]";
}

std::string line(std::string text, std::string_view comment = {}) {
    constexpr size_t kCommentColumn = 35;
    return config::commented_line(std::move(text), comment, kCommentColumn);
}

std::string boolean_text(bool value) {
    return value ? "true" : "false";
}

std::string render_identity(const NodeConfig& config) {
    const Identity& identity = config.identity;
    std::string text =
        "\n" + line("[identity]", "PSK identity on the wire: " + quote(identity.psk_identity()));
    text += line("user = " + quote(identity.user));
    text += line("key_id = " + quote(identity.key_id));
    if (identity.key) {
        text += line("key = " + quote(config::to_base64(*identity.key)),
                     "base64, 32 bytes; or key_file");
    } else {
        text += line("key_file = " + quote(identity.key_file), "base64, 32 bytes; or key");
    }
    for (const SnaptEntry& entry : config.snapts) {
        text += "\n" + line("[[snapt]]", "one or more");
        text += line("name = " + quote(entry.name));
        text += line("addresses = " + list_text(entry.addresses),
                     "UDP and TCP; names are resolved anew");
        if (entry.identity_key) {
            text += line("identity_key = " + quote(config::to_base64(*entry.identity_key)),
                         "hides the user's name on the wire");
        }
    }
    return text;
}

std::string on_link_text(const std::vector<OnLinkRule>& rules) {
    if (rules.empty()) {
        return "# on_link = \"refuse\"";
    }
    std::string text = "on_link = { ";
    for (const OnLinkRule& rule : rules) {
        text += rule == rules.front() ? "" : ", ";
        text += quote(rule.interfaces);
        text += " = " + quote(kOnLinkFates[static_cast<size_t>(rule.fate)].name);
    }
    return text + " }";
}

std::string render_capture(const NodeConfig& config) {
    const CaptureConfig& capture = config.capture;
    std::array<char, 16> mark{};
    char* const end = std::to_chars(mark.data(), mark.data() + mark.size(), capture.fwmark, 16).ptr;
    std::string text = "\n" + line("[capture]");
    text += line("device = " + quote(capture.device));
    text += line("ipv4 = " + boolean_text(capture.ipv4));
    text += line("ipv6 = " + boolean_text(capture.ipv6));
    text += line("routing_table = " + std::to_string(capture.routing_table));
    text += line("fwmark = 0x" + std::string(mark.data(), end), "on outer sockets");
    text += line("exclude = " + list_text(capture.exclude), "destinations never captured");
    text += line("near = " + list_text(capture.near), "public prefixes of the LAN, not captured");
    text +=
        line(on_link_text(capture.on_link), "public addresses in the LAN: tunnel, refuse, near");
    text += line("gateway_interfaces = " + list_text(capture.gateway_interfaces),
                 "LAN sides, e.g. [\"br-lan\"]");
    text += line("kill_switch = " + boolean_text(capture.kill_switch),
                 "true: nothing goes out beside the tunnel");
    text += "\n" + line("[uplinks]");
    text += line("allow = " + list_text(config.uplinks.allow), "interface globs; deny wins");
    text += line("deny = " + list_text(config.uplinks.deny));
    text += "\n" + line("[dns]");
    text += line("servers = " + list_text(config.dns.servers),
                 "asked through the tunnel; none: names are left alone");
    return text;
}

// Tells the two files apart by their tables; those of a file with neither may be misspelt.
bool is_policy(const config::Node& tree) {
    const auto has_any = [&tree](std::span<const std::string_view> keys) {
        return std::any_of(keys.begin(), keys.end(),
                           [&tree](std::string_view key) { return tree.find(key) != nullptr; });
    };
    if (has_any(kPolicyKeys)) {
        return true;
    }
    if (has_any(kNodeKeys)) {
        return false;
    }
    const std::vector<std::string> keys(kPolicyKeys.begin(), kPolicyKeys.end());
    return std::any_of(tree.members.begin(), tree.members.end(),
                       [&keys](const config::Member& member) {
                           return !config::nearest(member.key, keys).empty();
                       });
}

}  // namespace

bool UplinkConfig::allows(const std::string& interface_name) const {
    const auto matches = [&interface_name](const std::string& glob) {
        return fnmatch(glob.c_str(), interface_name.c_str(), 0) == 0;
    };
    return std::any_of(allow.begin(), allow.end(), matches) &&
           std::none_of(deny.begin(), deny.end(), matches);
}

ParsedNodeConfig parse_node_config(std::string_view text, const std::string& filename) {
    ParsedNodeConfig parsed;
    config::DiagnosticSink sink(filename);
    if (const auto tree = config::parse_toml(text, sink)) {
        NodeConfig config;
        Section root(*tree, "", sink);
        read_top(root, config);
        read_identity(root, config.identity);
        config.snapts = read_snapts(root);
        read_capture(root, config.capture);
        read_uplinks(root, config.uplinks);
        read_dns(root, config.capture, config.dns);
        config.classes = config::read_class_knobs(root);
        config.debug = config::read_debug(root);
        Section limits = root.child("limits");
        config.limits.flows = limits.integer<uint32_t>("flows", config.limits.flows, 1, kMaxFlows);
        config.limits.queue_bytes = limits.size_bytes("queue_bytes", config.limits.queue_bytes,
                                                      kMinQueueBytes, kMaxQueueBytes);
        limits.finish();
        root.finish();
        if (!sink.has_errors()) {
            parsed.config = std::move(config);
        }
    }
    parsed.diagnostics = sink.take();
    return parsed;
}

std::vector<config::Diagnostic> check_node_text(std::string_view text,
                                                const std::string& filename) {
    config::DiagnosticSink sink(filename);
    const auto tree = config::parse_toml(text, sink);
    if (!tree) {
        return sink.take();
    }
    return is_policy(*tree) ? classifier::parse_policy(text, filename).diagnostics
                            : parse_node_config(text, filename).diagnostics;
}

std::string render_node_config(const NodeConfig& config) {
    std::string text = "# cnapt.toml, as printed by `snapt user add " + config.identity.user +
                       "`. Secret: it holds the key.\n";
    text += config.node.empty() ? line("# node = \"laptop\"", "default: host name")
                                : line("node = " + quote(config.node), "default: host name");
    text += line("realm = " + quote(config.realm), "of the operator");
    text += line("protection = " + quote(kProtections[static_cast<size_t>(config.protection)].name),
                 "encrypt | authenticate");
    text += line("tag_bytes = " + std::to_string(config.tag_bytes),
                 "16 | 10 (10 only with authenticate)");
    text += line("policy = " + quote(config.policy), "absent file: built-in policy");
    text += render_identity(config);
    text += render_capture(config);
    text += "\n" + config::render_class_knobs(config.classes, "up");
    text += "\n" + line("[limits]");
    text += line("flows = " + std::to_string(config.limits.flows));
    text +=
        line("queue_bytes = " + std::to_string(config.limits.queue_bytes), "per class and session");
    return text;
}

ConfigChanges changes_between(const NodeConfig& running, const NodeConfig& fresh) {
    ConfigChanges changes;
    const auto compare = [](std::vector<std::string>& list, std::string_view key, bool is_equal) {
        if (!is_equal) {
            list.emplace_back(key);
        }
    };
    auto& restart = changes.needs_restart;
    compare(restart, "node", running.node == fresh.node);
    compare(restart, "realm", running.realm == fresh.realm);
    compare(restart, "protection", running.protection == fresh.protection);
    compare(restart, "tag_bytes", running.tag_bytes == fresh.tag_bytes);
    compare(restart, "spin_us", running.spin_us == fresh.spin_us);
    compare(restart, "identity.user", running.identity.user == fresh.identity.user);
    compare(restart, "identity.key_id", running.identity.key_id == fresh.identity.key_id);
    // The key file is read only at the start.
    compare(restart, "identity.key",
            running.identity.key == fresh.identity.key || !fresh.identity.key_file.empty());
    compare(restart, "identity.key_file", running.identity.key_file == fresh.identity.key_file);
    compare(restart, "snapt", running.snapts == fresh.snapts);
    const CaptureConfig& from = running.capture;
    const CaptureConfig& to = fresh.capture;
    compare(restart, "capture.device", from.device == to.device);
    compare(restart, "capture.ipv4", from.ipv4 == to.ipv4);
    compare(restart, "capture.ipv6", from.ipv6 == to.ipv6);
    compare(restart, "capture.routing_table", from.routing_table == to.routing_table);
    compare(restart, "capture.fwmark", from.fwmark == to.fwmark);
    compare(restart, "capture.exclude", from.exclude == to.exclude);
    compare(restart, "capture.near", from.near == to.near);
    compare(restart, "capture.on_link", from.on_link == to.on_link);
    compare(restart, "capture.gateway_interfaces",
            from.gateway_interfaces == to.gateway_interfaces);
    compare(restart, "capture.kill_switch", from.kill_switch == to.kill_switch);
    compare(restart, "limits.flows", running.limits.flows == fresh.limits.flows);
    compare(restart, "uplinks.allow", running.uplinks.allow == fresh.uplinks.allow);
    compare(restart, "uplinks.deny", running.uplinks.deny == fresh.uplinks.deny);
    compare(restart, "dns.servers", running.dns.servers == fresh.dns.servers);

    const auto debug = config::changed_debug_keys(running.debug, fresh.debug);
    restart.insert(restart.end(), debug.begin(), debug.end());

    changes.applied = config::changed_class_knobs(running.classes, fresh.classes);
    compare(changes.applied, "policy", running.policy == fresh.policy);
    compare(changes.applied, "limits.queue_bytes",
            running.limits.queue_bytes == fresh.limits.queue_bytes);
    return changes;
}

}  // namespace continuo::cnapt::settings
