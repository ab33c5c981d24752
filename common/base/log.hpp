// One line a message on stderr, with a level, and the time where a daemon gives one. Layers below
// the daemons log at Debug only. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace continuo::base {

enum class LogLevel : uint8_t { Error, Warning, Info, Debug };

void set_log_level(LogLevel level);
bool is_logged(LogLevel level);
// Sets the function whose text begins each line; null: none. Call it before the first thread
// starts.
using LogStamp = std::string (*)();
void set_log_stamp(LogStamp stamp);
// printf form; a line feed is added, those within become blanks. Control characters of a terminal
// are written out (printable.hpp).
[[gnu::format(printf, 2, 3)]] void log(LogLevel level, const char* format, ...);

}  // namespace continuo::base
