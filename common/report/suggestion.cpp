#include "common/report/suggestion.hpp"

#include <algorithm>
#include <vector>

namespace continuo::report {
namespace {

// Longer words are not compared.
constexpr size_t kLongestWord = 64;
constexpr size_t kLongWord = 6;
constexpr size_t kShortestBeginning = 2;

// Optimal string alignment distance: the Levenshtein distance with swaps of neighbours.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) {
        for (size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                rows[i][j] = i + j;
                continue;
            }
            const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            rows[i][j] =
                std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
            }
        }
    }
    return rows[a.size()][b.size()];
}

}  // namespace

std::string_view suggestion(std::string_view word, std::span<const std::string_view> known) {
    if (word.empty() || word.size() > kLongestWord) {
        return {};
    }
    const auto begins_so = [word](std::string_view candidate) {
        return candidate.starts_with(word);
    };
    if (word.size() >= kShortestBeginning &&
        std::count_if(known.begin(), known.end(), begins_so) == 1) {
        return *std::find_if(known.begin(), known.end(), begins_so);
    }
    size_t most = word.size() >= kLongWord ? 2 : 1;
    std::string_view nearest;
    for (const std::string_view candidate : known) {
        if (const size_t apart = distance(word, candidate); apart <= most) {
            nearest = nearest.empty() || apart < most ? candidate : nearest;
            most = apart;
        }
    }
    return nearest;
}

}  // namespace continuo::report
