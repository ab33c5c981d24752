#include "snapt/commands/check_files.hpp"

#include "common/daemon/file_check.hpp"
#include "common/host/privileges.hpp"
#include "common/host/sysctl.hpp"
#include "snapt/settings/snapt_config.hpp"

namespace continuo::snapt::commands {

std::vector<config::Diagnostic> check_snapt_file(std::string_view text, const std::string& file) {
    auto parsed = settings::parse_snapt_config(text, file);
    std::vector<config::Diagnostic> found = std::move(parsed.diagnostics);
    if (!parsed.config) {
        return found;
    }
    const settings::SnaptConfig& config = *parsed.config;
    daemon::check_readers(file, config.identity_key.has_value(), host::kRelayUser, found);
    daemon::check_recordings(config.debug, file, found);
    const std::string why = config.inner.ipv4 ? "" : host::ipv6_switched_off(config.inner.device);
    if (!why.empty()) {
        found.push_back({file, 1, 1,
                         "IPv6 is switched off on this host (" + why + "), and leases have no IPv4",
                         "inner.ipv4"});
    }
    return found;
}

}  // namespace continuo::snapt::commands
