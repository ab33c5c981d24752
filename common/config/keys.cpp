#include "common/config/keys.hpp"

#include "common/config/base64.hpp"

#include <algorithm>
#include <string>

namespace continuo::config {

std::optional<Key> parse_key(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r\n";
    const size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) {
        return std::nullopt;
    }
    text = text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
    auto bytes = from_base64(text);
    std::optional<Key> key;
    if (bytes && bytes->size() == Key().size()) {
        std::copy(bytes->begin(), bytes->end(), key.emplace().begin());
    }
    if (bytes) {
        base::wipe(*bytes);
    }
    return key;
}

std::optional<Key> read_key(Section& section, std::string_view name) {
    const Node* node = section.find(name);
    if (node == nullptr) {
        return std::nullopt;
    }
    const std::string quoted = "\"" + std::string(name) + "\"";
    if (node->kind != NodeKind::Text) {
        section.error(name, quoted + " is no string", std::string(kKeyForm));
        return std::nullopt;
    }
    auto key = parse_key(node->text);
    if (!key) {
        const auto bytes = from_base64(node->text);
        section.error(name,
                      bytes ? quoted + " has " + std::to_string(bytes->size()) + " bytes"
                            : quoted + " is no base 64",
                      std::string(kKeyForm));
    }
    return key;
}

}  // namespace continuo::config
