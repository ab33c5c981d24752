#include "cnapt/commands.hpp"

#include "common/flow/counter_values.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <cmath>

namespace continuo::cnapt {

using base::TimePoint;
using report::JsonWriter;
using session::PathState;
using session::Session;

namespace {

constexpr int kMillisecondDigits = 3;
constexpr int kLossDigits = 6;

double milliseconds_or_nan(base::Duration span) {
    return span == base::Duration{} ? NAN : static_cast<double>(base::to_us(span)) / 1000.0;
}

std::optional<std::string> text_of(const std::optional<base::IpAddress>& address) {
    return address ? std::optional(address->to_string()) : std::nullopt;
}

bool is_usable(const SnaptLink& link) {
    if (!link.session || !link.is_up) {
        return false;
    }
    const auto active = link.session->paths().active();
    return active && link.session->paths().path(*active).state == PathState::Usable;
}

// Of what arrived, the part of which gaps tell.
double loss_of(const Session& session) {
    const session::SessionCounters& counters = session.counters();
    const uint64_t sent = counters.datagrams_received + counters.lost_datagrams;
    return sent == 0 ? NAN
                     : static_cast<double>(counters.lost_datagrams) / static_cast<double>(sent);
}

std::optional<std::string> active_path_of(Node& node, const SnaptLink* link) {
    if (link == nullptr || !link->session) {
        return std::nullopt;
    }
    const auto active = link->session->paths().active();
    const Uplink* uplink = active ? node.uplinks().at(*active) : nullptr;
    return uplink == nullptr ? std::nullopt : std::optional(uplink->interface + ">" + link->name);
}

// The fields that `status` and `snapts` have in common.
void write_session_fields(JsonWriter& json, const SnaptLink& link) {
    const Session& session = *link.session;
    const auto active = session.paths().active();
    const session::Path* path = active ? &session.paths().path(*active) : nullptr;
    const double rtt_ms = path != nullptr ? milliseconds_or_nan(path->smoothed_rtt) : NAN;
    json.field("snapt", link.name);
    json.field("address", link.address.to_string());
    json.field("transport", "udp");
    json.field("rtt_ms", rtt_ms, kMillisecondDigits);
    json.field("one_way_ms", rtt_ms / 2, kMillisecondDigits);
    json.field("loss", loss_of(session), kLossDigits);
    json.key("throughput_bits_per_s").null();
    json.field("mtu", path != nullptr ? std::optional(path->mtu) : std::nullopt);
    json.field("inner_ipv4", text_of(link.accept.lease_ipv4));
    json.field("inner_ipv6", text_of(link.accept.lease_ipv6));
    json.field("flows", session.flows());
}

void write_sessions(JsonWriter& json, const Node& node) {
    json.begin_array();
    for (const auto& link : node.links()) {
        if (link->session) {
            json.begin_object();
            write_session_fields(json, *link);
            json.end_object();
        }
    }
    json.end_array();
}

void write_path_details(JsonWriter& json, const session::Path& path, TimePoint now) {
    json.field("received_datagrams", path.received_datagrams);
    const bool was_heard = path.heard_at != TimePoint{};
    json.field("heard_ms_ago", was_heard ? milliseconds_or_nan(now - path.heard_at) : NAN,
               kMillisecondDigits);
    json.field("rtt_variation_ms", milliseconds_or_nan(path.rtt_variation), kMillisecondDigits);
    json.key("tuples").begin_array();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const session::Tuple& tuple = path.tuples[base::index_of(traffic_class)];
        json.begin_object();
        json.field("class", base::token(traffic_class));
        json.field("proven", tuple.is_proven);
        json.end_object();
    }
    json.end_array();
}

// Each uplink with each SNAPT that it can reach by its IP version.
void write_paths(JsonWriter& json, Node& node, TimePoint now, bool with_details) {
    json.begin_array();
    for (const auto& link : node.links()) {
        for (const Uplink* uplink : node.uplinks().list()) {
            if (uplink->address.version != link->address.address.version) {
                continue;
            }
            const session::Path* path =
                link->session ? &link->session->paths().path(uplink->slot) : nullptr;
            const bool is_active = link->session && link->session->paths().active() == uplink->slot;
            const PathState state = path != nullptr ? path->state : PathState::Unknown;
            json.begin_object();
            json.field("interface", uplink->interface);
            json.field("local", uplink->address.to_string());
            json.field("snapt", link->name);
            json.field("state", session::to_string(state));
            json.field("rtt_ms", path != nullptr ? milliseconds_or_nan(path->smoothed_rtt) : NAN,
                       kMillisecondDigits);
            json.field("loss", is_active ? loss_of(*link->session) : NAN, kLossDigits);
            json.field("mtu", path != nullptr ? path->mtu : uplink->mtu);
            json.field("active", is_active);
            if (with_details) {
                json.field("path", uplink->interface + ">" + link->name);
                json.field("slot", uplink->slot);
                json.field("deprecated", uplink->is_deprecated);
                if (path != nullptr) {
                    write_path_details(json, *path, now);
                }
            }
            json.end_object();
        }
    }
    json.end_array();
}

report::ClassFigureTable class_figures(const Node& node) {
    report::ClassFigureTable table;
    for (const auto& link : node.links()) {
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            if (link->session) {
                table[base::index_of(traffic_class)].add(
                    link->session->class_counters(traffic_class));
            }
        }
    }
    return table;
}

