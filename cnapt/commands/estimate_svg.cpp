#include "cnapt/commands/estimate_svg.hpp"

#include "common/report/table.hpp"

#include <algorithm>

namespace continuo::cnapt::commands {

namespace {

constexpr int kWidth = 720;
constexpr int kLeft = 70;
constexpr int kRight = 230;
constexpr int kBar = 18;
constexpr int kGroup = 2 * kBar + 16;
constexpr int kTop = 40;

std::string text_at(int x, int y, const std::string& text, const char* more = "") {
    return R"(<text x=")" + std::to_string(x) + R"(" y=")" + std::to_string(y) + "\"" + more + ">" +
           text + "</text>\n";
}

std::string bar_at(int y, uint64_t bytes, uint64_t most, const char* colour) {
    const auto width = static_cast<int>(static_cast<double>(bytes) / static_cast<double>(most) *
                                        (kWidth - kLeft - kRight));
    return R"(<rect x=")" + std::to_string(kLeft) + R"(" y=")" + std::to_string(y) +
           R"(" width=")" + std::to_string(std::max(width, bytes > 0 ? 1 : 0)) + R"(" height=")" +
           std::to_string(kBar) + R"(" fill=")" + colour + "\"/>\n" +
           text_at(kLeft + width + 6, y + kBar - 5, report::format_bytes(bytes));
}

}  // namespace

std::optional<double> saved_percent(uint64_t before, uint64_t after) {
    if (before == 0) {
        return std::nullopt;
    }
    return 100.0 * (static_cast<double>(before) - static_cast<double>(after)) /
           static_cast<double>(before);
}

std::string estimate_svg(const std::vector<EstimateBar>& bars) {
    constexpr const char* kWithout = "#9aa2ae";
    constexpr const char* kWith = "#0b57d0";
    uint64_t most = 1;
    for (const EstimateBar& bar : bars) {
        most = std::max({most, bar.sums.inner_bytes, bar.sums.wire_bytes});
    }
    const int height = kTop + static_cast<int>(bars.size()) * kGroup;
    std::string svg = R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" +
                      std::to_string(kWidth) + R"(" height=")" + std::to_string(height) +
                      R"(" role="img" aria-label="Bytes without and with the tunnel, by class")"
                      R"( font-family="sans-serif" font-size="12">)"
                      "\n"
                      R"(<rect width="100%" height="100%" fill="#ffffff"/>)"
                      "\n";
    svg += text_at(kLeft, 20, "bytes without (grey) and with (blue) the tunnel");
    int y = kTop;
    for (const EstimateBar& bar : bars) {
        svg += text_at(kLeft - 8, y + kBar + 4, bar.name, R"( text-anchor="end")");
        svg += bar_at(y, bar.sums.inner_bytes, most, kWithout);
        svg += bar_at(y + kBar, bar.sums.wire_bytes, most, kWith);
        const auto saved = saved_percent(bar.sums.inner_bytes, bar.sums.wire_bytes);
        svg += text_at(kWidth - 8, y + kBar + 4, "saved " + report::format_percent(saved),
                       R"( text-anchor="end")");
        y += kGroup;
    }
    return svg + "</svg>\n";
}

}  // namespace continuo::cnapt::commands
