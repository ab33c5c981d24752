// Section: a typed, checking reader of one table of a configuration file. Every reader call names a
// key, so that finish() can report unknown ones. Errors go to the sink and the fallback is
// returned, so that one run finds all mistakes. Borrows the tree and the sink.
#pragma once

#include "common/base/time.hpp"
#include "common/config/diagnostic.hpp"
#include "common/config/document.hpp"

#include <concepts>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::config {

template <typename T>
struct Choice {
    std::string_view name;
    T value;
};

// The fault in a text beyond its type: nothing when it is valid, else the expected form.
using TextCheck = std::optional<std::string_view> (*)(std::string_view text);

class Section {
  public:
    // `path` as in the file: "" for the root, "class.lt-ld".
    Section(const Node& table, std::string path, DiagnosticSink& sink)
        : table_(&table), path_(std::move(path)), sink_(&sink) {}

    bool is_present() const { return table_ != &absent(); }
    bool has(std::string_view key) const { return table_->find(key) != nullptr; }
    const std::string& path() const { return path_; }
    Place place() const { return table_->place; }
    const std::vector<Member>& members() const { return table_->members; }
    // Place of the value; of the table when there is no such key.
    Place place_of(std::string_view key) const;

    bool boolean(std::string_view key, bool fallback);
    template <std::integral T>
    T integer(std::string_view key, T fallback, T minimum, std::type_identity_t<T> maximum) {
        const int64_t value =
            integer_in(key, static_cast<int64_t>(fallback), static_cast<int64_t>(minimum),
                       static_cast<int64_t>(maximum));
        return static_cast<T>(value);
    }
    double number(std::string_view key, double fallback, double minimum, double maximum);
    // A number in `unit` ("ms" or "s", whole or decimal), or a text such as "50ms".
    base::Duration duration(std::string_view key,
                            base::Duration fallback,
                            base::Duration unit,
                            base::Duration minimum,
                            base::Duration maximum);
    // A number, or a text such as "1MiB".
    uint64_t
    size_bytes(std::string_view key, uint64_t fallback, uint64_t minimum, uint64_t maximum);
    // A number, or a text such as "2mbit".
    uint64_t rate_bits_per_s(std::string_view key, uint64_t fallback, uint64_t maximum);
    std::string text(std::string_view key, std::string_view fallback, TextCheck check = nullptr);
    // As text(); a missing key is an error that names `expected`.
    std::string required_text(std::string_view key, std::string_view expected, TextCheck check);

    template <typename T>
    T choice(std::string_view key, T fallback, std::span<const Choice<T>> choices) {
        std::vector<std::string_view> names;
        for (const Choice<T>& entry : choices) {
            names.push_back(entry.name);
        }
        const auto index = choice_index(key, names);
        return index ? choices[*index].value : fallback;
    }
    // Texts that `parse` accepts: one, or a list without repeats. A missing key is an empty list.
    template <typename T>
    std::vector<T> list(std::string_view key,
                        std::optional<T> (*parse)(std::string_view),
                        std::string_view expected) {
        std::vector<T> values;
        std::set<std::string> seen;
        for (const Node* item : items(key)) {
            std::optional<T> value;
            if (item->kind == NodeKind::Text) {
                value = parse(item->text);
            }
            if (!value) {
                reject_item(key, *item, expected);
            } else if (!seen.insert(value->to_string()).second) {
                reject_repeated(key, *item);
            } else {
                values.push_back(std::move(*value));
            }
        }
        return values;
    }
    template <typename T>
    std::optional<T> value(std::string_view key,
                           std::optional<T> (*parse)(std::string_view),
                           std::string_view expected) {
        const Node* node = find(key);
        if (node == nullptr) {
            return std::nullopt;
        }
        std::optional<T> parsed;
        if (node->kind == NodeKind::Text) {
            parsed = parse(node->text);
        }
        if (!parsed) {
            reject(key, *node, expected);
        }
        return parsed;
    }
    // One text, or a list of them, none twice.
    std::vector<std::string> texts(std::string_view key, TextCheck check = nullptr);

    // The value of `key`, which now counts as known; null when there is none.
    const Node* find(std::string_view key);
    // The elements of a list, or the value itself.
    std::vector<const Node*> items(std::string_view key);
    // A table below this one; a missing one reads as empty.
    Section child(std::string_view key);
    // The tables of [[key]].
    std::vector<Section> tables(std::string_view key);

    // "KEY" is VALUE; expected EXPECTED
    void reject(std::string_view key, const Node& node, std::string_view expected);
    // "KEY" holds VALUE; expected EXPECTED
    void reject_item(std::string_view key, const Node& item, std::string_view expected);
    // Free text at the place of `item`.
    void error_at(const Node& item, std::string message, std::string expected);
    void warning_at(const Node& item, std::string message, std::string expected);
    // Free text at the place of `key`'s value.
    void error(std::string_view key, std::string message, std::string expected);
    void warning(std::string_view key, std::string message, std::string expected);
    void missing(std::string_view key, std::string_view expected);

    // Reports keys that no call has read, with the nearest known one. Call once, last.
    void finish();

  private:
    static const Node& absent();
    // "KEY" holds VALUE twice; expected each value once
    void reject_repeated(std::string_view key, const Node& item);
    std::string in_path() const;
    std::string path_of(std::string_view key) const;
    int64_t integer_in(std::string_view key, int64_t fallback, int64_t minimum, int64_t maximum);
    std::optional<size_t> choice_index(std::string_view key,
                                       std::span<const std::string_view> names);

    const Node* table_;
    std::string path_;
    DiagnosticSink* sink_;
    std::vector<std::string> known_;
};

// Nearest of `candidates` by edit distance; empty when none is near.
std::string_view nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace continuo::config
