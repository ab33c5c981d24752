#include "cnapt/answers.hpp"

#include "cnapt/bypass/plain_control.hpp"
#include "cnapt/node/tunnel_uplinks.hpp"
#include "cnapt/snapts/allowance_json.hpp"
#include "common/config/units.hpp"
#include "common/daemon/startup.hpp"
#include "common/dataplane/figures.hpp"

#include <algorithm>
#include <cmath>

namespace continuo::cnapt {

using base::TimePoint;
using config::kBitsPerByte;
using dataplane::kMillisecondDigits;
using dataplane::milliseconds_or_nan;
using dataplane::text_of;
using links::SnaptLink;
using links::write_failure;
using node::Node;
using path::PathState;
using report::JsonWriter;
using tunnel::Session;
using uplinks::Uplink;

namespace {

constexpr int kLossDigits = 6;

bool is_usable(const SnaptLink& link) {
    if (!link.session || !link.is_up) {
        return false;
    }
    const auto active = link.session->paths().active();
    return active && link.session->paths().path(*active).state() == PathState::Usable;
}

std::string_view state_of(const SnaptLink& link) {
    return is_usable(link) && link.forwards() ? "up" : link.is_up ? "degraded" : "down";
}

std::string address_of(const SnaptLink& link) {
    return link.address().port != 0 ? link.address().to_string() : link.configured;
}

// Direction up, from the SNAPT's latest reports.
void write_reported(JsonWriter& json, const path::Path* path) {
    const uint64_t bytes_per_s = path != nullptr ? path->feedback().measured().bytes_per_s : 0;
    json.field("loss", path != nullptr ? path->feedback().measured().loss.value_or(NAN) : NAN,
               kLossDigits);
    json.field("delivery_bits_per_s",
               bytes_per_s != 0 ? std::optional(bytes_per_s * kBitsPerByte) : std::nullopt);
}

// Writes the rates of the last seconds. `up_bytes` and `down_bytes` are the counts given to
// `rates`.
void write_rates(JsonWriter& json,
                 const dataplane::RecentRates& rates,
                 uint64_t up_bytes,
                 uint64_t down_bytes,
                 TimePoint now) {
    json.field("up_bits_per_s", rates.up.bits_per_s(up_bytes, now));
    json.field("down_bits_per_s", rates.down.bits_per_s(down_bytes, now));
}

// Direction down, since the session began.
double loss_down_of(const Session& session) {
    const session::SessionCounters& counters = session.counters();
    const uint64_t sent = counters.datagrams_received + counters.lost_datagrams;
    return sent == 0 ? NAN
                     : static_cast<double>(counters.lost_datagrams) / static_cast<double>(sent);
}

// The path in use, or the one that the flow is bound to (mode "flow").
std::optional<std::string> path_of(Node& node, const SnaptLink* link, const flow::Flow& flow) {
    if (link == nullptr || !link->session) {
        return std::nullopt;
    }
    const auto active = link->session->paths().active();
    const Uplink* uplink = link->active_slot() && active ? node.uplinks().at(*link->active_slot())
                                                         : nullptr;  // TCP's, when that is in use
    if (const Uplink* own = node.uplinks().at(flow.paths.pinned)) {
        uplink = own;
    }
    return uplink == nullptr ? std::nullopt : std::optional(uplink->interface + ">" + link->name);
}

// The fields that `status` and `snapts` have in common.
void write_session_fields(JsonWriter& json, const SnaptLink& link, TimePoint now) {
    const Session& session = *link.session;
    const auto active = session.paths().active();
    const path::Path* path = active ? &session.paths().path(*active) : nullptr;
    const double rtt_ms =
        path != nullptr ? milliseconds_or_nan(path->feedback().smoothed_rtt()) : NAN;
    json.field("snapt", link.name);
    json.field("address", address_of(link));
    json.field("transport", active == wire::kTcpPath ? "tcp" : "udp");
    json.field("rtt_ms", rtt_ms, kMillisecondDigits);
    json.field("one_way_ms", rtt_ms / 2, kMillisecondDigits);
    write_reported(json, path);
    json.field("loss_down", loss_down_of(session), kLossDigits);
    json.field("throughput_bits_per_s", link.rates.throughput_bits_per_s());
    write_rates(json, link.rates.inner(), dataplane::inner_bytes_sent(session),
                session.counters().inner_bytes_received, now);
    dataplane::write_mtu(json, session);
    json.field("inner_ipv4", text_of(link.accept.lease_ipv4));
    json.field("inner_ipv6", text_of(link.accept.lease_ipv6));
    json.key("no_way_out").begin_array();
    for (const base::IpVersion version : uplinks::kBothVersions) {
        if (link.accept.has_lease(version) && link.no_way_out.has(version)) {
            json.string(version == base::IpVersion::V4 ? "IPv4" : "IPv6");
        }
    }
    json.end_array();
    json.field("flows", session.flows());
    dataplane::write_several_paths(json, session);
}

void write_sessions(JsonWriter& json, const Node& node, TimePoint now) {
    json.begin_array();
    for (const auto& link : node.links()) {
        if (link->session) {
            json.begin_object();
            write_session_fields(json, *link, now);
            json.end_object();
        }
    }
    json.end_array();
}

// Writes the state of each SNAPT, with a session or without.
void write_snapt_states(JsonWriter& json, const Node& node) {
    json.begin_array();
    for (const auto& link : node.links()) {
        json.begin_object();
        json.field("snapt", link->name);
        json.field("address", address_of(*link));
        json.field("state", state_of(*link));
        write_failure(json, link->failure.latest());
        json.key("allowance");
        snapts::write_allowance(json, link->allowance);
        json.key("money");
        snapts::write_money(json, link->allowance);
        json.end_object();
    }
    json.end_array();
}

// A silence ends when something is heard, which is not reported.
void write_path_failure(JsonWriter& json, links::Failure failure, const path::Path* path) {
    const bool works = path != nullptr && path->state() == PathState::Usable;
    failure.is_current =
        failure.is_current && (!works || failure.kind == links::FailureKind::Portal);
    write_failure(json, failure);
}

void write_path_details(JsonWriter& json, const path::Path& path, TimePoint now) {
    json.field("received_datagrams", path.traffic().counters().received_datagrams);
    const bool was_heard = path.traffic().heard_at() != TimePoint{};
    json.field("heard_ms_ago",
               was_heard ? milliseconds_or_nan(now - path.traffic().heard_at()) : NAN,
               kMillisecondDigits);
    json.field("rtt_min_ms", milliseconds_or_nan(path.feedback().rtt().minimum()),
               kMillisecondDigits);
    json.field("rtt_variation_ms", milliseconds_or_nan(path.feedback().rtt_variation()),
               kMillisecondDigits);
    json.field("lost_datagrams", path.feedback().measured().lost_datagrams);
    json.field("late_datagrams", path.feedback().measured().late_datagrams);
    json.field("duplicate_datagrams", path.traffic().counters().duplicate_datagrams);
    json.field("mtu_limit", path.mtu_search().limit());
    json.key("tuples").begin_array();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const path::Tuple& tuple = path.validation().tuple(traffic_class);
        json.begin_object();
        json.field("class", base::token(traffic_class));
        json.field("proven", tuple.is_proven());
        json.end_object();
    }
    json.end_array();
}

void write_path(JsonWriter& json,
                const SnaptLink& link,
                const Uplink& uplink,
                uint8_t index,
                TimePoint now,
                bool with_details) {
    const path::Path* path = link.session ? &link.session->paths().path(index) : nullptr;
    const bool is_active = link.session && link.session->paths().active() == index;
    json.begin_object();
    json.field("interface", uplink.interface);
    json.field("local", uplink.address.to_string());
    json.field("snapt", link.name);
    json.field("transport", index == wire::kTcpPath ? "tcp" : "udp");
    json.field("state", path::to_string(path != nullptr ? path->state() : PathState::Unknown));
    json.field("rtt_ms",
               path != nullptr ? milliseconds_or_nan(path->feedback().smoothed_rtt()) : NAN,
               kMillisecondDigits);
    write_reported(json, path);
    write_rates(json, link.rates.outer(index),
                path != nullptr ? path->traffic().counters().sent_bytes : 0,
                path != nullptr ? path->traffic().counters().received_bytes : 0, now);
    json.field("mtu", path != nullptr ? path->mtu() : uplink.mtu);
    json.field("mtu_confirmed", path != nullptr ? dataplane::is_mtu_confirmed(*link.session, index)
                                                : std::optional(false));
    json.field("mtu_state", recovery::to_string(path != nullptr ? path->mtu_search().state()
                                                                : recovery::MtuState::Base));
    json.field("black_holes", path != nullptr ? path->mtu_search().black_holes() : 0);
    json.field("active", is_active);
    json.field("captive", uplink.is_captive);
    json.field("portal_url", dataplane::if_any(uplink.portal_url));
    if (link.session) {
        dataplane::write_class_ways(json, *link.session, routing::mask_of(index));
    }
    write_path_failure(json, link.failure.of_path(index), path);
    if (with_details) {
        json.field("path", uplink.interface + ">" + link.name);
        json.field("slot", index);
        json.field("deprecated", uplink.is_deprecated);
        json.field("carrier", uplink.can_carry());
        json.field("signal_dbm", uplink.signal_dbm);
        json.field("signal_weak", uplink.is_weak);
        if (path != nullptr) {
            write_path_details(json, *path, now);
        }
    }
    json.end_object();
}

// Each uplink with each SNAPT that has an address of its IP version; and TCP where it is in use.
void write_paths(JsonWriter& json, Node& node, TimePoint now, bool with_details) {
    json.begin_array();
    for (const auto& link : node.links()) {
        for (const Uplink* uplink : node.uplinks().list()) {
            if (node.paths().is_path(*link, *uplink)) {
                write_path(json, *link, *uplink, uplink->slot, now, with_details);
            }
        }
        const Uplink* carrier = link->is_on_stream() && link->active_slot()
                                    ? node.uplinks().at(*link->active_slot())
                                    : nullptr;
        if (carrier != nullptr) {
            write_path(json, *link, *carrier, wire::kTcpPath, now, with_details);
        }
    }
    json.end_array();
}

void write_traffic(JsonWriter& json, const Node& node, TimePoint now) {
    report::TrafficFigures up = dataplane::sent_figures(node.engine().sent());
    report::TrafficFigures down = dataplane::received_figures(node.engine().received());
    up.bits_per_s = node.rates().up.bits_per_s(up.inner_bytes, now);
    down.bits_per_s = node.rates().down.bits_per_s(down.inner_bytes, now);
    report::write_traffic(json, up, down);
}

void write_handovers(JsonWriter& json, const Node& node) {
    json.begin_object();
    json.field("count", node.handovers().count());
    json.key("last");
    const auto& last = node.handovers().last();
    if (!last) {
        json.null();
    } else {
        json.begin_object();
        json.field("at", last->at_utc_s);
        json.field("from", last->from);
        json.field("to", last->to);
        json.field("gap_ms", last->gap_ms, kMillisecondDigits);
        json.end_object();
    }
    json.end_object();
}

void write_routes(JsonWriter& json, const netlink::NetMonitor& monitor, const DaemonInfo& info) {
    json.begin_object();
    json.field("followed", monitor.snapshot().routes.size());
    json.field("left_out", monitor.routes_left_out());
    json.field("unseen", monitor.unseen_routes());
    json.field("unwatched", monitor.unwatched());
    json.field("sources_left_out", info.sources_left_out);
    json.field("lists", monitor.counters().route_lists);
    json.field("overruns", monitor.counters().overruns);
    json.end_object();
}

// Those that no SNAPT forwards, by what becomes of them.
void write_private_places(JsonWriter& json, const DaemonInfo& info) {
    const std::vector<base::IpPrefix> places =
        info.plain != nullptr ? info.plain->not_forwarded() : std::vector<base::IpPrefix>{};
    json.begin_object();
    for (const auto& [name, is_so] :
         {std::pair("beside", !info.is_kill_switch), std::pair("refused", info.is_kill_switch)}) {
        json.key(name).begin_array();
        for (size_t i = 0; is_so && i < places.size(); ++i) {
            json.string(places[i].to_string());
        }
        json.end_array();
    }
    json.end_object();
}

std::string status_json(Node& node, const DaemonInfo& info) {
    const report::ClassFigureTable classes = node.engine().sent();
    const base::Duration uptime = info.now - info.started_at;
    JsonWriter json;
    json.begin_object();
    json.field("version", info.version);
    json.field("node", info.node);
    json.field("state", daemon_state(node, info.is_capturing));
    json.field("tunnel", tunnel_state(node, info.is_capturing));
    json.field("kill_switch", info.is_kill_switch);
    json.key("refused_versions").begin_array();
    if (info.captures_ipv4 && info.is_capturing && refuses(node.links(), base::IpVersion::V4)) {
        json.string("IPv4");
    }
    if (info.captures_ipv6 && info.is_capturing && refuses(node.links(), base::IpVersion::V6)) {
        json.string("IPv6");
    }
    json.end_array();
    json.key("other_vpns");
    node::write_other_vpns(json, node::other_vpns(node));
    json.key("private_places");
    write_private_places(json, info);
    json.field("uptime_s", std::chrono::duration_cast<base::seconds>(uptime).count());
    json.key("sessions");
    write_sessions(json, node, info.now);
    json.key("snapts");
    write_snapt_states(json, node);
    json.key("paths");
    write_paths(json, node, info.now, false);
    json.key("traffic");
    write_traffic(json, node, info.now);
    json.key("classes");
    report::write_classes(json, classes);
    json.key("handovers");
    write_handovers(json, node);
    json.key("drops");
    report::write_drops(json, node.engine().all_drops());
    json.key("io");
    report::write_io(json, dataplane::io_figures(node.engine().tun(), info.slow_iterations),
                     classes);
    json.field("flows", node.admission().flows().size());
    json.field("flows_gave_way", node.admission().flows().gave_way());
    dataplane::write_kept_memory(json, node.engine().kept_memory());
    json.key("routes");
    write_routes(json, node.monitor(), info);
    json.field("state_directory", info.state_directory);
    json.key("process");
    daemon::write_process(json);
    if (info.dns != nullptr) {
        json.key("dns");
        info.dns->write_status(json, info.plain != nullptr ? &info.plain->resolvers() : nullptr);
    }
    if (info.recorder != nullptr) {
        json.key("capture_file");
        info.recorder->write_status(json);
    }
    json.end_object();
    return json.take();
}

std::string flows_json(Node& node, const DaemonInfo& info, size_t after) {
    const auto complete = [&](report::FlowFigures& figures, const flow::Flow& flow) {
        const auto* node_flow = flow::details_as<const admission::NodeFlow>(flow);
        if (node_flow == nullptr) {
            return;
        }
        figures.process = dataplane::if_any(node_flow->owner.process);
        figures.app = dataplane::if_any(node_flow->classification.app);
        figures.refused_reason = dataplane::if_any(node_flow->refused_reason);
        figures.path = path_of(node, node_flow->link, flow);
        if (node_flow->link != nullptr) {
            figures.snapt = node_flow->link->name;
        }
    };
    return dataplane::flows_json(node.admission().flows(), info.now, after, complete);
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
    json.field("epoch", session.epochs().newest());
    json.field("inner_mtu", link.accept.inner_mtu);
    json.field("queued_bytes", session.queues().bytes());
    json.field("datagrams_received", counters.datagrams_received);
    json.field("bytes_received", counters.bytes_received);
    json.field("overhead_sent", counters.overhead_sent());
    json.field("overhead_received", counters.overhead_received());
    json.field("lost_datagrams", counters.lost_datagrams);
    json.field("duplicates", counters.duplicates);
    json.field("acks_sent", counters.acks_sent);
    json.field("acks_received", counters.acks_received);
}

std::string snapts_json(const Node& node, TimePoint now) {
    JsonWriter json;
    json.begin_array();
    for (const auto& link : node.links()) {
        json.begin_object();
        if (link->session) {
            write_session_fields(json, *link, now);
            write_link_details(json, *link);
        } else {
            json.field("snapt", link->name);
            json.field("address", address_of(*link));
        }
        json.field("state", state_of(*link));
        write_failure(json, link->failure.latest());
        json.field("control_open", link->is_control_open);
        json.field("nat64", link->nat64 ? std::optional(link->nat64->to_string()) : std::nullopt);
        json.field("learned", link->is_learned);
        json.field("listed", link->is_listed);
        json.field("forwards", link->forwards());
        json.field("load", link->load);
        json.field("price", link->price);
        json.field("handovers", link->handovers);
        json.field("committed_bits_per_s", link->committed_bits_per_s);
        json.end_object();
    }
    json.end_array();
    return json.take();
}

}  // namespace

