#include "snapt/commands.hpp"

#include "common/flow/counter_values.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace continuo::snapt {

using base::TimePoint;
using report::JsonWriter;
using session::Session;

namespace {

constexpr int kMillisecondDigits = 3;
constexpr int kPercentDigits = 2;

std::optional<std::string> text_of(const std::optional<base::IpAddress>& address) {
    return address ? std::optional(address->to_string()) : std::nullopt;
}

std::optional<std::string> if_any(std::string_view text) {
    return text.empty() ? std::nullopt : std::optional(std::string(text));
}

report::ClassFigureTable class_figures(const Relay& relay) {
    report::ClassFigureTable table;
    for (const auto& node : relay.sessions()) {
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            table[base::index_of(traffic_class)].add(node->session.class_counters(traffic_class));
        }
    }
    return table;
}

report::IoFigures io_figures(Relay& relay, const SnaptInfo& info) {
    dataplane::TunPort& port = relay.tun();
    const io::TunCounters& counters = port.device().counters();
    report::IoFigures figures;
    figures.tun_reads = counters.reads;
    figures.tun_read_bytes = counters.read_bytes;
    figures.tun_writes = counters.writes;
    figures.segments_written = port.coalescer().segments();
    figures.frames_written = port.coalescer().frames();
    figures.uso = port.device().supports_uso();
    figures.slow_iterations = info.slow_iterations;
    return figures;
}

void write_ledger(JsonWriter& json, const SnaptInfo& info) {
    if (!info.ledger) {
        json.null();
        return;
    }
    constexpr int64_t kMicroseconds = 1'000'000;
    const LedgerStatus& ledger = *info.ledger;
    json.begin_object();
    json.field("epoch", ledger.epoch);
    json.field("next_seq", ledger.next_seq);
    json.field("records", ledger.records);
    json.field("recovered_records", ledger.recovered_records);
    json.field("failed_seals", ledger.failed_seals);
    json.field("orphan_records", ledger.orphan_records);
    json.field("last_commit_at", ledger.last_commit_at_us == 0
                                     ? std::nullopt
                                     : std::optional(ledger.last_commit_at_us / kMicroseconds));
    json.field("live_slots", ledger.live_slots);
    json.field("live_slots_in_use", ledger.live_slots_in_use);
    json.field("shared_flows", ledger.shared_flows);
    json.field("refused_commands", info.refused_ledger_commands);
    json.end_object();
}

std::string status_json(Relay& relay, const SnaptInfo& info) {
    const report::ClassFigureTable classes = class_figures(relay);
    const base::Duration uptime = info.now - info.started_at;
    JsonWriter json;
    json.begin_object();
    json.field("version", info.version);
    json.field("name", info.name);
    json.field("state", info.state);
    json.field("uptime_s", std::chrono::duration_cast<base::seconds>(uptime).count());
    json.field("epoch", info.ledger ? std::optional(info.ledger->epoch) : std::nullopt);
    json.field("sessions", relay.sessions().size());
    json.field("flows", relay.flows().size());
    json.key("classes");
    report::write_classes(json, classes);
    json.key("drops");
    report::write_drops(json, relay.all_drops());
    json.key("deny").begin_array();
    for (const base::IpPrefix& prefix : info.deny) {
        json.string(prefix.to_string());
    }
    json.end_array();
    json.key("ledger");
    write_ledger(json, info);
    json.key("sinks").begin_array().end_array();
    json.key("io");
    report::write_io(json, io_figures(relay, info), classes);
    json.field("state_directory", info.state_directory);
    json.end_object();
    return json.take();
}

std::string hex_of(const control::SessionId& id) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const uint8_t octet : id) {
        text += kDigits[octet >> 4U];
        text += kDigits[octet & 0x0FU];
    }
    return text;
}

// Where the node is reached now.
std::optional<std::string> remote_of(const Session& session) {
    const auto active = session.paths().active();
    if (!active) {
        return std::nullopt;
    }
    const session::Path& path = session.paths().path(*active);
    const session::Tuple& tuple = path.tuples[base::index_of(base::TrafficClass::LtLd)];
    return tuple.is_known ? std::optional(tuple.remote.to_string()) : std::nullopt;
}

