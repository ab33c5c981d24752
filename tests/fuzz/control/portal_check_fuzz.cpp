// The question for a captive portal, parsed by a SNAPT, and its answer, parsed by a node. The first
// byte chooses.
#include "common/base/assert.hpp"
#include "common/control/portal_check.hpp"

#include <algorithm>

namespace {

namespace base = continuo::base;
namespace control = continuo::control;

// A request that parses has nonce and tag, and is longer than any answer; truncated it is no
// request.
void check_request(base::ByteView bytes) {
    const auto input = control::parse_portal_request(bytes);
    CTN_ASSERT(!input.needs_more || !input.request);
    if (!input.request) {
        return;
    }
    CTN_ASSERT(control::format_portal_answer({}).size() <= bytes.size());
    const std::string again = control::format_portal_request(*input.request, "h");
    const base::ByteView view(static_cast<const uint8_t*>(static_cast<const void*>(again.data())),
                              again.size());
    const auto second = control::parse_portal_request(view);
    CTN_ASSERT(second.request && second.request->nonce == input.request->nonce &&
               second.request->tag == input.request->tag);
}

void check_answer(base::ByteView bytes) {
    control::PortalTag expected{};
    const auto answer = control::judge_portal_answer(bytes, expected, "203.0.113.9:9347");
    CTN_ASSERT(answer.url.empty() || answer.verdict == control::PortalVerdict::Portal);
    CTN_ASSERT(answer.url.size() <= control::kMaxPortalUrlBytes);
    CTN_ASSERT(std::all_of(answer.url.begin(), answer.url.end(), [](char c) {
        return c > ' ' && c < '\x7F' && c != '"' && c != '\'' && c != '`' && c != '$' && c != '\\';
    }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    const base::ByteView rest(data + 1, size - 1);
    if (data[0] % 2 == 0) {
        check_request(rest);
    } else {
        check_answer(rest);
    }
    return 0;
}
