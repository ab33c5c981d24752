// Every parser of operator's files: hostile text must give diagnostics, never a crash, and no
// errors always a result.
#include "classifier/ruleset.hpp"
#include "cnapt/settings/node_config.hpp"
#include "common/base/assert.hpp"
#include "common/config/units.hpp"
#include "common/report/json_value.hpp"
#include "rating/rate.hpp"
#include "snapt/snapt_config.hpp"

#include <cstddef>
#include <cstdint>

using continuo::config::has_errors;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string text(data, data + size);
    const auto policy = continuo::classifier::parse_policy(text, "f");
    CTN_ASSERT((policy.ruleset == nullptr) == has_errors(policy.diagnostics));
    const auto node = continuo::cnapt::settings::parse_node_config(text, "f");
    CTN_ASSERT(!node.config == has_errors(node.diagnostics));
    if (node.config) {
        const auto again = continuo::cnapt::settings::parse_node_config(
            continuo::cnapt::settings::render_node_config(*node.config), "f");
        CTN_ASSERT(again.config == node.config);
    }
    const auto snapt = continuo::snapt::parse_snapt_config(text, "f");
    CTN_ASSERT(!snapt.config == has_errors(snapt.diagnostics));
    const auto priced = continuo::rating::parse_plan(text, "f", continuo::rating::PlanUse::New);
    CTN_ASSERT((priced.plan == nullptr) == has_errors(priced.diagnostics));
    if (priced.plan) {
        continuo::rating::Usage usage;
        usage.payload_bytes = size << 20U;
        usage.pre_bytes = static_cast<int64_t>(size);
        const auto charge = continuo::rating::rate(*priced.plan, usage);
        CTN_ASSERT(charge.gross_ud >= 0 && charge.discount_ud >= 0 && charge.net_ud >= 0);
    }
    (void)continuo::config::parse_duration(text);
    (void)continuo::config::parse_quota(text);
    (void)continuo::config::parse_rate_bits_per_s(text);
    (void)continuo::report::JsonValue::parse(text);
    return 0;
}
