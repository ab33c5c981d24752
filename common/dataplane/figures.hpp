// From the counters of the data path to the figures that both daemons report.
#pragma once

#include "common/dataplane/tun_port.hpp"
#include "common/flow/flow_table.hpp"
#include "common/report/status_report.hpp"
#include "common/session/session.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace continuo::dataplane {

inline constexpr int kMillisecondDigits = 3;

// NaN, which JSON writes as null, for a span that is not known.
double milliseconds_or_nan(base::Duration span);
std::optional<std::string> text_of(const std::optional<base::IpAddress>& address);
// Nothing for an empty text.
std::optional<std::string> if_any(std::string_view text);

// What sessions that are over had counted, so that sums never fall.
struct EndedSessions {
    report::ClassFigureTable classes;
    base::DropCounters drops;
    void add(const session::Session& session);
};

void add_figures(report::ClassFigureTable& table, const session::Session& session);
report::IoFigures io_figures(const TunPort& port, uint64_t slow_iterations);
// The fields `copies` and `order`: what a session does on several paths at once.
void write_several_paths(report::JsonWriter& json, const session::Session& session);
// The field `kept_memory`: of what is kept to be sent again or put in order, of all sessions.
void write_kept_memory(report::JsonWriter& json, const base::MemoryBudget& memory);
// All but what only the daemon knows: process, app, path, names.
report::FlowFigures flow_figures(const flow::Flow& flow, base::TimePoint now);

// A JSON array of the flows; `complete(report::FlowFigures&, const flow::Flow&)` adds what the
// daemon knows.
template <typename Complete>
std::string flows_json(flow::FlowTable& flows, base::TimePoint now, const Complete& complete) {
    report::JsonWriter json;
    json.begin_array();
    flows.for_each([&](const flow::Flow& flow) {
        report::FlowFigures figures = flow_figures(flow, now);
        complete(figures, flow);
        report::write_flow(json, figures);
    });
    json.end_array();
    return json.take();
}

}  // namespace continuo::dataplane
