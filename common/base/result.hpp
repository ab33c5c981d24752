// Result<T>: a value or an Error, for failures of peers, of the system and at start. The public
// names are a strict subset of C++23 std::expected, so that a later move is mechanical. Verdicts of
// the packet path are not errors: they are a DropReason and a counter.
#pragma once

#include "common/base/assert.hpp"

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace continuo::base {

// Few and stable: they become metric labels.
enum class Errc : uint8_t {
    Truncated,      // input ends early
    Malformed,      // input breaks the format
    Unsupported,    // version, type or option we do not speak
    Unauthentic,    // tag or binder wrong
    Replayed,       // sequence number seen before
    UnknownKey,     // no key, session or identity of that name
    LimitReached,   // a named limit is full
    WouldBlock,     // try again after the next readiness
    System,         // sys_errno says why
    InvalidState,   // the call does not fit the object's state
    InvalidConfig,  // configuration is wrong
    NotFound,
};

std::string_view to_string(Errc code);

// No allocation: `where` points to static text. Text for people is made by the daemon.
struct Error {
    Errc code = Errc::Malformed;
    std::string_view where;
    int sys_errno = 0;
};

template <typename T>
class [[nodiscard]] Result {
  public:
    using value_type = T;  // NOLINT(readability-identifier-naming): std::expected's name
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, error) {}

    bool has_value() const { return state_.index() == 0; }
    explicit operator bool() const { return has_value(); }
    T& value() & {
        CTN_ASSERT(has_value());
        return *std::get_if<0>(&state_);
    }
    const T& value() const& {
        CTN_ASSERT(has_value());
        return *std::get_if<0>(&state_);
    }
    T&& value() && {
        CTN_ASSERT(has_value());
        return std::move(*std::get_if<0>(&state_));
    }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    const Error& error() const {
        CTN_ASSERT(state_.index() == 1);
        return *std::get_if<1>(&state_);
    }

  private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    using value_type = void;  // NOLINT(readability-identifier-naming): std::expected's name
    Result() = default;
    Result(Error error) : error_(error), failed_(true) {}

    bool has_value() const { return !failed_; }
    explicit operator bool() const { return has_value(); }
    void value() const { CTN_ASSERT(has_value()); }
    const Error& error() const {
        CTN_ASSERT(failed_);
        return error_;
    }

  private:
    Error error_;
    bool failed_ = false;
};

namespace detail {
inline void unwrap(Result<void>&& /*result*/) {}
template <typename T>
T unwrap(Result<T>&& result) {
    return std::move(result).value();
}
}  // namespace detail

}  // namespace continuo::base

// Gives the value of `expression`, or returns its error from the calling function.
#define CTN_TRY(expression)                                                                        \
    __extension__({                                                                                \
        auto ctn_result = (expression);                                                            \
        if (!ctn_result) {                                                                         \
            return ctn_result.error();                                                             \
        }                                                                                          \
        ::continuo::base::detail::unwrap(std::move(ctn_result));                                   \
    })
