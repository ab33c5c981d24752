#include "snapt/rest/target.hpp"

#include <algorithm>

namespace continuo::rest {
namespace {

std::optional<unsigned> hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return static_cast<unsigned>(c - '0');
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? std::optional(static_cast<unsigned>(lower - 'a') + 10)
                                        : std::nullopt;
}

bool is_control(unsigned octet) {
    constexpr unsigned kDelete = 0x7F;
    return octet < ' ' || octet == kDelete;
}

// `plus_is_space`: in a query, which is encoded like a form.
std::optional<std::string> decoded(std::string_view text, bool plus_is_space) {
    constexpr size_t kEscapeBytes = 3;
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
        auto octet = static_cast<unsigned>(static_cast<unsigned char>(text[i]));
        if (text[i] == '%') {
            const auto high =
                i + kEscapeBytes <= text.size() ? hex_digit(text[i + 1]) : std::nullopt;
            const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
            if (!low) {
                return std::nullopt;
            }
            octet = *high << 4U | *low;
            i += 2;
        } else if (plus_is_space && text[i] == '+') {
            octet = ' ';
        }
        if (is_control(octet)) {
            return std::nullopt;
        }
        bytes += static_cast<char>(octet);
    }
    return bytes;
}

// Calls `each` with the text between separators; false ends it.
template <typename Each>
bool split(std::string_view text, char separator, const Each& each) {
    while (true) {
        const size_t end = text.find(separator);
        if (!each(text.substr(0, end))) {
            return false;
        }
        if (end == std::string_view::npos) {
            return true;
        }
        text.remove_prefix(end + 1);
    }
}

bool parse_path(std::string_view text, Target& target) {
    return text.empty() || split(text, '/', [&target](std::string_view part) {
               auto segment = decoded(part, false);
               if (!segment || target.path.size() == kMaxPathSegments) {
                   return false;
               }
               target.path.push_back(std::move(*segment));
               return true;
           });
}

bool parse_query(std::string_view text, Target& target) {
    return text.empty() || split(text, '&', [&target](std::string_view part) {
               const size_t equals = part.find('=');
               auto name = decoded(part.substr(0, equals), true);
               auto value = equals == std::string_view::npos
                                ? std::optional<std::string>("")
                                : decoded(part.substr(equals + 1), true);
               if (!name || !value || name->empty() || target.value(*name) ||
                   target.query.size() == kMaxParameters) {
                   return false;
               }
               target.query.emplace_back(std::move(*name), std::move(*value));
               return true;
           });
}

}  // namespace

std::optional<std::string> Target::value(std::string_view name) const {
    const auto found = std::find_if(query.begin(), query.end(),
                                    [name](const auto& pair) { return pair.first == name; });
    return found == query.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Target> parse_target(std::string_view text) {
    if (text.empty() || text.front() != '/' || text.size() > kMaxTargetBytes ||
        text.find('#') != std::string_view::npos) {
        return std::nullopt;
    }
    const size_t question = text.find('?');
    const bool has_query = question != std::string_view::npos;
    Target target;
    const bool is_good = parse_path(text.substr(1, has_query ? question - 1 : question), target) &&
                         (!has_query || parse_query(text.substr(question + 1), target));
    return is_good ? std::optional(std::move(target)) : std::nullopt;
}

}  // namespace continuo::rest
