#include "common/dataplane/figures.hpp"

#include "common/flow/counter_values.hpp"

#include <algorithm>
#include <cmath>

namespace continuo::dataplane {

namespace {

std::string_view name_of(packet::Protocol protocol) {
    switch (protocol) {
    case packet::Protocol::Icmp:
        return "icmp";
    case packet::Protocol::Tcp:
        return "tcp";
    case packet::Protocol::Udp:
        return "udp";
    case packet::Protocol::IcmpV6:
        return "icmpv6";
    }
    return "other";
}

std::string_view name_of(flow::FlowState state) {
    switch (state) {
    case flow::FlowState::Opening:
        return "opening";
    case flow::FlowState::Open:
        return "open";
    case flow::FlowState::Closing:
        return "closing";
    case flow::FlowState::Closed:
        return "closed";
    case flow::FlowState::Refused:
        return "refused";
    }
    return "closed";
}

}  // namespace

double milliseconds_or_nan(base::Duration span) {
    return span == base::Duration{} ? NAN : static_cast<double>(base::to_us(span)) / 1000.0;
}

std::optional<std::string> text_of(const std::optional<base::IpAddress>& address) {
    return address ? std::optional(address->to_string()) : std::nullopt;
}

std::optional<std::string> if_any(std::string_view text) {
    return text.empty() ? std::nullopt : std::optional(std::string(text));
}

void add_figures(report::ClassFigureTable& table, const tunnel::Session& session) {
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        table[base::index_of(traffic_class)].add(session.queues().counters(traffic_class));
    }
}

void ReceivedFigures::add(const tunnel::Session& session) {
    const session::SessionCounters& counters = session.counters();
    inner_bytes += counters.inner_bytes_received;
    wire_bytes +=
        counters.bytes_received - std::min(counters.bytes_received, counters.overhead_received());
}

uint64_t inner_bytes_sent(const tunnel::Session& session) {
    uint64_t bytes = 0;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        bytes += session.queues().counters(traffic_class).inner_bytes;
    }
    return bytes;
}

report::TrafficFigures sent_figures(const report::ClassFigureTable& classes) {
    report::TrafficFigures figures;
    for (const report::ClassFigures& one : classes) {
        figures.inner_bytes += one.inner_bytes;
        figures.wire_bytes += one.wire_bytes;
    }
    return figures;
}

report::TrafficFigures received_figures(const ReceivedFigures& received) {
    return {received.inner_bytes, received.wire_bytes, std::nullopt};
}

void EndedSessions::add(const tunnel::Session& session) {
    add_figures(classes, session);
    received.add(session);
    drops.merge(session.drops());
}

report::IoFigures io_figures(const TunPort& port, uint64_t slow_iterations) {
    const host::TunCounters& counters = port.device().counters();
    report::IoFigures figures;
    figures.tun_reads = counters.reads;
    figures.tun_read_bytes = counters.read_bytes;
    figures.tun_writes = counters.writes;
    figures.segments_written = port.coalescer().segments();
    figures.frames_written = port.coalescer().frames();
    figures.uso = port.device().supports_uso();
    figures.slow_iterations = slow_iterations;
    return figures;
}

void write_several_paths(report::JsonWriter& json, const tunnel::Session& session) {
    const session::SessionCounters& counters = session.counters();
    json.key("copies").begin_object();
    json.field("sent", counters.copies_sent);
    json.field("unsent", counters.copies_unsent);
    json.field("dropped", counters.copies_dropped);
    json.end_object();
    const reception::ResequencerCounters& order = session.resequencing();
    json.key("order").begin_object();
    json.field("held", order.held);
    json.field("late", order.late);
    json.field("timeouts", order.timeouts);
    json.field("given_up", order.given_up);
    json.field("overflows", order.overflows);
    json.end_object();
}

std::optional<bool> is_mtu_confirmed(const tunnel::Session& session, uint8_t path) {
    return path == wire::kTcpPath
               ? std::nullopt
               : std::optional(session.paths().path(path).mtu_search().is_confirmed());
}

void write_mtu(report::JsonWriter& json, const tunnel::Session& session) {
    const auto active = session.paths().active();
    json.field("mtu", active ? std::optional(session.paths().path(*active).mtu()) : std::nullopt);
    json.field("mtu_confirmed", active ? is_mtu_confirmed(session, *active) : std::nullopt);
}

void write_class_ways(report::JsonWriter& json,
                      const tunnel::Session& session,
                      routing::PathMask paths) {
    json.key("ways").begin_array();
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        const path::ClassWays* ways = session.paths().path(index).feedback().class_ways();
        if ((paths & routing::mask_of(index)) == 0 || ways == nullptr) {
            continue;
        }
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            if (ways->way(traffic_class) != path::ClassWay::Own) {
                json.begin_object();
                json.field("class", base::token(traffic_class));
                json.field("way", path::to_string(ways->way(traffic_class)));
                json.field("slot", index);
                json.end_object();
            }
        }
    }
    json.end_array();
}

void write_kept_memory(report::JsonWriter& json, const base::MemoryBudget& memory) {
    json.key("kept_memory").begin_object();
    json.field("bytes", memory.used_bytes());
    json.field("limit_bytes", memory.limit_bytes());
    json.field("refusals", memory.refusals());
    json.end_object();
}

report::FlowFigures flow_figures(const flow::Flow& flow, base::TimePoint now) {
    const flow::CounterValues counters = flow::read_counters(flow.counters->counters);
    report::FlowFigures figures;
    figures.flow_id = flow.id.value();
    figures.proto = name_of(flow.tuple.protocol);
    figures.src = flow.tuple.local.to_string();
    figures.sport = flow.tuple.local_port;
    figures.dst = flow.tuple.remote.to_string();
    figures.dport = flow.tuple.remote_port;
    figures.traffic_class = flow.traffic_class;
    figures.state = name_of(flow.state);
    figures.packets_up = counters.packets_up;
    figures.packets_down = counters.packets_down;
    figures.inner_bytes_up = counters.inner_up;
    figures.inner_bytes_down = counters.inner_down;
    figures.wire_bytes_up = counters.post_up;
    figures.wire_bytes_down = counters.post_down;
    figures.age_s = static_cast<double>(base::to_us(now - flow.created_at)) / 1e6;
    figures.idle_s = static_cast<double>(base::to_us(now - flow.last_packet_at)) / 1e6;
    return figures;
}

size_t page_of(const report::JsonValue& request) {
    return request["after"].unsigned_integer().value_or(0);
}

}  // namespace continuo::dataplane
