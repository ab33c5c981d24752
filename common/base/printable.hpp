// Text from outside (names of processes, users, nodes, SNAPTs) made safe for a terminal and a log:
// what they would obey, and not show, is written out. For all that is printed or logged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace continuo::base {

// The character at the front of a text that is not empty.
struct FrontCharacter {
    size_t bytes = 1;
    uint32_t code_point = 0;
    bool is_utf8 = true;  // else one byte that begins no well-formed sequence
    // Obeyed, not shown: C0, DEL, C1, directions of writing. Bytes that are not UTF-8 count as
    // such: they may be C1 to a terminal of another character set.
    bool is_hidden = false;
};
FrontCharacter front_character(std::string_view text);

// The same text with each byte of a hidden character as \xNN.
std::string printable(std::string_view text);
// With \uNNNN for each hidden character, as JSON has it, and U+FFFD for what is no UTF-8; those of
// `kept` stay.
std::string printable_json(std::string_view text, std::string_view kept = {});
// With `mark` for each hidden character.
std::string replace_hidden(std::string_view text, char mark);

}  // namespace continuo::base
