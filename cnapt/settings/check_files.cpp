#include "cnapt/settings/check_files.hpp"

#include "cnapt/settings/node_config.hpp"
#include "common/base/secret.hpp"
#include "common/config/document.hpp"
#include "common/daemon/file_check.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/privileges.hpp"
#include "common/host/sysctl.hpp"
#include "common/io/file.hpp"

#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace continuo::cnapt::settings {

using config::Diagnostic;
using config::quote;

namespace {

// The place of the value of `key` in `table`; the beginning of the file when there is none.
config::Place place_of(std::string_view text, std::string_view table, std::string_view key) {
    config::DiagnosticSink unheard("");
    const auto tree = config::parse_toml(text, unheard);
    const config::Member* section = tree ? tree->find(table) : nullptr;
    const config::Member* found = section == nullptr ? nullptr : section->value.find(key);
    return found == nullptr ? config::Place{} : found->value.place;
}

void check_key_file(std::string_view text,
                    const std::string& file,
                    const std::string& key_file,
                    std::vector<Diagnostic>& found) {
    const config::Place place = place_of(text, "identity", "key_file");
    const std::string start = "\"identity.key_file\" is " + quote(key_file);
    auto key = io::read_file(key_file, daemon::kMaxFileBytes);
    if (!key) {
        const std::string reason = key.error().sys_errno != 0 ? std::strerror(key.error().sys_errno)
                                                              : std::string(key.error().where);
        found.push_back({file, place.line, place.column,
                         start + ", which cannot be read: " + reason, "a file with the key"});
        return;
    }
    const base::WipedAtEnd wiped(*key);
    if (!config::parse_key(*key)) {
        found.push_back({file, place.line, place.column, start + ", which holds no key",
                         "32 bytes in base64 in it, and nothing else"});
    }
    daemon::check_readers(key_file, true, host::kNodeUser, found);
}

}  // namespace

std::vector<Diagnostic> check_node_file(std::string_view text, const std::string& file) {
    std::vector<Diagnostic> found = check_node_text(text, file);
    if (config::has_errors(found)) {
        return found;
    }
    const auto parsed = parse_node_config(text, file);
    daemon::check_readers(file, parsed.config && parsed.config->identity.key.has_value(),
                          host::kNodeUser, found);
    if (!parsed.config) {
        return found;  // a policy
    }
    const NodeConfig& config = *parsed.config;
    if (!config.identity.key_file.empty()) {
        check_key_file(text, file, config.identity.key_file, found);
    }
    daemon::check_recordings(config.debug, file, found);
    const std::string why =
        config.capture.ipv4 ? "" : host::ipv6_switched_off(config.capture.device);
    if (!why.empty()) {
        const config::Place place = place_of(text, "capture", "ipv4");
        found.push_back({file, place.line, place.column,
                         "IPv6 is switched off on this host (" + why + "), and \"ipv4\" is false",
                         "capture.ipv4 = true"});
    }
    return found;
}

std::optional<std::string> policy_file_of(const std::string& config) {
    const auto text = io::read_file(config, daemon::kMaxFileBytes);
    const auto parsed = text ? parse_node_config(*text, config) : ParsedNodeConfig{};
    const std::string policy = parsed.config ? parsed.config->policy : NodeConfig().policy;
    const bool is_read = ::access(policy.c_str(), F_OK) == 0 || errno != ENOENT;
    return is_read ? std::optional(policy) : std::nullopt;
}

}  // namespace continuo::cnapt::settings