report::IoFigures io_figures(Node& node, const DaemonInfo& info) {
    dataplane::TunPort& port = node.tun();
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

void write_handovers(JsonWriter& json, const Node& node) {
    json.begin_object();
    json.field("count", node.handover_count());
    json.key("last");
    if (node.handovers().empty()) {
        json.null();
    } else {
        const Handover& last = node.handovers().back();
        json.begin_object();
        json.field("at", last.at_utc_s);
        json.field("from", last.from);
        json.field("to", last.to);
        json.field("gap_ms", last.gap_ms, kMillisecondDigits);
        json.end_object();
    }
    json.end_object();
}

std::string status_json(Node& node, const DaemonInfo& info) {
    const report::ClassFigureTable classes = class_figures(node);
    const base::Duration uptime = info.now - info.started_at;
    JsonWriter json;
    json.begin_object();
    json.field("version", info.version);
    json.field("node", info.node);
    json.field("state", daemon_state(node));
    json.field("uptime_s", std::chrono::duration_cast<base::seconds>(uptime).count());
    json.key("sessions");
    write_sessions(json, node);
    json.key("paths");
    write_paths(json, node, info.now, false);
    json.key("classes");
    report::write_classes(json, classes);
    json.key("handovers");
    write_handovers(json, node);
    json.key("drops");
    report::write_drops(json, node.all_drops());
    json.key("io");
    report::write_io(json, io_figures(node, info), classes);
    json.field("flows", node.flows().size());
    json.field("state_directory", info.state_directory);
    json.end_object();
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

std::optional<std::string> if_any(std::string_view text) {
    return text.empty() ? std::nullopt : std::optional(std::string(text));
}

report::FlowFigures flow_figures(Node& node, const flow::Flow& flow, TimePoint now) {
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
    if (const auto* node_flow = static_cast<const NodeFlow*>(flow.details)) {
        figures.process = if_any(node_flow->owner.process);
        figures.app = if_any(node_flow->classification.app);
        figures.refused_reason = if_any(node_flow->refused_reason);
        figures.path = active_path_of(node, node_flow->link);
        if (node_flow->link != nullptr) {
            figures.snapt = node_flow->link->name;
        }
    }
    return figures;
}

std::string flows_json(Node& node, const DaemonInfo& info) {
    JsonWriter json;
    json.begin_array();
    node.flows().for_each([&](const flow::Flow& flow) {
        report::write_flow(json, flow_figures(node, flow, info.now));
    });
    json.end_array();
    return json.take();
}

std::string_view name_of(control::ProtectionKind kind) {
    switch (kind) {
    case control::ProtectionKind::Aes256Gcm:
        return "aes-256-gcm";
    case control::ProtectionKind::ChaCha20Poly1305:
        return "chacha20-poly1305";
    case control::ProtectionKind::HmacSha256:
        return "hmac-sha256";
    }
    return "unknown";
}

void write_link_details(JsonWriter& json, const SnaptLink& link) {
    const Session& session = *link.session;
    const session::SessionCounters& counters = session.counters();
    json.field("realm", link.accept.realm);
    json.field("protection", name_of(link.accept.protection.kind));
    json.field("tag_bytes", link.accept.protection.tag_bytes);
    json.field("epoch", session.send_epoch());
    json.field("inner_mtu", link.accept.inner_mtu);
    json.field("queued_bytes", session.queued_bytes());
    json.field("datagrams_received", counters.datagrams_received);
    json.field("bytes_received", counters.bytes_received);
    json.field("overhead_sent", counters.overhead_sent);
    json.field("overhead_received", counters.overhead_received);
    json.field("lost_datagrams", counters.lost_datagrams);
    json.field("duplicates", counters.duplicates);
    json.field("acks_sent", counters.acks_sent);
    json.field("acks_received", counters.acks_received);
}

std::string snapts_json(const Node& node) {
    JsonWriter json;
    json.begin_array();
    for (const auto& link : node.links()) {
        json.begin_object();
        if (link->session) {
            write_session_fields(json, *link);
            write_link_details(json, *link);
        } else {
            json.field("snapt", link->name);
            json.field("address", link->address.to_string());
        }
        json.field("state", is_usable(*link) ? "up" : link->session ? "degraded" : "down");
        json.field("control_open", link->is_control_open);
        json.field("handovers", link->handovers);
        json.field("committed_bits_per_s", link->committed_bits_per_s);
        json.end_object();
    }
    json.end_array();
    return json.take();
}

}  // namespace

std::string_view daemon_state(const Node& node) {
    const auto& links = node.links();
    if (std::any_of(links.begin(), links.end(),
                    [](const auto& link) { return is_usable(*link); })) {
        return "up";
    }
    const bool has_session = std::any_of(links.begin(), links.end(),
                                         [](const auto& link) { return link->session != nullptr; });
    return has_session ? "degraded" : "down";
}

std::string handle_command(Node& node, const DaemonInfo& info, std::string_view request_line) {
    constexpr report::JsonLimits kLimits = {kMaxRequestBytes, 4096, 16};
    const auto request = report::JsonValue::parse(request_line, kLimits);
    if (!request || !request->is_object()) {
        return report::error_json("the request is not a JSON object");
    }
    const std::string command = request->text("command");
    if (command == "status") {
        return status_json(node, info);
    }
    if (command == "flows") {
        return flows_json(node, info);
    }
    if (command == "snapts") {
        return snapts_json(node);
    }
    if (command == "paths") {
        JsonWriter json;
        write_paths(json, node, info.now, true);
        return json.take();
    }
    return report::error_json("unknown command \"" + command + "\"");
}

}  // namespace continuo::cnapt
