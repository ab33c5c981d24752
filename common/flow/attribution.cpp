#include "common/flow/attribution.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

namespace continuo::flow {
namespace {

void divide_by_running_sums(uint32_t total,
                            uint64_t weight_sum,
                            std::span<const uint32_t> weights,
                            std::span<uint32_t> shares) {
    // The carried remainder is below weight_sum, so that each share is its exact part rounded up or
    // down.
    uint64_t remainder = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
        remainder += uint64_t{total} * weights[i];
        shares[i] = static_cast<uint32_t>(remainder / weight_sum);
        remainder %= weight_sum;
    }
}

void add_to(const AttributionMember& member, uint32_t post_bytes, Direction direction) {
    LiveCounters& counters = *member.counters;
    const bool up = direction == Direction::Up;
    add(up ? counters.pre_up : counters.pre_down, member.pre_bytes);
    add(up ? counters.post_up : counters.post_down, post_bytes);
}

}  // namespace

void divide_in_proportion(uint32_t total,
                          std::span<const uint32_t> weights,
                          std::span<uint32_t> shares) {
    CTN_ASSERT(weights.size() == shares.size());
    if (weights.empty()) {
        return;
    }
    const uint64_t weight_sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
    if (weights.size() == 1 || weight_sum == 0) {
        std::fill(shares.begin(), shares.end(), 0U);
        shares[0] = total;
        return;
    }
    if (weights.size() > kMaxAttributionMembers) {
        divide_by_running_sums(total, weight_sum, weights, shares);
        return;
    }
    std::array<uint64_t, kMaxAttributionMembers> remainders;  // NOLINT(*-member-init): filled below
    uint32_t left = total;
    for (size_t i = 0; i < weights.size(); ++i) {
        const uint64_t part = uint64_t{total} * weights[i];
        shares[i] = static_cast<uint32_t>(part / weight_sum);
        remainders[i] = part % weight_sum;
        left -= shares[i];
    }
    if (left == 0) {
        return;
    }
    // The `left` largest remainders get one byte more: those above the smallest of them, then equal
    // ones in order.
    std::array<uint64_t, kMaxAttributionMembers> order;  // NOLINT(*-member-init): filled below
    const auto end = std::copy_n(remainders.begin(), weights.size(), order.begin());
    const auto smallest = order.begin() + (left - 1);
    std::nth_element(order.begin(), smallest, end, std::greater<>{});
    const uint64_t threshold = *smallest;
    const auto above = static_cast<uint32_t>(
        std::count_if(order.begin(), smallest, [&](uint64_t r) { return r > threshold; }));
    uint32_t equal = left - above;
    for (size_t i = 0; i < weights.size(); ++i) {
        if (remainders[i] > threshold) {
            ++shares[i];
        } else if (remainders[i] == threshold && equal > 0) {
            ++shares[i];
            --equal;
        }
    }
}

void attribute(std::span<const AttributionMember> members,
               uint32_t outer_bytes,
               Direction direction) {
    if constexpr (!kCounts) {
        return;
    }
    if (members.size() == 1) {
        add_to(members[0], outer_bytes, direction);
        return;
    }
    CTN_ASSERT(members.size() <= kMaxAttributionMembers);
    std::array<uint32_t, kMaxAttributionMembers> weights;  // NOLINT(*-member-init): filled below
    std::array<uint32_t, kMaxAttributionMembers> shares;   // NOLINT(*-member-init): filled below
    for (size_t i = 0; i < members.size(); ++i) {
        weights[i] = members[i].pre_bytes;
    }
    divide_in_proportion(outer_bytes, std::span(weights).first(members.size()),
                         std::span(shares).first(members.size()));
    for (size_t i = 0; i < members.size(); ++i) {
        add_to(members[i], shares[i], direction);
    }
}

}  // namespace continuo::flow
