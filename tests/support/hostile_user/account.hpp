// Account: the contents of a cnapt.toml.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/control/client_control.hpp"

#include <optional>
#include <string>

namespace continuo::tests {

struct Account {
    control::Identity identity;
    control::UserKey key{};
    std::optional<control::IdentityKey> identity_key;
    std::string realm;
    base::Endpoint snapt;

    // A session of its own, as `node`.
    control::ClientParameters parameters(const std::string& node, base::Random& random) const;
};

// Nothing, with the reason on stderr. The SNAPT must be given by an address.
std::optional<Account> read_account(const std::string& path);

}  // namespace continuo::tests
