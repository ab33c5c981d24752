#include "common/base/log.hpp"

#include "common/base/printable.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace continuo::base {
namespace {

std::atomic<LogLevel> g_level = LogLevel::Info;
std::atomic<LogStamp> g_stamp = nullptr;

// sd-daemon(3) prefixes would hide the level on a terminal; words serve both.
constexpr std::array<const char*, 4> kLevelNames = {"error: ", "warning: ", "", "debug: "};

}  // namespace

void set_log_level(LogLevel level) {
    g_level = level;
}

void set_log_stamp(LogStamp stamp) {
    g_stamp = stamp;
}

bool is_logged(LogLevel level) {
    return level <= g_level.load(std::memory_order_relaxed);
}

// NOLINTNEXTLINE(cert-dcl50-cpp): printf's form, checked by the compiler
void log(LogLevel level, const char* format, ...) {
    if (!is_logged(level)) {
        return;
    }
    std::array<char, 1024> line{};
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line.data(), line.size(), format, arguments);
    va_end(arguments);
    std::string text(line.data());
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    const LogStamp stamp = g_stamp.load(std::memory_order_relaxed);
    std::fprintf(stderr, "%s%s%s\n", stamp == nullptr ? "" : stamp().c_str(),
                 kLevelNames.at(static_cast<size_t>(level)), printable(text).c_str());
}

}  // namespace continuo::base
