#include "cnapt/settings/node_key.hpp"

#include "common/base/log.hpp"
#include "common/base/secret.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"

#include <cerrno>

namespace continuo::cnapt::settings {

bool has_key(const NodeConfig& config) {
    if (config.identity.key) {
        return true;
    }
    auto text = io::read_file(config.identity.key_file, daemon::kMaxFileBytes);
    if (!text) {
        return text.error().sys_errno == EACCES;
    }
    const base::WipedAtEnd wiped(*text);
    return config::parse_key(*text).has_value();
}

bool load_key(NodeConfig& config) {
    if (config.identity.key) {
        return true;
    }
    auto text = daemon::read_text_file(config.identity.key_file);
    if (!text) {
        return false;
    }
    const base::WipedAtEnd wiped(*text);
    config.identity.key = config::parse_key(*text);
    if (!config.identity.key) {
        base::log(base::LogLevel::Error, "%s: error: bad key; expected 32 bytes in base64",
                  config.identity.key_file.c_str());
    }
    return config.identity.key.has_value();
}

}  // namespace continuo::cnapt::settings
