#include "common/base/utf8.hpp"
#include "common/config/document.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <limits>
#include <sstream>

#include <toml.hpp>

namespace continuo::config {
namespace {

// Places of byte offsets; made once a document.
class LineIndex {
  public:
    explicit LineIndex(std::string_view text) : end_(text.size()) {
        for (size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '\n') {
                starts_.push_back(i + 1);
            }
        }
    }
    Place place(size_t offset) const {
        const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
        return {static_cast<uint32_t>(next - starts_.begin()),
                static_cast<uint32_t>(offset - *std::prev(next) + 1)};
    }
    // At most the end of the text.
    size_t offset(Place place) const {
        const size_t line = std::min<size_t>(place.line, starts_.size());
        return std::min(starts_[line - 1] + place.column - 1, end_);
    }

  private:
    size_t end_;
    std::vector<size_t> starts_{0};
};

// Refuses text that would make toml11 recurse deeply or take quadratic time. Follows strings and
// comments just closely enough: malformed text stops toml11 at the same place.
class LimitCheck {
  public:
    explicit LimitCheck(std::string_view text) : text_(text) {}

    struct Violation {
        std::string_view message;
        std::string expected;
        size_t offset;
    };

    std::optional<Violation> run() {
        if (text_.size() > kMaxDocumentBytes) {
            return Violation{"the file is too long",
                             "at most " + std::to_string(kMaxDocumentBytes) + " bytes", 0};
        }
        if (const auto line = long_line()) {
            return Violation{"the line is too long",
                             "at most " + std::to_string(kMaxLineBytes) + " bytes in a line",
                             *line};
        }
        if (const auto offset = invalid_utf8()) {
            return Violation{"invalid UTF-8", "UTF-8 text", *offset};
        }
        if (const size_t offset = text_.find('\0'); offset != std::string_view::npos) {
            return Violation{"a zero byte", "UTF-8 text", offset};
        }
        for (at_ = 0; at_ < text_.size(); ++at_) {
            const char character = text_[at_];
            if (character == '#') {
                skip_comment();
            } else if (character == '"' || character == '\'') {
                skip_string(character);
            } else if (!count(character)) {
                return Violation{"nested too deeply",
                                 "at most " + std::to_string(kMaxNesting) + " brackets, keys of " +
                                     std::to_string(kMaxDottedKeyParts) + " parts",
                                 at_};
            }
        }
        return std::nullopt;
    }

  private:
    std::optional<size_t> long_line() const {
        for (size_t start = 0; start < text_.size();) {
            const size_t end = std::min(text_.find('\n', start), text_.size());
            if (end - start > kMaxLineBytes) {
                return start;
            }
            start = end + 1;
        }
        return std::nullopt;
    }
    // toml11 3.7 mixes iterators of two buffers when a quoted key is not UTF-8.
    std::optional<size_t> invalid_utf8() const {
        for (size_t at = 0; at < text_.size();) {
            const size_t length = base::utf8_length(text_.substr(at));
            if (length == 0) {
                return at;
            }
            at += length;
        }
        return std::nullopt;
    }
    bool count(char character) {
        if (character == '[' || character == '{') {
            ++depth_;
            dots_ = 0;
        } else if (character == ']' || character == '}') {
            depth_ -= depth_ > 0 ? 1 : 0;
            dots_ = 0;
        } else if (character == '=' || character == ',' || character == '\n') {
            dots_ = 0;
        } else if (character == '.') {
            ++dots_;
        }
        return depth_ <= kMaxNesting && dots_ < kMaxDottedKeyParts;
    }
    void skip_comment() {
        const size_t end = std::min(text_.find('\n', at_), text_.size());
        at_ = end - 1;
    }
    void skip_string(char mark) {
        const std::string triple(3, mark);
        const bool is_long = text_.substr(at_, 3) == triple;
        at_ += is_long ? 3 : 1;
        for (; at_ < text_.size(); ++at_) {
            if (text_[at_] == '\n' && !is_long) {
                --at_;
                return;
            }
            if (text_[at_] == '\\' && mark == '"') {
                ++at_;
            } else if (text_[at_] == mark && !is_long) {
                return;
            } else if (is_long && text_.substr(at_, 3) == triple) {
                at_ += 2;
                // A long string may end in up to two marks of its own.
                for (int extra = 0; extra < 2 && text_.substr(at_ + 1, 1) == triple.substr(0, 1);
                     ++extra) {
                    ++at_;
                }
                return;
            }
        }
    }

