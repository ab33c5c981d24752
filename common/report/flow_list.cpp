#include "common/report/flow_list.hpp"

#include "common/base/traffic_class.hpp"
#include "common/config/units.hpp"
#include "common/report/csv.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

namespace continuo::report {
namespace {

// A flow without a packet for this long is not in use. A choice, not measured (docs/OPERATIONS.md,
// Screens).
constexpr double kActiveSeconds = 10;
// The rank of the column that is left out first.
constexpr uint8_t kLastRank = 10;
constexpr uint8_t kEnoughState = 10;  // width at which it is cut on a narrow screen

struct OrderName {
    std::string_view name;
    FlowOrder order;
};
constexpr std::array<OrderName, 8> kOrders = {{{"active", FlowOrder::Active},
                                               {"bytes", FlowOrder::Bytes},
                                               {"up", FlowOrder::Up},
                                               {"down", FlowOrder::Down},
                                               {"age", FlowOrder::Age},
                                               {"process", FlowOrder::Process},
                                               {"class", FlowOrder::Class},
                                               {"destination", FlowOrder::Destination}}};
constexpr std::string_view kOrderNames =
    "active, bytes, up, down, age, process, class or destination";

bool is_over(const JsonValue& flow) {
    const auto state = flow["state"].string();
    return state == "closing" || state == "closed";
}

bool is_among(const std::vector<std::string>& wanted, const JsonValue& value) {
    return wanted.empty() ||
           std::find(wanted.begin(), wanted.end(), value.string().value_or("")) != wanted.end();
}

bool is_chosen(const JsonValue& flow, const FlowChoice& choice) {
    return (choice.with_closed || !is_over(flow)) && is_among(choice.classes, flow["class"]) &&
           is_among(choice.processes, flow["process"]) && is_among(choice.users, flow["user"]);
}

double number_of(const JsonValue& flow, std::string_view key) {
    return flow[key].number().value_or(0);
}

// A flow counts as active if an older daemon does not report its idle time.
bool is_active(const JsonValue& flow) {
    return !is_over(flow) && number_of(flow, "idle_s") < kActiveSeconds;
}

double bytes_of(const JsonValue& flow) {
    return number_of(flow, "inner_bytes_up") + number_of(flow, "inner_bytes_down");
}

size_t class_number(const JsonValue& flow) {
    for (const base::TrafficClass known : base::kAllTrafficClasses) {
        if (flow["class"].string() == base::token(known)) {
            return base::index_of(known);
        }
    }
    return base::kTrafficClasses;
}

// Flows in use by bytes carried, then the others by idle time.
bool comes_first(const JsonValue& a, const JsonValue& b) {
    if (is_active(a) != is_active(b)) {
        return is_active(a);
    }
    if (is_over(a) != is_over(b)) {
        return is_over(b);
    }
    return is_active(a) ? bytes_of(a) > bytes_of(b)
                        : number_of(a, "idle_s") < number_of(b, "idle_s");
}

bool is_before(const JsonValue& a, const JsonValue& b, FlowOrder order) {
    const auto is_larger = [&](std::string_view key) {
        return number_of(a, key) > number_of(b, key);
    };
    const auto by_name = [&](std::string_view key) {
        // Flows without the text come last.
        const std::string_view left = a[key].string().value_or("");
        const std::string_view right = b[key].string().value_or("");
        return left.empty() != right.empty() ? right.empty() : left < right;
    };
    switch (order) {
    case FlowOrder::Active:
        break;
    case FlowOrder::Bytes:
        return bytes_of(a) > bytes_of(b);
    case FlowOrder::Up:
        return is_larger("inner_bytes_up");
    case FlowOrder::Down:
        return is_larger("inner_bytes_down");
    case FlowOrder::Age:
        return is_larger("age_s");
    case FlowOrder::Process:
        return by_name("process");
    case FlowOrder::Class:
        return class_number(a) < class_number(b);
    case FlowOrder::Destination:
        return a["dst"].string() == b["dst"].string()
                   ? number_of(a, "dport") < number_of(b, "dport")
                   : by_name("dst");
    }
    return comes_first(a, b);
}

Colour colour_of(const JsonValue& flow) {
    if (flow["state"].string() == "refused") {
        return Colour::Red;
    }
    return is_active(flow) ? Colour::None : Colour::Dim;
}

std::vector<Table::Column> columns_of(bool with_user) {
    std::vector<Table::Column> columns = {{"PROTO"}};
    if (with_user) {
        columns = {{"USER"}, {"NODE", Align::Left, 3}, {"PROTO"}};
    }
    columns.push_back({"SOURCE", Align::Left, 7});
    columns.push_back({"DESTINATION", Align::Left, 0, kEnoughAddress});
    // A SNAPT does not have it.
    columns.push_back({"PROCESS", Align::Left, with_user ? kLastRank : uint8_t{0}, kEnoughName});
    const Table::Column others[] = {
        {"APP", Align::Left, 5},        {"CLASS", Align::Left, 1},
        {"PATH", Align::Left, 6},       {"PKT UP", Align::Right, 9},
        {"PKT DOWN", Align::Right, 9},  {"UP", Align::Right},
        {"DOWN", Align::Right},         {"WIRE UP", Align::Right, 8},
        {"WIRE DOWN", Align::Right, 8}, {"AGE", Align::Right, 4},
        {"IDLE", Align::Right, 2},      {"STATE", Align::Left, 0, kEnoughState}};
    columns.insert(columns.end(), std::begin(others), std::end(others));
    return columns;
}

std::string span_cell(const JsonValue& seconds) {
    const auto number = seconds.number();
    return number ? format_uptime(static_cast<uint64_t>(std::clamp(*number, 0.0, 1e12)))
                  : std::string(kUnknown);
}

std::vector<std::string> cells_of(const JsonValue& flow, bool with_user) {
    std::vector<std::string> cells;
    if (with_user) {
        cells = {cell(flow["user"]), cell(flow["node"])};
    }
    cells.push_back(cell(flow["proto"]));
    cells.push_back(endpoint_cell(flow["src"], flow["sport"]));
    cells.push_back(endpoint_cell(flow["dst"], flow["dport"]));
    const std::string state = flow.text("state");
    const std::string reason = flow.text("refused_reason");
    for (std::string text :
         {cell(flow["process"]), cell(flow["app"]), cell(flow["class"]), cell(flow["path"]),
          count_cell(flow["packets_up"]), count_cell(flow["packets_down"]),
          bytes_cell(flow["inner_bytes_up"]), bytes_cell(flow["inner_bytes_down"]),
          bytes_cell(flow["wire_bytes_up"]), bytes_cell(flow["wire_bytes_down"]),
          span_cell(flow["age_s"]), span_cell(flow["idle_s"]),
          reason.empty() ? state : state + ": " + reason}) {
        cells.push_back(std::move(text));
    }
    return cells;
}

// Empty where all are shown.
std::string cut_text(size_t shown, size_t all) {
    return shown == all ? ""
                        : "(the first " + format_count(shown) + " of " + format_count(all) +
                              ", see --limit)\n";
}

// Fields of --csv; those of users are a SNAPT's.
constexpr std::array<std::string_view, 23> kFields = {"user",
                                                      "node",
                                                      "flow_id",
                                                      "proto",
                                                      "src",
                                                      "sport",
                                                      "dst",
                                                      "dport",
                                                      "process",
                                                      "app",
                                                      "class",
                                                      "snapt",
                                                      "path",
                                                      "state",
                                                      "packets_up",
                                                      "packets_down",
                                                      "inner_bytes_up",
                                                      "inner_bytes_down",
                                                      "wire_bytes_up",
                                                      "wire_bytes_down",
                                                      "age_s",
                                                      "idle_s",
                                                      "refused_reason"};
constexpr size_t kFieldsOfUsers = 2;

// Calls add(flow) for each that --json and --csv have: without an option that chooses all that the
// daemon has. Returns what to say where some are left out, for which they have no place.
template <typename Add>
std::string each_told(const std::vector<JsonValue>& flows, const FlowChoice& choice, Add add) {
    if (!choice.is_explicit) {
        std::for_each(flows.begin(), flows.end(), add);
        return {};
    }
    const auto chosen = chosen_flows(flows, choice);
    const size_t shown = std::min(chosen.size(), choice.limit);
    std::for_each(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(shown),
                  [&add](const JsonValue* flow) { add(*flow); });
    return cut_text(shown, chosen.size());
}

CommandOutput flows_json(const std::vector<JsonValue>& flows, const FlowChoice& choice) {
    CommandOutput output;
    output.err = each_told(flows, choice, [&output](const JsonValue& flow) {
        output.out += output.out.empty() ? "[" : ",";
        output.out += json_text(flow);
    });
    output.out += output.out.empty() ? "[]\n" : "]\n";
    return output;
}

CommandOutput
flows_csv(const std::vector<JsonValue>& flows, bool with_user, const FlowChoice& choice) {
    const auto names = std::span(kFields).subspan(with_user ? 0 : kFieldsOfUsers);
    CommandOutput output;
    output.out = csv_head(names);
    output.err = each_told(flows, choice, [&output, names](const JsonValue& flow) {
        output.out += csv_row(flow, names);
    });
    return output;
}

}  // namespace

std::string endpoint_cell(const JsonValue& address, const JsonValue& port) {
    std::string text = cell(address);
    const uint64_t number = port.unsigned_integer().value_or(0);
    if (number == 0) {
        return text;
    }
    const bool is_v6 = text.find(':') != std::string::npos;
    return (is_v6 ? "[" + text + "]" : text) + ":" + std::to_string(number);
}

CommandSpec flows_spec(std::string_view who) {
    const std::string_view who_help =
        who == "--user" ? "only flows of these users" : "only flows of these processes";
    return {"flows",
            "",
            0,
            0,
            {{"--all", "", OptionValue::None, false, {}, "closed flows as well"},
             {"--class",
              "CLASS,...",
              OptionValue::Required,
              true,
              {},
              "only flows of these classes: lt-ld, ht-ld, lt-hd, ht-hd"},
             {who, "NAME,...", OptionValue::Required, true, {}, who_help},
             {"--sort", "KEY", OptionValue::Required, false, {}, kOrderNames},
             {"--limit", "N", OptionValue::Required, false, {}, "at most N flows"},
             csv_option()},
            "each flow: destination, class and bytes"};
}

std::optional<FlowChoice> flow_choice(const ParsedCommand& command, std::string& failure) {
    FlowChoice choice;
    choice.with_closed = command.has("--all");
    choice.classes = list_values(command, "--class");
    choice.processes = list_values(command, "--process");
    choice.users = list_values(command, "--user");
    for (const std::string& name : choice.classes) {
        const auto& known = base::kAllTrafficClasses;
        if (std::none_of(known.begin(), known.end(),
                         [&name](auto one) { return base::token(one) == name; })) {
            failure = "--class \"" + name + "\"; expected lt-ld, ht-ld, lt-hd or ht-hd";
            return std::nullopt;
        }
    }
    const auto sort = command.value("--sort");
    const auto order = std::find_if(kOrders.begin(), kOrders.end(), [&](const OrderName& known) {
        return known.name == sort.value_or("active");
    });
    if (order == kOrders.end()) {
        failure = "--sort \"" + *sort + "\"; expected " + std::string(kOrderNames);
        return std::nullopt;
    }
    choice.order = order->order;
    const auto limit = command.value("--limit");
    if (limit) {
        const auto number = config::parse_unsigned(*limit, std::numeric_limits<int64_t>::max());
        if (!number || *number == 0) {
            failure = "--limit \"" + *limit + "\"; expected a number from 1";
            return std::nullopt;
        }
        choice.limit = static_cast<size_t>(*number);
    }
    choice.is_explicit = choice.with_closed || sort || limit || !choice.classes.empty() ||
                         !choice.processes.empty() || !choice.users.empty();
    return choice;
}

std::vector<const JsonValue*> chosen_flows(const std::vector<JsonValue>& flows,
                                           const FlowChoice& choice) {
    std::vector<const JsonValue*> chosen;
    for (const JsonValue& flow : flows) {
        if (is_chosen(flow, choice)) {
            chosen.push_back(&flow);
        }
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&choice](const JsonValue* a, const JsonValue* b) {
                         return is_before(*a, *b, choice.order);
                     });
    return chosen;
}

