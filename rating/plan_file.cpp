#include "common/config/section.hpp"
#include "rating/plan.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace continuo::rating {
namespace {

using config::Choice;
using config::Node;
using config::NodeKind;
using config::Section;

constexpr std::array<Choice<DiscountBasis>, 2> kBases = {
    {{"saved", DiscountBasis::Saved}, {"pre", DiscountBasis::Pre}}};

std::optional<double> number_of(const Node& node) {
    if (node.kind == NodeKind::Integer && !node.overflow) {
        return static_cast<double>(node.integer);
    }
    return node.kind == NodeKind::Real && std::isfinite(node.real) ? std::optional(node.real)
                                                                   : std::nullopt;
}

std::string text_of(double value) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                   std::chars_format::general, 10);
    return {text.data(), end.ptr};
}

std::optional<std::string_view> check_plan_name(std::string_view text) {
    return is_plan_name(text) ? std::nullopt
                              : std::optional<std::string_view>(
                                    "a letter, then letters, digits and . _ -, at most 64 in all");
}

double required_number(Section& section, std::string_view key, double minimum, double maximum) {
    const double value = section.number(key, minimum, minimum, maximum);
    if (!section.has(key)) {
        section.missing(key, "a number from " + text_of(minimum) + " to " + text_of(maximum));
    }
    return value;
}

// A list of numbers, each above the one before. Empty when something is wrong with it.
std::vector<double> read_knots(Section& section, std::string_view key, double maximum) {
    const Node* node = section.find(key);
    const std::string expected = "a list of " + std::to_string(kMinKnots) + " to " +
                                 std::to_string(kMaxKnots) + " numbers, each above the one before";
    if (node == nullptr) {
        section.missing(key, expected);
        return {};
    }
    if (node->kind != NodeKind::List || node->items.size() < kMinKnots ||
        node->items.size() > kMaxKnots) {
        section.error_at(*node,
                         config::quote(key) +
                             (node->kind != NodeKind::List
                                  ? " is " + node->describe()
                                  : " has " + std::to_string(node->items.size()) + " numbers"),
                         expected);
        return {};
    }
    std::vector<double> knots;
    bool is_good = true;
    for (const Node& item : node->items) {
        const std::optional<double> value = number_of(item);
        const double minimum = knots.empty() ? 0 : knots.back() + kMinKnotStep;
        if (!value || *value < minimum || *value > maximum) {
            section.reject_item(key, item,
                                "a number from " + text_of(minimum) + " to " + text_of(maximum));
            is_good = false;
        } else {
            knots.push_back(*value);
        }
    }
    return is_good ? knots : std::vector<double>();
}

// Appends a row of utilities. False when it has not `count` numbers.
bool read_row(Section& section, const Node& row, size_t count, std::vector<double>& utilities) {
    if (row.kind != NodeKind::List || row.items.size() != count) {
        section.error_at(row,
                         row.kind == NodeKind::List
                             ? "a row of \"u\" has " + std::to_string(row.items.size()) + " numbers"
                             : "\"u\" holds " + row.describe(),
                         "a list of " + std::to_string(count) + ", one for each of \"d_ms\"");
        return false;
    }
    bool is_good = true;
    for (const Node& item : row.items) {
        const std::optional<double> value = number_of(item);
        if (!value || std::abs(*value) > kMaxUtility) {
            section.reject_item("u", item,
                                "a number from " + text_of(-kMaxUtility) + " to " +
                                    text_of(kMaxUtility));
            is_good = false;
        }
        utilities.push_back(value.value_or(0));
    }
    return is_good;
}

// More throughput must not be worth less, nor more delay worth more, so that neither derivative has
// the wrong sign. Reports the first fault in each row.
bool check_order(Section& section, const Node& node, const UtilityKnots& knots) {
    const size_t columns = knots.d_ms.size();
    const std::vector<double>& u = knots.u_denarii_per_s;
    bool is_good = true;
    for (size_t i = 0; i < knots.x_kbps.size(); ++i) {
        for (size_t j = 0; j < columns; ++j) {
            const size_t at = i * columns + j;
            const bool rises = j > 0 && u[at] > u[at - 1];
            const bool falls = i > 0 && u[at] < u[at - columns];
            if (!rises && !falls) {
                continue;
            }
            section.error_at(
                node.items[i].items[j],
                "\"u\" " + std::string(rises ? "rises" : "falls") + " from " +
                    text_of(u[rises ? at - 1 : at - columns]) + " to " + text_of(u[at]) +
                    (rises ? " with the delay" : " with the throughput"),
                rises ? "at most as much as to the left" : "at least as much as above");
            is_good = false;
            break;
        }
    }
    return is_good;
}