    std::string_view text_;
    size_t at_ = 0;
    size_t depth_ = 0;
    size_t dots_ = 0;
};

bool is_bare_key_character(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_' || character == '-';
}

// Offset of the key in "key = value", given the value's.
size_t key_offset(std::string_view text, size_t value) {
    const auto skip_blanks = [&text](size_t at) {
        while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t')) {
            --at;
        }
        return at;
    };
    size_t at = skip_blanks(value);
    if (at == 0 || text[at - 1] != '=') {
        return value;
    }
    at = skip_blanks(at - 1);
    if (at > 0 && (text[at - 1] == '"' || text[at - 1] == '\'')) {
        const size_t open = at >= 2 ? text.rfind(text[at - 1], at - 2) : std::string_view::npos;
        return open == std::string_view::npos ? value : open;
    }
    while (at > 0 && is_bare_key_character(text[at - 1])) {
        --at;
    }
    return at;
}

class TreeBuilder {
  public:
    explicit TreeBuilder(std::string_view text) : text_(text), lines_(text) {}

    Node build(const toml::value& value) const {
        Node node;
        const auto [first, last] = extent(value);
        node.place = lines_.place(first);
        switch (value.type()) {
        case toml::value_t::boolean:
            node.kind = NodeKind::Boolean;
            node.boolean = value.as_boolean(std::nothrow);
            node.source = text_.substr(first, last - first);
            break;
        case toml::value_t::integer:
            node.kind = NodeKind::Integer;
            node.integer = value.as_integer(std::nothrow);
            node.source = text_.substr(first, last - first);
            node.overflow = overflows(node.source);
            if (node.overflow) {
                node.integer = node.source.starts_with('-') ? std::numeric_limits<int64_t>::min()
                                                            : std::numeric_limits<int64_t>::max();
            }
            break;
        case toml::value_t::floating:
            node.kind = NodeKind::Real;
            node.real = value.as_floating(std::nothrow);
            node.source = text_.substr(first, last - first);
            break;
        case toml::value_t::string:
            node.kind = NodeKind::Text;
            node.text = value.as_string(std::nothrow).str;
            break;
        case toml::value_t::array:
            node.kind = NodeKind::List;
            for (const toml::value& item : value.as_array(std::nothrow)) {
                node.items.push_back(build(item));
            }
            break;
        case toml::value_t::table:
            node.kind = NodeKind::Table;
            add_members(node, value.as_table(std::nothrow));
            break;
        default:
            node.kind = NodeKind::Time;
            node.source = text_.substr(first, last - first);
            break;
        }
        return node;
    }

  private:
    // Byte offsets of a value in the text. toml11 3 keeps them in its region; location() would
    // count lines anew for every value. Empty for the root table, and whatever else has no region
    // of its own.
    std::pair<size_t, size_t> extent(const toml::value& value) const {
        const auto* region =
            dynamic_cast<const toml::detail::region*>(toml::detail::get_region(value));
        if (region == nullptr) {
            return {0, 0};
        }
        const auto first = static_cast<size_t>(region->first() - region->begin());
        const auto last = static_cast<size_t>(region->last() - region->begin());
        const size_t begin = std::min(first, text_.size());
        return {begin, std::clamp(last, begin, text_.size())};
    }
    // toml11 silently returns the largest integer, or a wrapped one.
    static bool overflows(std::string_view source) {
        std::string digits;
        for (const char character : source) {
            if (character != '_' && character != '+') {
                digits += character;
            }
        }
        int base = 10;
        if (digits.starts_with("0x")) {
            base = 16;
        } else if (digits.starts_with("0o")) {
            base = 8;
        } else if (digits.starts_with("0b")) {
            base = 2;
        }
        const char* begin = digits.data() + (base == 10 ? 0 : 2);
        int64_t value = 0;
        return std::from_chars(begin, digits.data() + digits.size(), value, base).ec != std::errc{};
    }
    void add_members(Node& node, const toml::table& table) const {
        for (const auto& [key, value] : table) {
            Member member{key, {}, build(value)};
            member.key_place = lines_.place(key_offset(text_, extent(value).first));
            node.members.push_back(std::move(member));
        }
        std::sort(
            node.members.begin(), node.members.end(), [](const Member& left, const Member& right) {
                return std::tie(left.key_place, left.key) < std::tie(right.key_place, right.key);
            });
    }