std::string flows_text(const std::vector<JsonValue>& flows,
                       bool with_user,
                       bool is_terminal,
                       size_t columns,
                       const FlowChoice& choice) {
    Table table(columns_of(with_user));
    const auto chosen = chosen_flows(flows, choice);
    const size_t shown = std::min(chosen.size(), choice.limit);
    for (size_t i = 0; i < shown; ++i) {
        table.add_row(cells_of(*chosen[i], with_user), colour_of(*chosen[i]));
    }
    std::string text = table.rows() == 0 ? "no flows\n" : table.render(is_terminal, columns);
    text += cut_text(shown, chosen.size());
    const auto closed = std::count_if(flows.begin(), flows.end(), is_over);
    if (!choice.with_closed && closed > 0) {
        text += "(" + format_count(static_cast<uint64_t>(closed)) + " closed, shown with --all)\n";
    }
    return text;
}

CommandOutput flows_command(const DaemonAccess& access,
                            const ParsedCommand& command,
                            bool with_user,
                            bool is_terminal,
                            size_t columns) {
    std::string failure;
    const auto choice = flow_choice(command, failure);
    if (!choice) {
        CommandOutput output = failed(access, failure);
        output.exit_code = kExitUsage;
        return output;
    }
    const auto render = [&](const std::vector<JsonValue>& flows) {
        return command.has("--json") ? flows_json(flows, *choice)
               : command.has("--csv")
                   ? flows_csv(flows, with_user, *choice)
                   : CommandOutput{flows_text(flows, with_user, is_terminal, columns, *choice), "",
                                   kExitGood};
    };
    return ask_list(access, "flows", kAnswerTimeout, render);
}

}  // namespace continuo::report
