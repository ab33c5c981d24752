#include "snapt/settings/key_file.hpp"

#include "common/config/document.hpp"
#include "snapt/settings/snapt_config.hpp"

namespace continuo::snapt::settings {
namespace {

// A string of that table; empty when there is none.
std::string text_of(const config::Node& table, std::string_view key) {
    const config::Member* member = table.find(key);
    return member != nullptr && member->value.kind == config::NodeKind::Text ? member->value.text
                                                                             : std::string();
}

}  // namespace

std::optional<KeyFile> parse_key_file(std::string_view text, std::string& failure) {
    KeyFile file;
    if (const auto key = config::parse_key(text)) {
        file.key = *key;
        return file;
    }
    config::DiagnosticSink sink("");
    const auto tree = config::parse_toml(text, sink);
    const config::Member* identity = tree ? tree->find("identity") : nullptr;
    if (identity == nullptr) {
        failure = "no key in it; expected 32 bytes in base64 and nothing else, or the cnapt.toml "
                  "of the user";
        return std::nullopt;
    }
    const std::string key_path = text_of(identity->value, "key_file");
    if (!key_path.empty()) {
        failure = "its [identity] says key_file; name that file, with the --key-id of the node";
        return std::nullopt;
    }
    std::string key_text = text_of(identity->value, "key");
    const base::WipedAtEnd wiped(key_text);
    const auto key = config::parse_key(key_text);
    file.user = text_of(identity->value, "user");
    file.key_id = text_of(identity->value, "key_id");
    if (!key || file.user.empty() || file.key_id.empty()) {
        failure = "its [identity] has no user, key_id and key that are good";
        return std::nullopt;
    }
    file.key = *key;
    const std::string realm = text_of(*tree, "realm");
    file.realm = realm.empty() ? SnaptConfig{}.realm : realm;
    return file;
}

}  // namespace continuo::snapt::settings