void write_session(JsonWriter& json, const NodeSession& node) {
    const Session& session = node.session;
    const auto active = session.paths().active();
    const base::Duration rtt =
        active ? session.paths().path(*active).smoothed_rtt : base::Duration{};
    // Down is what was sent; up before and after are what the kernel and the sockets saw.
    uint64_t down_inner = 0;
    uint64_t down_wire = 0;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        down_inner += session.class_counters(traffic_class).inner_bytes;
        down_wire += session.class_counters(traffic_class).wire_bytes;
    }
    const session::SessionCounters& counters = session.counters();
    const uint64_t up_wire =
        counters.bytes_received - std::min(counters.bytes_received, counters.overhead_received);
    const auto saved = report::saved_percent(node.up_bytes + down_inner, up_wire + down_wire);
    json.begin_object();
    json.field("user", node.grant.user);
    json.field("node", node.grant.node);
    json.field("session_id", hex_of(node.grant.session_id));
    json.field("from", remote_of(session));
    json.field("transport", "udp");
    json.field("rtt_ms",
               rtt == base::Duration{} ? NAN : static_cast<double>(base::to_us(rtt)) / 1000.0,
               kMillisecondDigits);
    json.field("handovers", counters.handovers);
    json.field("inner_ipv4", text_of(node.grant.lease_ipv4));
    json.field("inner_ipv6", text_of(node.grant.lease_ipv6));
    json.field("up_bytes", node.up_bytes);
    json.field("down_bytes", down_inner);
    json.field("saved_percent", saved.value_or(NAN), kPercentDigits);
    json.field("since", node.since_utc_s);
    json.field("flows", node.flows);
    json.field("epoch", session.send_epoch());
    json.field("lost_datagrams", counters.lost_datagrams);
    json.field("overhead_sent", counters.overhead_sent);
    json.field("overhead_received", counters.overhead_received);
    json.end_object();
}

std::string sessions_json(const Relay& relay) {
    JsonWriter json;
    json.begin_array();
    for (const auto& node : relay.sessions()) {
        write_session(json, *node);
    }
    json.end_array();
    return json.take();
}

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
    constexpr std::array<std::string_view, 5> kNames = {"opening", "open", "closing", "closed",
                                                        "refused"};
    return kNames[static_cast<size_t>(state)];
}

report::FlowFigures flow_figures(const SnaptInfo& info, const flow::Flow& flow, TimePoint now) {
    const flow::CounterValues counters = flow::read_counters(flow.counters->counters);
    report::FlowFigures figures;
    figures.flow_id = flow.id.value();
    figures.proto = name_of(flow.tuple.protocol);
    figures.src = flow.tuple.local.to_string();
    figures.sport = flow.tuple.local_port;
    figures.dst = flow.tuple.remote.to_string();
    figures.dport = flow.tuple.remote_port;
    figures.traffic_class = flow.traffic_class;
    figures.snapt = info.name;
    figures.state = name_of(flow.state);
    figures.packets_up = counters.packets_up;
    figures.packets_down = counters.packets_down;
    figures.inner_bytes_up = counters.inner_up;
    figures.inner_bytes_down = counters.inner_down;
    figures.wire_bytes_up = counters.post_up;
    figures.wire_bytes_down = counters.post_down;
    figures.age_s = static_cast<double>(base::to_us(now - flow.created_at)) / 1e6;
    if (const auto* node = static_cast<const NodeSession*>(flow.details)) {
        figures.user = node->grant.user;
        figures.node = node->grant.node;
        const auto app = node->apps.find(flow.app);
        figures.app = app == node->apps.end() ? std::nullopt : if_any(app->second);
    }
    return figures;
}

std::string flows_json(Relay& relay, const SnaptInfo& info) {
    JsonWriter json;
    json.begin_array();
    relay.flows().for_each([&](const flow::Flow& flow) {
        report::write_flow(json, flow_figures(info, flow, info.now));
    });
    json.end_array();
    return json.take();
}

}  // namespace

std::string handle_command(Relay& relay, const SnaptInfo& info, std::string_view request_line) {
    constexpr report::JsonLimits kLimits = {kMaxRequestBytes, 4096, 16};
    const auto request = report::JsonValue::parse(request_line, kLimits);
    if (!request || !request->is_object()) {
        return report::error_json("the request is not a JSON object");
    }
    const std::string command = request->text("command");
    if (command == "status") {
        return status_json(relay, info);
    }
    if (command == "sessions") {
        return sessions_json(relay);
    }
    if (command == "flows") {
        return flows_json(relay, info);
    }
    return report::error_json("unknown command \"" + command + "\"");
}

}  // namespace continuo::snapt
