// The figures that both daemons report, from the counters of the data path.
#pragma once

#include "common/dataplane/recent_rate.hpp"
#include "common/dataplane/tun_port.hpp"
#include "common/flow/flow_table.hpp"
#include "common/report/status_report.hpp"
#include "common/tunnel/session.hpp"

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
    void add(const tunnel::Session& session);
};

// Counts of ended sessions, so that sums never fall.
struct EndedSessions {
    report::ClassFigureTable classes;
    base::DropCounters drops;
    ReceivedFigures received;
    void add(const tunnel::Session& session);
};

void add_figures(report::ClassFigureTable& table, const tunnel::Session& session);
// All classes together; IP lengths.
uint64_t inner_bytes_sent(const tunnel::Session& session);
report::TrafficFigures sent_figures(const report::ClassFigureTable& classes);
report::TrafficFigures received_figures(const ReceivedFigures& received);
report::IoFigures io_figures(const TunPort& port, uint64_t slow_iterations);
// The fields `copies` and `order`: a session's use of several paths at once.
void write_several_paths(report::JsonWriter& json, const tunnel::Session& session);
// The fields `mtu` and `mtu_confirmed` of a path in use; null without one. The latter is null over
// TCP, which has no such size.
std::optional<bool> is_mtu_confirmed(const tunnel::Session& session, uint8_t path);
void write_mtu(report::JsonWriter& json, const tunnel::Session& session);
// The field `ways`: the classes that this end sends on one of the paths in another way than their
// own, which does not get through (path::ClassWay).
void write_class_ways(report::JsonWriter& json,
                      const tunnel::Session& session,
                      routing::PathMask paths);
// The field `kept_memory`: of packets kept for repeats or order, of all sessions.
void write_kept_memory(report::JsonWriter& json, const base::MemoryBudget& memory);
// All except process, app, path and names, which only the daemon knows.
report::FlowFigures flow_figures(const flow::Flow& flow, base::TimePoint now);

// A page of `flows` ends behind so many flows, and behind so many places of the table, so that it
// keeps the data loop for about 2 ms. A choice.
inline constexpr size_t kPageFlows = 1024;
inline constexpr size_t kPagePlaces = 32'768;

// `after` of a request for a page; 0 where there is none.
size_t page_of(const report::JsonValue& request);

// {"flows":[…],"next":n}: the flows behind place `after` of the table, 0 at first; `next` is
// `after` of the page that follows, null at the end. A flow that lives from the first page to the
// last is in one of them. `complete(report::FlowFigures&, const flow::Flow&)` adds what the daemon
// knows.
template <typename Complete>
std::string
flows_json(flow::FlowTable& flows, base::TimePoint now, size_t after, const Complete& complete) {
    constexpr size_t kStep = 64;
    size_t count = 0;
    report::JsonWriter json;
    json.begin_object().key("flows").begin_array();
    for (size_t places = 0;
         after != flow::FlowTable::kEnd && count + kStep <= kPageFlows && places < kPagePlaces;
         places += kStep) {
        after = flows.visit(after, kStep, [&](const flow::Flow& flow) {
            report::FlowFigures figures = flow_figures(flow, now);
            complete(figures, flow);
            report::write_flow(json, figures);
            ++count;
        });
    }
    json.end_array();
    json.field("next", after == flow::FlowTable::kEnd ? std::nullopt : std::optional(after));
    json.end_object();
    return json.take();
}

}  // namespace continuo::dataplane
