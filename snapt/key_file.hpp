// KeyFile: what `--key-file` names: a key alone, or the cnapt.toml of a node, as `snapt user add`
// printed it at another SNAPT. Pure.
#pragma once

#include "common/config/keys.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace continuo::snapt {

struct KeyFile {
    config::Key key{};
    std::string user;  // the others: empty when the file holds the key alone
    std::string key_id;
    std::string realm;
};

// Nothing, with the reason in `failure`, which never shows what was found: that may be a secret.
std::optional<KeyFile> parse_key_file(std::string_view text, std::string& failure);

}  // namespace continuo::snapt
