// Targets of requests, JSON with large numbers, and files of tokens: whatever the bytes are.
#include "snapt/rest/api.hpp"
#include "snapt/rest/target.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace continuo::rest;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto target = parse_target(text)) {
        if (target->path.size() > kMaxPathSegments || target->query.size() > kMaxParameters) {
            std::abort();
        }
        for (const auto& [name, value] : target->query) {
            if (target->value(name) != value) {
                std::abort();
            }
        }
    }
    const std::string once = with_large_as_text(text);
    if (once.size() < size || with_large_as_text(once) != once) {
        std::abort();
    }
    return 0;
}
