#include "rating/utility_table.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace continuo::rating {
namespace {

// Derivatives of `f` at the knots `grid`: inside by three points, at the ends the slope of the one
// side.
std::vector<double> derivative(const std::vector<double>& grid, const std::vector<double>& f) {
    const size_t count = grid.size();
    std::vector<double> widths(count - 1);
    std::vector<double> slopes(count - 1);
    for (size_t i = 0; i + 1 < count; ++i) {
        widths[i] = grid[i + 1] - grid[i];
        slopes[i] = (f[i + 1] - f[i]) / widths[i];
    }
    std::vector<double> result(count);
    result.front() = slopes.front();
    result.back() = slopes.back();
    for (size_t i = 1; i + 1 < count; ++i) {
        result[i] =
            (widths[i - 1] * slopes[i] + widths[i] * slopes[i - 1]) / (widths[i - 1] + widths[i]);
    }
    return result;
}

// The knots around a place, and how far it is from the first to the second.
struct Cell {
    size_t first = 0;
    double share = 0;
};

Cell cell_of(const std::vector<double>& grid, double at) {
    const double inside = std::clamp(at, grid.front(), grid.back());
    const auto next = std::upper_bound(grid.begin(), grid.end(), inside);
    const auto found = static_cast<size_t>(next - grid.begin()) - 1;
    const size_t first = std::min(found, grid.size() - 2);
    return {first, (inside - grid[first]) / (grid[first + 1] - grid[first])};
}

double
between(const std::vector<double>& values, size_t columns, const Cell& row, const Cell& column) {
    const double* const low = values.data() + row.first * columns + column.first;
    const double* const high = low + columns;
    const double a = row.share;
    const double b = column.share;
    return (low[0] * (1 - a) + high[0] * a) * (1 - b) + (low[1] * (1 - a) + high[1] * a) * b;
}

bool are_knots(const std::vector<double>& grid) {
    return grid.size() >= kMinKnots && grid.size() <= kMaxKnots &&
           std::adjacent_find(grid.begin(), grid.end(), std::greater_equal<>()) == grid.end();
}

}  // namespace

UtilityTable::UtilityTable(UtilityKnots knots) : knots_(std::move(knots)) {
    const std::vector<double>& x = knots_.x_kbps;
    const std::vector<double>& d = knots_.d_ms;
    const std::vector<double>& u = knots_.u_denarii_per_s;
    CTN_ASSERT(are_knots(x) && are_knots(d) && u.size() == x.size() * d.size());
    du_dx_.resize(u.size());
    std::vector<double> column(x.size());
    for (size_t j = 0; j < d.size(); ++j) {
        for (size_t i = 0; i < x.size(); ++i) {
            column[i] = u[i * d.size() + j];
        }
        const std::vector<double> slopes = derivative(x, column);
        for (size_t i = 0; i < x.size(); ++i) {
            du_dx_[i * d.size() + j] = slopes[i];
        }
    }
    for (size_t i = 0; i < x.size(); ++i) {
        const auto row = u.begin() + static_cast<std::ptrdiff_t>(i * d.size());
        const std::vector<double> slopes =
            derivative(d, {row, row + static_cast<std::ptrdiff_t>(d.size())});
        du_dd_.insert(du_dd_.end(), slopes.begin(), slopes.end());
    }
}

double UtilityTable::utility_at(double x_kbps, double d_ms) const {
    return between(knots_.u_denarii_per_s, knots_.d_ms.size(), cell_of(knots_.x_kbps, x_kbps),
                   cell_of(knots_.d_ms, d_ms));
}

Slopes UtilityTable::slopes_at(double x_kbps, double d_ms) const {
    const Cell row = cell_of(knots_.x_kbps, x_kbps);
    const Cell column = cell_of(knots_.d_ms, d_ms);
    const size_t columns = knots_.d_ms.size();
    return {between(du_dx_, columns, row, column), between(du_dd_, columns, row, column)};
}

}  // namespace continuo::rating
