// KeyFile: the file of `--key-file`: a bare key, or a node's cnapt.toml as `snapt user add` printed
// it at another SNAPT. Pure.
#pragma once

#include "common/config/keys.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace continuo::snapt::settings {

struct KeyFile {
    config::Key key{};
    std::string user;  // others are empty too when the file has only the key
    std::string key_id;
    std::string realm;
};

// Nothing, with the reason in `failure`, which never quotes the content: it may be a secret.
std::optional<KeyFile> parse_key_file(std::string_view text, std::string& failure);

}  // namespace continuo::snapt::settings