    std::string_view text_;
    LineIndex lines_;
};

struct SyntaxMessage {
    std::string_view fragment;  // part of toml11's text
    std::string_view message;
    std::string_view expected;
};

constexpr std::string_view kValueForms =
    "a string in quotes, a number, true, false, a list or a table";
constexpr std::array<SyntaxMessage, 17> kSyntaxMessages = {{
    {"missing value after", "no value after \"=\"", kValueForms},
    {"missing key-value separator", "no \"=\" after the key", "KEY = VALUE"},
    {"empty key is not allowed", "no key before \"=\"", "KEY = VALUE"},
    {"an invalid key appeared", "invalid key",
     R"(letters, digits, "_" and "-", or a key in quotes)"},
    {"invalid utf8", "invalid UTF-8", "UTF-8 text"},
    {"utf8_codepoint", "invalid Unicode escape", "a code point below 0x110000, no surrogate"},
    {"multiline", "invalid or unterminated string", "three closing quotes"},
    {"valid string", "invalid or unterminated string",
     "a closing quote on the same line and the escapes of TOML"},
    {"literal string", "invalid or unterminated string", "a closing quote on the same line"},
    {"parse_array", "list is not closed or lacks a comma", R"("," or "]")"},
    {"inline_table", "inline table is not closed or lacks a comma",
     R"("," or "}" on the same line)"},
    {"newline", "text after the end of the value", "the end of the line, or quotes around a text"},
    {"invalid line format", "text after the end of the value", "the end of the line"},
    {"bad integer", "invalid number", "an integer without leading zeros"},
    {"invalid date", "invalid date", "a date as in RFC 3339"},
    {"invalid time", "invalid time", "a time as in RFC 3339"},
    {"already exists", "defined twice", "each key once"},
}};

// toml11 puts the position into its text, as "LINE | source" and below it " | ^" or "~" under the
// column; the exception's own location is often an earlier line. The last such mark is at the
// mistake.
std::optional<Place> place_in(std::string_view text) {
    std::optional<Place> found;
    size_t number = 0;
    size_t bar = 0;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const size_t separator = line.find(" | ");
        const size_t first = line.find_first_not_of(' ');
        if (separator == std::string_view::npos || first == std::string_view::npos) {
            continue;
        }
        size_t value = 0;
        const auto [stop, error] =
            std::from_chars(line.data() + first, line.data() + separator, value);
        if (error == std::errc{} && stop == line.data() + separator) {
            number = value;
            bar = separator;
            continue;
        }
        const size_t mark = line.find_first_of("^~", separator);
        if (number != 0 && separator == bar && mark != std::string_view::npos &&
            line.find_first_not_of(' ', separator + 3) == mark) {
            found = Place{static_cast<uint32_t>(number), static_cast<uint32_t>(mark - bar - 2)};
            number = 0;
        }
    }
    return found;
}

// Errors of toml11 whose `what` needs better words or another place.
class SyntaxReport {
  public:
    SyntaxReport(std::string_view what, std::string_view text)
        : head_(what.substr(0, what.find('\n')))
        , text_(text)
        , lines_(text)
        , at_(lines_.offset(place_in(what).value_or(Place{}))) {}

