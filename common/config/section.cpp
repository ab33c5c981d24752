#include "common/config/section.hpp"

#include "common/config/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>

namespace continuo::config {
namespace {

constexpr size_t kMaxSuggestedBytes = 64;  // longer words get no suggestion

char lower(char character) {
    return character >= 'A' && character <= 'Z' ? static_cast<char>(character + ('a' - 'A'))
                                                : character;
}

// Levenshtein's, upper and lower case alike, "-" and "_" too.
size_t edit_distance(std::string_view left, std::string_view right) {
    const auto folded = [](char character) { return character == '-' ? '_' : lower(character); };
    std::vector<size_t> row(right.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= left.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= right.size(); ++j) {
            const size_t changed = diagonal + (folded(left[i - 1]) == folded(right[j - 1]) ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
        }
    }
    return row[right.size()];
}

std::string short_number(double value) {
    std::array<char, 32> text{};
    const auto result = std::to_chars(text.data(), text.data() + text.size(), value,
                                      std::chars_format::general, 10);
    return {text.data(), result.ptr};
}

// For a text that was meant to have a unit and is not understood.
std::string example(const Node& node, bool is_understood, std::string_view text) {
    return node.kind == NodeKind::Text && !is_understood ? ", or a text such as " + quote(text)
                                                         : "";
}

std::string range_text(int64_t minimum, int64_t maximum) {
    if (minimum == maximum) {
        return std::to_string(minimum);
    }
    return "an integer from " + std::to_string(minimum) + " to " + std::to_string(maximum);
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string> candidates) {
    std::string_view best;
    if (word.size() > kMaxSuggestedBytes) {
        return best;
    }
    size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
    for (const std::string& candidate : candidates) {
        const size_t distance = edit_distance(word, candidate);
        if (distance < best_distance && distance < candidate.size()) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

const Node& Section::absent() {
    static const Node none;
    return none;
}

std::string Section::in_path() const {
    return path_.empty() ? "" : " in [" + path_ + "]";
}

std::string Section::path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

Place Section::place_of(std::string_view key) const {
    const Member* member = table_->find(key);
    return member == nullptr ? table_->place : member->value.place;
}

const Node* Section::find(std::string_view key) {
    known_.emplace_back(key);
    const Member* member = table_->find(key);
    return member == nullptr ? nullptr : &member->value;
}

void Section::reject(std::string_view key, const Node& node, std::string_view expected) {
    sink_->error(node.place, quoted_value(key) + " is " + node.describe(), std::string(expected));
}

void Section::reject_item(std::string_view key, const Node& item, std::string_view expected) {
    const Member* member = table_->find(key);
    if (member != nullptr && &member->value == &item) {
        reject(key, item, expected);
        return;
    }
    sink_->error(item.place, quoted_value(key) + " holds " + item.describe(),
                 std::string(expected));
}

void Section::reject_repeated(std::string_view key, const Node& item) {
    sink_->error(item.place, quoted_value(key) + " holds " + item.describe() + " twice",
                 "each value once");
}

void Section::error(std::string_view key, std::string message, std::string expected) {
    sink_->error(place_of(key), std::move(message), std::move(expected));
}

void Section::warning(std::string_view key, std::string message, std::string expected) {
    sink_->warning(place_of(key), std::move(message), std::move(expected));
}

void Section::error_at(const Node& item, std::string message, std::string expected) {
    sink_->error(item.place, std::move(message), std::move(expected));
}

void Section::warning_at(const Node& item, std::string message, std::string expected) {
    sink_->warning(item.place, std::move(message), std::move(expected));
}

void Section::missing(std::string_view key, std::string_view expected) {
    sink_->error(table_->place, "missing key " + quote(key) + in_path(), std::string(expected));
}

bool Section::boolean(std::string_view key, bool fallback) {
    const Node* node = find(key);
    if (node == nullptr) {
        return fallback;
    }
    if (node->kind != NodeKind::Boolean) {
        reject(key, *node, "true or false");
        return fallback;
    }
    return node->boolean;
}

int64_t
Section::integer_in(std::string_view key, int64_t fallback, int64_t minimum, int64_t maximum) {
    const Node* node = find(key);
    if (node == nullptr) {
        return fallback;
    }
    if (node->kind != NodeKind::Integer || node->overflow || node->integer < minimum ||
        node->integer > maximum) {
        reject(key, *node, range_text(minimum, maximum));
        return fallback;
    }
    return node->integer;
}

double Section::number(std::string_view key, double fallback, double minimum, double maximum) {
    const Node* node = find(key);
    if (node == nullptr) {
        return fallback;
    }
    double value = std::numeric_limits<double>::quiet_NaN();
    if (node->kind == NodeKind::Integer && !node->overflow) {
        value = static_cast<double>(node->integer);
    } else if (node->kind == NodeKind::Real) {
        value = node->real;
    }
    if (!(value >= minimum && value <= maximum)) {
        reject(key, *node,
               "a number from " + short_number(minimum) + " to " + short_number(maximum));
        return fallback;
    }
    return value;
}

base::Duration Section::duration(std::string_view key,
                                 base::Duration fallback,
                                 base::Duration unit,
                                 base::Duration minimum,
                                 base::Duration maximum) {
    const Node* node = find(key);
    if (node == nullptr) {
        return fallback;
    }
    const auto unit_ns = static_cast<double>(unit.count());
    std::optional<base::Duration> value;
    if (node->kind == NodeKind::Text) {
        value = parse_duration(node->text);
    } else if (node->kind == NodeKind::Real || node->kind == NodeKind::Integer) {
        const double count =
            node->kind == NodeKind::Real ? node->real : static_cast<double>(node->integer);
        const double nanoseconds = std::round(count * unit_ns);
        // Compared as real numbers first: a far value does not fit a Duration.
        if (nanoseconds >= 0 && nanoseconds <= static_cast<double>(maximum.count())) {
            value = base::Duration(static_cast<int64_t>(nanoseconds));
        }
    }
    if (!value || *value < minimum || *value > maximum) {
        const std::string name = unit == base::milliseconds(1) ? "ms" : "s";
        reject(key, *node,
               "a number of " + name + " from " +
                   short_number(static_cast<double>(minimum.count()) / unit_ns) + " to " +
                   short_number(static_cast<double>(maximum.count()) / unit_ns) +
                   example(*node, value.has_value(), "50ms"));
        return fallback;
    }
    return *value;
}

uint64_t
Section::size_bytes(std::string_view key, uint64_t fallback, uint64_t minimum, uint64_t maximum) {
    const Node* node = find(key);
    if (node == nullptr) {
        return fallback;
    }
    std::optional<uint64_t> value;
    if (node->kind == NodeKind::Text) {
        value = parse_size_bytes(node->text);
    } else if (node->kind == NodeKind::Integer && !node->overflow && node->integer >= 0) {
        value = static_cast<uint64_t>(node->integer);
    }
    if (!value || *value < minimum || *value > maximum) {
        reject(key, *node,
               "a number of bytes from " + std::to_string(minimum) + " to " +
                   std::to_string(maximum) + example(*node, value.has_value(), "1MiB"));
        return fallback;
    }
    return *value;
}

uint64_t Section::rate_bits_per_s(std::string_view key, uint64_t fallback, uint64_t maximum) {
    const Node* node = find(key);
    if (node == nullptr) {
        return fallback;
    }
    std::optional<uint64_t> value;
    if (node->kind == NodeKind::Text) {
        value = parse_rate_bits_per_s(node->text);
    } else if (node->kind == NodeKind::Integer && !node->overflow && node->integer >= 0) {
        value = static_cast<uint64_t>(node->integer);
    }
    if (!value || *value > maximum) {
        reject(key, *node,
               "a number of bit/s up to " + std::to_string(maximum) +
                   example(*node, value.has_value(), "2mbit"));
        return fallback;
    }
    return *value;
}

std::string Section::text(std::string_view key, std::string_view fallback, TextCheck check) {
    const Node* node = find(key);
    if (node == nullptr) {
        return std::string(fallback);
    }
    if (node->kind != NodeKind::Text) {
        const auto wanted = check == nullptr ? std::nullopt : check("");
        reject(key, *node, wanted.value_or("a string"));
        return std::string(fallback);
    }
    if (const auto wanted = check == nullptr ? std::nullopt : check(node->text)) {
        reject(key, *node, *wanted);
        return std::string(fallback);
    }
    return node->text;
}

std::string
Section::required_text(std::string_view key, std::string_view expected, TextCheck check) {
    if (!has(key)) {
        (void)find(key);
        missing(key, expected);
        return {};
    }
    return text(key, "", check);
}

std::optional<size_t> Section::choice_index(std::string_view key,
                                            std::span<const std::string_view> names) {
    const Node* node = find(key);
    if (node == nullptr) {
        return std::nullopt;
    }
    if (node->kind == NodeKind::Text) {
        const auto found = std::find(names.begin(), names.end(), node->text);
        if (found != names.end()) {
            return static_cast<size_t>(found - names.begin());
        }
    }
    reject(key, *node, quoted_choices(names));
    return std::nullopt;
}

std::vector<std::string> Section::texts(std::string_view key, TextCheck check) {
    std::vector<std::string> values;
    std::set<std::string> seen;
    for (const Node* item : items(key)) {
        if (item->kind != NodeKind::Text) {
            reject_item(key, *item, "a string or a list of strings");
        } else if (const auto wanted = check == nullptr ? std::nullopt : check(item->text)) {
            reject_item(key, *item, *wanted);
        } else if (!seen.insert(item->text).second) {
            reject_repeated(key, *item);
        } else {
            values.push_back(item->text);
        }
    }
    return values;
}

std::vector<const Node*> Section::items(std::string_view key) {
    const Node* node = find(key);
    if (node == nullptr) {
        return {};
    }
    if (node->kind != NodeKind::List) {
        return {node};
    }
    std::vector<const Node*> pointers;
    for (const Node& item : node->items) {
        pointers.push_back(&item);
    }
    return pointers;
}

Section Section::child(std::string_view key) {
    const Node* node = find(key);
    if (node != nullptr && node->kind != NodeKind::Table) {
        reject(key, *node, "a table");
        node = nullptr;
    }
    return {node == nullptr ? absent() : *node, path_of(key), *sink_};
}

std::vector<Section> Section::tables(std::string_view key) {
    std::vector<Section> sections;
    const Node* node = find(key);
    if (node == nullptr) {
        return sections;
    }
    if (node->kind != NodeKind::List) {
        reject(key, *node, "tables headed [[" + path_of(key) + "]]");
        return sections;
    }
    for (const Node& item : node->items) {
        if (item.kind == NodeKind::Table) {
            sections.emplace_back(item, path_of(key), *sink_);
        } else {
            reject_item(key, item, "tables headed [[" + path_of(key) + "]]");
        }
    }
    return sections;
}

void Section::finish() {
    std::sort(known_.begin(), known_.end());
    known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
    for (const Member& member : table_->members) {
        if (std::binary_search(known_.begin(), known_.end(), member.key)) {
            continue;
        }
        const std::string_view near = nearest(member.key, known_);
        std::string expected = near.empty() ? "one of" : quote(near);
        for (size_t i = 0; near.empty() && i < known_.size(); ++i) {
            expected += (i == 0 ? " " : ", ") + known_[i];
        }
        sink_->error(member.key_place, "unknown key " + quoted_value(member.key) + in_path(),
                     expected);
    }
}

}  // namespace continuo::config
