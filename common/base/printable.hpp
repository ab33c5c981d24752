// Text from outside (names of processes, users, nodes, SNAPTs) made safe for terminals and logs:
// characters that these would obey rather than show are escaped. For all printed or logged text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace continuo::base {

// The first character of a text, which must not be empty.
struct FrontCharacter {
    size_t bytes = 1;
    uint32_t code_point = 0;
    bool is_utf8 = true;  // otherwise one byte that starts no well-formed sequence
    // A character that is obeyed, not shown: C0, DEL, C1, writing direction. Bytes that are not
    // UTF-8 count too: a terminal of another character set may take them for C1.
    bool is_hidden = false;
};
FrontCharacter front_character(std::string_view text);

// The same text with each byte of a hidden character as \xNN.
std::string printable(std::string_view text);
// Hidden characters become \uNNNN, as in JSON, and invalid UTF-8 U+FFFD; characters in `kept` stay.
std::string printable_json(std::string_view text, std::string_view kept = {});
// Each hidden character is replaced by `mark`.
std::string replace_hidden(std::string_view text, char mark);

}  // namespace continuo::base