    void send(DiagnosticSink& sink) const {
        const size_t quoted = head_.find("(\"");
        if (quoted != std::string_view::npos && says("insert_value")) {
            const size_t end = std::max(head_.rfind("\")"), quoted + 2);
            const std::string_view name = head_.substr(quoted + 2, end - quoted - 2);
            sink.error(lines_.place(key_offset(text_, at_)),
                       "\"" + printable(name) + "\" is defined twice", "each key once");
        } else if (is_open_header()) {
            sink.error(lines_.place(at_), "header is not closed",
                       R"("]" after the name of a table, "]]" after that of a list of tables)");
        } else if (says("an invalid key appeared") && is_in_inline_table()) {
            sink.error(lines_.place(at_), "inline table goes over the end of the line",
                       R"("}" on the same line, or a [table] with its own lines)");
        } else if (says("inline_table") && text_.substr(at_, 1) == "}") {
            sink.error(lines_.place(at_), "comma behind the last key of an inline table",
                       R"("}" without a comma)");
        } else if (says("newline") && is_header()) {
            sink.error(lines_.place(at_), "text after the end of the header",
                       "the end of the line");
        } else {
            send_translated(sink);
        }
    }

  private:
    bool says(std::string_view fragment) const {
        return head_.find(fragment) != std::string_view::npos;
    }
    std::string_view line() const {
        const size_t begin = at_ == 0 ? 0 : text_.rfind('\n', at_ - 1) + 1;
        return text_.substr(begin, text_.find('\n', begin) - begin);
    }
    bool is_header() const {
        const size_t first = line().find_first_not_of(" \t");
        return first != std::string_view::npos && line()[first] == '[';
    }
    // The line is "[name" or "[[name]", with blanks and a comment at most behind it.
    bool is_open_header() const {
        const std::string_view header = line().substr(0, line().find('#'));
        const bool is_list = header.find("[[") != std::string_view::npos;
        return says("an invalid key appeared") && is_header() &&
               header.find('=') == std::string_view::npos &&
               header.find(is_list ? "]]" : "]") == std::string_view::npos;
    }
    // Nothing but a comment follows, and a brace of this line is open.
    bool is_in_inline_table() const {
        const size_t next = text_.find_first_not_of(" \t\r", at_);
        const bool is_last =
            next == std::string_view::npos || text_[next] == '\n' || text_[next] == '#';
        const std::string_view before = line();
        return is_last && std::count(before.begin(), before.end(), '{') >
                              std::count(before.begin(), before.end(), '}');
    }
    void send_translated(DiagnosticSink& sink) const {
        for (const SyntaxMessage& entry : kSyntaxMessages) {
            if (says(entry.fragment)) {
                sink.error(lines_.place(start_of(entry)), std::string(entry.message),
                           std::string(entry.expected));
                return;
            }
        }
        sink.error(lines_.place(at_), "invalid value", std::string(kValueForms));
    }
    // toml11 marks the end of dates, times and Unicode escapes.
    size_t start_of(const SyntaxMessage& entry) const {
        size_t at = at_;
        if (entry.message == "invalid date" || entry.message == "invalid time") {
            while (at > 0 &&
                   (std::string_view("-:.+TZtz").find(text_[at - 1]) != std::string::npos ||
                    (text_[at - 1] >= '0' && text_[at - 1] <= '9'))) {
                --at;
            }
        } else if (entry.message == "invalid Unicode escape") {
            const size_t escape = text_.substr(0, at_).rfind('\\');
            at = escape == std::string_view::npos ? at_ : escape;
        }
        return at;
    }

    std::string_view head_;
    std::string_view text_;
    LineIndex lines_;
    size_t at_;
};

}  // namespace

std::optional<Node> parse_toml(std::string_view text, DiagnosticSink& sink) {
    if (const auto violation = LimitCheck(text).run()) {
        sink.error(LineIndex(text).place(violation->offset), std::string(violation->message),
                   violation->expected);
        return std::nullopt;
    }
    try {
        std::istringstream stream{std::string(text)};
        const toml::value root = toml::parse(stream, std::string("-"));
        return TreeBuilder(text).build(root);
    } catch (const toml::exception& exception) {
        SyntaxReport(exception.what(), text).send(sink);
    } catch (const std::exception& exception) {
        SyntaxReport(exception.what(), text).send(sink);
    }
    return std::nullopt;
}

}  // namespace continuo::config
