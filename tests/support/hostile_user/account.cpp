#include "tests/support/hostile_user/account.hpp"

#include "cnapt/settings/node_config.hpp"
#include "common/io/file.hpp"

#include <cstdio>

namespace continuo::tests {

control::ClientParameters Account::parameters(const std::string& node, base::Random& random) const {
    control::ClientParameters parameters;
    parameters.identity = identity;
    parameters.key = key;
    parameters.identity_key = identity_key;
    parameters.realm = realm;
    control::Hello& hello = parameters.hello;
    hello.versions = {control::kProtocolVersion};
    hello.node = node;
    hello.software = "hostile_user";
    random.fill(hello.session_id);
    hello.wire_session_down = static_cast<uint16_t>(1 + random.below(UINT16_MAX));
    hello.offers = {{control::ProtectionKind::Aes256Gcm, 16},
                    {control::ProtectionKind::ChaCha20Poly1305, 16},
                    {control::ProtectionKind::HmacSha256, 16}};
    return parameters;
}

std::optional<Account> read_account(const std::string& path) {
    constexpr size_t kMaxBytes = size_t{64} * 1024;
    const auto text = io::read_file(path, kMaxBytes);
    const cnapt::settings::ParsedNodeConfig parsed =
        cnapt::settings::parse_node_config(text ? *text : std::string(), path);
    if (!parsed.config || !parsed.config->identity.key || parsed.config->snapts.empty()) {
        std::fprintf(stderr, "%s: not a configuration with a key and a SNAPT\n", path.c_str());
        return std::nullopt;
    }
    const cnapt::settings::NodeConfig& config = *parsed.config;
    const auto snapt = config.snapts.front().addresses.at(0).endpoint();
    if (!snapt) {
        std::fprintf(stderr, "%s: the SNAPT is given by a name\n", path.c_str());
        return std::nullopt;
    }
    Account account;
    account.identity = {config.identity.user, config.identity.key_id};
    account.key = *config.identity.key;
    account.identity_key = config.snapts.front().identity_key;
    account.realm = config.realm;
    account.snapt = *snapt;
    return account;
}

}  // namespace continuo::tests
