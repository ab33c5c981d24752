#include "common/io/cpu_pressure.hpp"

#include <array>
#include <charconv>

#include <fcntl.h>
#include <unistd.h>

namespace continuo::io {

CpuPressure::CpuPressure() : file_(::open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC)) {}

std::optional<base::Duration> CpuPressure::waited() const {
    std::array<char, 256> text{};
    const ssize_t length =
        file_.is_open() ? ::pread(file_.value(), text.data(), text.size(), 0) : ssize_t{-1};
    return length > 0 ? parse({text.data(), static_cast<size_t>(length)}) : std::nullopt;
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345"; other lines follow.
std::optional<base::Duration> CpuPressure::parse(std::string_view text) {
    constexpr std::string_view kTotal = " total=";
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t at = line.find(kTotal);
    if (!line.starts_with("some ") || at == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view number = line.substr(at + kTotal.size());
    uint64_t us = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), us);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size();
    if (!is_number || us > static_cast<uint64_t>(INT64_MAX / 1000)) {
        return std::nullopt;
    }
    return base::microseconds(us);
}

}  // namespace continuo::io
