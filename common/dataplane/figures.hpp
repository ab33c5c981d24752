// From the counters of the data path to the figures that both daemons report.
#pragma once

#include "common/dataplane/recent_rate.hpp"
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

// Sums of the direction from the other end.
struct ReceivedFigures {
    uint64_t inner_bytes = 0;  // IP lengths
    uint64_t wire_bytes = 0;   // outer IP lengths of datagrams with packets
    void add(const session::Session& session);
};

// Counts of sessions that have ended, so that sums never fall.
struct EndedSessions {
    report::ClassFigureTable classes;
    base::DropCounters drops;
    ReceivedFigures received;
    void add(const session::Session& session);
};

void add_figures(report::ClassFigureTable& table, const session::Session& session);
// All classes together; IP lengths.
uint64_t inner_bytes_sent(const session::Session& session);
report::TrafficFigures sent_figures(const report::ClassFigureTable& classes);
report::TrafficFigures received_figures(const ReceivedFigures& received);
report::IoFigures io_figures(const TunPort& port, uint64_t slow_iterations);
// The fields `copies` and `order`: what a session does on several paths at once.
void write_several_paths(report::JsonWriter& json, const session::Session& session);
// The fields `mtu` and `mtu_confirmed` of a path in use; null without one, and the latter over TCP,
// which has no such size.
std::optional<bool> is_mtu_confirmed(const session::Session& session, uint8_t path);
void write_mtu(report::JsonWriter& json, const session::Session& session);
// The field `ways`: the classes that this end sends on the path in another way than their own,
// which does not get through (path::ClassWay).
void write_class_ways(report::JsonWriter& json, const session::Session& session, uint8_t path);
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
