// Integers that do not mix: StrongId<struct FlowTag, uint64_t>. Comparable, hashable, explicit both
// ways.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace continuo::base {

template <typename Tag, typename T>
class StrongId {
  public:
    using Underlying = T;
    constexpr StrongId() = default;
    constexpr explicit StrongId(T value) : value_(value) {}
    constexpr T value() const { return value_; }
    constexpr auto operator<=>(const StrongId&) const = default;

  private:
    T value_{};
};

}  // namespace continuo::base

template <typename Tag, typename T>
struct std::hash<continuo::base::StrongId<Tag, T>> {
    size_t operator()(continuo::base::StrongId<Tag, T> id) const noexcept {
        return std::hash<T>{}(id.value());
    }
};
