// One line a message on stderr, with a level. Layers below the daemons log at Debug only.
// Thread-safe.
#pragma once

#include <cstdint>

namespace continuo::base {

enum class LogLevel : uint8_t { Error, Warning, Info, Debug };

void set_log_level(LogLevel level);
bool is_logged(LogLevel level);
// printf form; a line feed is added, those within become blanks. What a terminal would obey is
// written out (printable.hpp).
[[gnu::format(printf, 2, 3)]] void log(LogLevel level, const char* format, ...);

}  // namespace continuo::base