// Nothing when something is wrong.
std::optional<UtilityTable> read_utility(Section& section) {
    UtilityKnots knots;
    knots.x_kbps = read_knots(section, "x_kbps", kMaxRateKbps);
    knots.d_ms = read_knots(section, "d_ms", kMaxDelayMs);
    const Node* node = section.find("u");
    if (node == nullptr) {
        section.missing("u", "a list of rows, one for each of \"x_kbps\"");
        return std::nullopt;
    }
    if (knots.x_kbps.empty() || knots.d_ms.empty()) {
        return std::nullopt;
    }
    if (node->kind != NodeKind::List || node->items.size() != knots.x_kbps.size()) {
        section.error_at(*node,
                         node->kind == NodeKind::List
                             ? "\"u\" has " + std::to_string(node->items.size()) + " rows"
                             : "\"u\" is " + node->describe(),
                         "a list of " + std::to_string(knots.x_kbps.size()) +
                             " rows, one for each of \"x_kbps\"");
        return std::nullopt;
    }
    bool is_good = true;
    for (const Node& row : node->items) {
        is_good = read_row(section, row, knots.d_ms.size(), knots.u_denarii_per_s) && is_good;
    }
    if (!is_good || !check_order(section, *node, knots)) {
        return std::nullopt;
    }
    return UtilityTable(std::move(knots));
}

ClassTerms read_class(Section& section) {
    ClassTerms terms;
    if (auto utility = read_utility(section)) {
        terms.utility = std::move(*utility);
    }
    terms.k_x = required_number(section, "k_x", kMinKx, kMaxK);
    terms.k_d = section.number("k_d", 0, -kMaxK, 0);
    section.finish();
    return terms;
}

void read_classes(Section& plan_section, Plan& plan) {
    Section classes = plan_section.child("class");
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const std::string_view token = base::token(traffic_class);
        Section section = classes.child(token);
        if (section.is_present()) {
            plan.classes[base::index_of(traffic_class)] = read_class(section);
        } else if (!classes.has(token)) {
            plan_section.error("class", "no table [plan.class." + std::string(token) + "]",
                               "a table for each of the four classes");
        }
    }
    classes.finish();
}

// A reward goes to the user whose node carried the traffic, and nobody tells a SNAPT of such a
// node.
void refuse_reward(Section& section, double sharer_share) {
    if (sharer_share != 0) {
        section.error("sharer_share",
                      "\"sharer_share\" is " + text_of(sharer_share) +
                          ", but no reward can be booked: no SNAPT knows whose node carried "
                          "another user's traffic",
                      "0");
    }
}

void read_discount(Section& plan_section, PlanUse use, Discount& discount) {
    Section section = plan_section.child("discount");
    discount.basis = section.choice<DiscountBasis>("basis", DiscountBasis::Saved, kBases);
    discount.rho_denarii_per_mb = section.number("rho_denarii_per_mb", 0, 0, kMaxPrice);
    discount.cap = section.number("cap", 0, 0, 1);
    discount.sharer_share = section.number("sharer_share", 0, 0, 1);
    if (use == PlanUse::New) {
        refuse_reward(section, discount.sharer_share);
    }
    if (section.is_present() && !section.has("cap")) {
        section.missing("cap", "the largest share of a charge, 0 to 1");
    }
    section.finish();
}

Plan read_plan(Section& root, PlanUse use) {
    Plan plan;
    (void)root.integer<int>("version", 1, 1, 1);
    Section section = root.child("plan");
    if (!section.is_present()) {
        if (!root.has("plan")) {
            root.missing("plan", "a table [plan]");
        }
        root.finish();
        return plan;
    }
    plan.name = section.required_text("name", "the name of the plan", check_plan_name);
    plan.is_calibrated = section.boolean("calibrated", false);
    plan.delay_unknown_ms = required_number(section, "delay_unknown_ms", 0, kMaxDelayMs);
    plan.p_min = section.number("p_min_denarii_per_vu", 0, 0, kMaxPrice);
    plan.p_max = required_number(section, "p_max_denarii_per_vu", 0, kMaxPrice);
    if (section.has("p_max_denarii_per_vu") && plan.p_min > plan.p_max) {
        section.error("p_min_denarii_per_vu",
                      "\"p_min_denarii_per_vu\" is " + text_of(plan.p_min) +
                          ", above \"p_max_denarii_per_vu\"",
                      "at most " + text_of(plan.p_max));
    }
    read_discount(section, use, plan.discount);
    read_classes(section, plan);
    section.finish();
    root.finish();
    return plan;
}

}  // namespace

std::string_view to_string(DiscountBasis basis) {
    return kBases[static_cast<size_t>(basis)].name;
}

bool is_plan_name(std::string_view text) {
    constexpr size_t kMaxBytes = 64;
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto may_follow = [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    };
    return !text.empty() && text.size() <= kMaxBytes && is_letter(text.front()) &&
           std::all_of(text.begin(), text.end(), may_follow);
}

ParsedPlan parse_plan(std::string_view text, const std::string& filename, PlanUse use) {
    ParsedPlan parsed;
    config::DiagnosticSink sink(filename);
    if (const auto tree = config::parse_toml(text, sink)) {
        Section root(*tree, "", sink);
        Plan plan = read_plan(root, use);
        if (!sink.has_errors()) {
            parsed.plan = std::make_shared<const Plan>(std::move(plan));
        }
    }
    parsed.diagnostics = sink.take();
    return parsed;
}

}  // namespace continuo::rating
