// CTN_ASSERT: our own mistakes. Stays on in release builds; prints place and expression, then
// aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace continuo::base {

[[noreturn]] inline void assertion_failed(const char* expression, const char* file, int line) {
    std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    std::abort();
}

}  // namespace continuo::base

#define CTN_ASSERT(expression)                                                                     \
    ((expression) ? static_cast<void>(0)                                                           \
                  : ::continuo::base::assertion_failed(#expression, __FILE__, __LINE__))