std::string_view daemon_state(const Node& node, bool is_capturing) {
    const auto& links = node.links();
    const auto has = [&](const auto& is_so) {
        return std::any_of(links.begin(), links.end(),
                           [&](const auto& link) { return is_so(*link); });
    };
    const auto takes_flows = [](const SnaptLink& link) {
        return is_usable(link) && link.forwards();
    };
    if (is_capturing && has(takes_flows)) {
        return "up";
    }
    return has([](const SnaptLink& link) { return link.is_up; }) ? "degraded" : "down";
}

std::string_view tunnel_state(const Node& node, bool is_capturing) {
    const auto& links = node.links();
    const bool is_any_up =
        std::any_of(links.begin(), links.end(), [](const auto& link) { return link->is_up; });
    return !is_capturing ? "new_flows_plain" : is_any_up ? "all" : "blocked";
}

std::string answer(Node& node, const DaemonInfo& info, std::string_view command, size_t after) {
    if (command == "status") {
        return status_json(node, info);
    }
    if (command == "flows") {
        return flows_json(node, info, after);
    }
    if (command == "snapts") {
        return snapts_json(node, info.now);
    }
    if (command == "paths") {
        JsonWriter json;
        write_paths(json, node, info.now, true);
        return json.take();
    }
    return report::error_json("unknown command \"" + std::string(command) + "\"");
}

}  // namespace continuo::cnapt
