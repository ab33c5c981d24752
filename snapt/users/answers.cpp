#include "snapt/users/answers.hpp"

#include "common/config/units.hpp"
#include "common/daemon/startup.hpp"
#include "common/dataplane/figures.hpp"
#include "snapt/nat/nat_limit.hpp"

#include <algorithm>
#include <cmath>

namespace continuo::snapt::users {

using config::kBitsPerByte;
using config::kMicroseconds;
using relay::Relay;
using report::JsonWriter;
using tunnel::Session;

namespace {

constexpr int kPercentDigits = 2;
constexpr int kLossDigits = 6;
constexpr int kSecondDigits = 3;
constexpr int kSumDigits = 6;

void write_traffic(JsonWriter& json, const Relay& relay, base::TimePoint now) {
    report::TrafficFigures up = dataplane::received_figures(relay.engine().received());
    report::TrafficFigures down = dataplane::sent_figures(relay.engine().sent());
    up.bits_per_s = relay.rates().up.bits_per_s(up.inner_bytes, now);
    down.bits_per_s = relay.rates().down.bits_per_s(down.inner_bytes, now);
    report::write_traffic(json, up, down);
}

void write_commits(JsonWriter& json, const ledger::CommitTimes& commits) {
    json.begin_object().key("buckets").begin_array();
    for (size_t i = 0; i < ledger::kCommitBucketsS.size(); ++i) {
        json.begin_object().field("le_s", ledger::kCommitBucketsS[i], kSecondDigits);
        json.field("count", commits.within[i]).end_object();
    }
    json.end_array();
    json.field("sum_s", commits.sum_s, kSumDigits).field("count", commits.count).end_object();
}

// Counts of the slots: `tunnel_bytes` is all that the tunnel carried, `post_bytes` without
// datagrams that had no packets.
void write_counted(JsonWriter& json, const ledger::ClassCounts& counted) {
    json.begin_object();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const flow::CounterValues& sums = counted[base::index_of(traffic_class)];
        json.key(base::token(traffic_class)).begin_object().key("up").begin_object();
        json.field("payload_bytes", sums.payload_up).field("inner_bytes", sums.inner_up);
        json.field("pre_bytes", sums.pre_up).field("post_bytes", sums.post_up);
        json.field("tunnel_bytes", sums.post_up + sums.tunnel_up).end_object();
        json.key("down").begin_object();
        json.field("payload_bytes", sums.payload_down).field("inner_bytes", sums.inner_down);
        json.field("pre_bytes", sums.pre_down).field("post_bytes", sums.post_down);
        json.field("tunnel_bytes", sums.post_down + sums.tunnel_down).end_object().end_object();
    }
    json.end_object();
}

void write_ledger(JsonWriter& json, const SnaptInfo& info) {
    if (!info.ledger) {
        json.null();
        return;
    }
    const ledger::LedgerStatus& ledger = *info.ledger;
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
    json.field("last_commit_age_s",
               ledger.last_commit_at_us == 0
                   ? std::nullopt
                   : std::optional(std::max<int64_t>(info.utc_us - ledger.last_commit_at_us, 0) /
                                   kMicroseconds));
    json.key("commit_seconds");
    write_commits(json, ledger.commits);
    json.field("clock_synchronised", info.is_clock_synchronised);
    json.field("clock_steps", ledger.clock_steps);
    json.field("charged_ud", ledger.charged_ud);
    json.key("classes");
    write_counted(json, ledger.counted);
    json.field("live_slots", ledger.live_slots);
    json.field("live_slots_in_use", ledger.live_slots_in_use);
    json.field("shared_flows", ledger.shared_flows);
    json.field("merged_flows", ledger.merged_flows);
    json.field("coarse", ledger.is_coarse);
    json.field("disk_free_bytes", ledger.free_bytes);
    json.field("disk_full", ledger.is_disk_full);
    json.field("write_error", ledger.write_error);
    json.field("write_error_since", ledger.write_error
                                        ? std::optional(ledger.write_error_since_us / kMicroseconds)
                                        : std::nullopt);
    json.field("booking_error", ledger.booking_error.empty() ? std::optional<std::string>()
                                                             : std::optional(ledger.booking_error));
    json.field("refused_commands", info.refused_ledger_commands);
    json.field("pruned_records", info.pruned_records);
    json.end_object();
}

void write_control(JsonWriter& json, const links::ControlServerCounters& control) {
    json.begin_object();
    json.field("links", control.links);
    json.field("accepted", control.accepted);
    json.field("refused", control.refused);
    json.field("displaced", control.displaced);
    json.field("failed_handshakes", control.failed_handshakes);
    json.field("portal_checks", control.portal_checks);
    json.field("refused_links", control.refused_links);
    json.field("refused_hellos", control.refused_hellos);
    json.field("pauses", control.pauses);
    json.end_object();
}

// In the kernel's connection tracking; null where its size is not known, or nothing is limited.
void write_connections(JsonWriter& json, const Relay& relay) {
    const nat::ConnectionRoom& room = relay.flows().connections().room();
    const size_t flows = relay.flows().connections().user_flows();
    json.begin_object();
    json.field("of_nodes", relay.flows().connections().size());
    json.field("without_flow", relay.flows().connections().left().size());
    json.field("limit", room.most());
    json.field("user_limit", flows == 0 ? std::nullopt : std::optional(2 * flows + room.gone()));
    json.field("in_table", room.table() ? std::optional(room.table()->used) : std::nullopt);
    json.field("table", room.table() ? std::optional(room.table()->places) : std::nullopt);
    json.end_object();
}

void write_flows_by_class(JsonWriter& json, const Relay& relay) {
    json.key("flows_by_class").begin_object();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        json.field(base::token(traffic_class),
                   relay.flows().by_class()[base::index_of(traffic_class)]);
    }
    json.end_object();
}

void write_drain(JsonWriter& json, const Relay& relay, const std::optional<Drain>& drain) {
    if (!drain) {
        json.null();
        return;
    }
    json.begin_object().field("since", drain->since_utc_s);
    json.field("ends_at", drain->ends_utc_s != 0 ? std::optional(drain->ends_utc_s) : std::nullopt);
    json.field("flows", relay.flows().shares().running_flows()).end_object();
}

std::string status_json(Relay& relay, const SnaptInfo& info) {
    const report::ClassFigureTable classes = relay.engine().sent();
    const base::Duration uptime = info.now - info.started_at;
    JsonWriter json;
    json.begin_object();
    json.field("version", info.version);
    json.field("name", info.name);
    json.field("state", info.state);
    json.field("forwarding_error", info.forwarding_error.empty()
                                       ? std::optional<std::string>()
                                       : std::optional(info.forwarding_error));
    json.key("draining");
    write_drain(json, relay, info.drain);
    json.field("uptime_s", std::chrono::duration_cast<base::seconds>(uptime).count());
    json.field("epoch", info.ledger ? std::optional(info.ledger->epoch) : std::nullopt);
    json.field("sessions", relay.sessions().size());
    json.field("flows", relay.flows().table().size());
    write_flows_by_class(json, relay);
    json.field("flows_gave_way", relay.flows().table().gave_way());
    json.field("flows_left_to_kernel", relay.flows().connections().gone().left());
    json.key("connections");
    write_connections(json, relay);
    dataplane::write_kept_memory(json, relay.engine().kept_memory());
    json.key("traffic");
    write_traffic(json, relay, info.now);
    json.key("classes");
    report::write_classes(json, classes);
    json.key("drops");
    report::write_drops(json, relay.all_drops(),
                        {{nat::kConnectionLimitCounter, info.refused_connections.value_or(0)}});
    json.key("deny").begin_array();
    for (const base::IpPrefix& prefix : info.deny) {
        json.string(prefix.to_string());
    }
    json.end_array();
    json.key("allow_self").begin_array();
    for (const settings::SelfService& service : info.allow_self) {
        json.string(service.to_string());
    }
    json.end_array();
    json.key("control");
    write_control(json, info.control);
    json.key("ledger");
    write_ledger(json, info);
    json.key("sinks").begin_array().end_array();
    json.key("io");
    report::write_io(json, dataplane::io_figures(relay.engine().tun(), info.slow_iterations),
                     classes);
    json.field("state_directory", info.state_directory);
    json.key("process");
    daemon::write_process(json);
    if (info.recorder != nullptr) {
        json.key("capture_file");
        info.recorder->write_status(json);
    }
    json.end_object();
    return json.take();
}

// Down direction, on the path in use.
void write_mtu(JsonWriter& json, const Session& session) {
    const auto active = session.paths().active();
    const path::Path* path = active ? &session.paths().path(*active) : nullptr;
    dataplane::write_mtu(json, session);
    json.field("mtu_state", recovery::to_string(path != nullptr ? path->mtu_search().state()
                                                                : recovery::MtuState::Base));
    json.field("black_holes", path != nullptr ? path->mtu_search().black_holes() : 0);
}

// As in `cnapt status`; null where nothing is limited.
void write_allowance(JsonWriter& json, const accounting::Allowance& allowance) {
    if (allowance.state == accounting::Allowance::State::Free && !allowance.quota) {
        json.null();
        return;
    }
    const auto if_above_0 = [](int64_t number) {
        return number > 0 ? std::optional(number) : std::nullopt;
    };
    json.begin_object();
    json.field("of", allowance.is_for_credit ? "credit" : "quota");
    json.field("state", to_string(allowance.state));
    json.field("quota_bytes",
               allowance.quota ? std::optional(allowance.quota->bytes) : std::nullopt);
    json.field("used_bytes", allowance.used_bytes);
    json.field("until", if_above_0(allowance.until_us / store::kUsPerSecond));
    json.field("rate_bits_per_s", if_above_0(static_cast<int64_t>(allowance.bits_per_s)));
    json.end_object();
}

void write_session(JsonWriter& json, const relay::NodeSession& node, base::TimePoint now) {
    const Session& session = node.session;
    const auto active = session.paths().active();
    const path::Path* path = active ? &session.paths().path(*active) : nullptr;
    const base::Duration rtt = path != nullptr ? path->feedback().smoothed_rtt() : base::Duration{};
    // Down counts the bytes sent; up before and after are what the kernel and the sockets counted.
    const uint64_t down_inner = dataplane::inner_bytes_sent(session);
    uint64_t down_wire = 0;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        down_wire += session.queues().counters(traffic_class).wire_bytes;
    }
    const session::SessionCounters& counters = session.counters();
    const uint64_t up_wire =
        counters.bytes_received - std::min(counters.bytes_received, counters.overhead_received());
    const auto saved = report::saved_percent(node.up_bytes + down_inner, up_wire + down_wire);
    json.begin_object();
    json.field("user", node.grant.user);
    json.field("node", node.grant.node);
    json.field("session_id", hex_of(node.grant.session_id));
    const auto remote = relay::remote_of(session);
    json.field("from", remote ? std::optional(remote->to_string()) : std::nullopt);
    json.field("transport", active == wire::kTcpPath ? "tcp" : "udp");
    json.field("rtt_ms", dataplane::milliseconds_or_nan(rtt), dataplane::kMillisecondDigits);
    // Direction down, as the node reports it.
    json.field("loss", path != nullptr ? path->feedback().measured().loss.value_or(NAN) : NAN,
               kLossDigits);
    const uint64_t bytes_per_s = path != nullptr ? path->feedback().measured().bytes_per_s : 0;
    json.field("delivery_bits_per_s",
               bytes_per_s != 0 ? std::optional(bytes_per_s * kBitsPerByte) : std::nullopt);
    json.field("up_bits_per_s", node.rates.up.bits_per_s(counters.inner_bytes_received, now));
    json.field("down_bits_per_s", node.rates.down.bits_per_s(down_inner, now));
    write_mtu(json, session);
    dataplane::write_class_ways(json, session, routing::PathMask{UINT16_MAX});
    json.field("handovers", counters.handovers);
    json.field("inner_ipv4", dataplane::text_of(node.grant.lease_ipv4));
    json.field("inner_ipv6", dataplane::text_of(node.grant.lease_ipv6));
    json.field("up_bytes", node.up_bytes);
    json.field("down_bytes", down_inner);
    json.field("saved_percent", saved.value_or(NAN), kPercentDigits);
    json.field("since", node.since_utc_s);
    json.field("heard_ms_ago", dataplane::milliseconds_or_nan(now - node.heard_at()),
               dataplane::kMillisecondDigits);
    json.field("control_open", node.has_link);
    json.field("flows", node.flows);
    json.key("allowance");
    write_allowance(json, node.share->meter->allowance());
    json.field("epoch", session.epochs().newest());
    json.field("lost_datagrams", counters.lost_datagrams);
    json.field("repeated_datagrams", counters.repeated_datagrams);
    dataplane::write_several_paths(json, session);
    json.field("overhead_sent", counters.overhead_sent());
    json.field("overhead_received", counters.overhead_received());
    json.field("control_pauses", node.control_pauses->load());
    json.field("input_drops", node.dropped_inputs());
    json.end_object();
}

std::string sessions_json(const Relay& relay, base::TimePoint now) {
    JsonWriter json;
    json.begin_array();
    for (const auto& node : relay.sessions()) {
        write_session(json, *node, now);
    }
    json.end_array();
    return json.take();
}

std::string flows_json(Relay& relay, const SnaptInfo& info, size_t after) {
    const auto complete = [&](report::FlowFigures& figures, const flow::Flow& flow) {
        figures.snapt = info.name;
        if (const auto* node = flow::details_as<const relay::NodeSession>(flow)) {
            figures.user = node->grant.user;
            figures.node = node->grant.node;
            const auto app = node->apps->find(flow.app);
            figures.app = app ? dataplane::if_any(*app) : std::nullopt;
        }
    };
    return dataplane::flows_json(relay.flows().table(), info.now, after, complete);
}

}  // namespace

std::string hex_of(const control::SessionId& id) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const uint8_t octet : id) {
        text += kDigits[octet >> 4U];
        text += kDigits[octet & 0x0FU];
    }
    return text;
}

std::string answer(Relay& relay, const SnaptInfo& info, std::string_view command, size_t after) {
    if (command == "status") {
        return status_json(relay, info);
    }
    if (command == "sessions") {
        return sessions_json(relay, info.now);
    }
    if (command == "flows") {
        return flows_json(relay, info, after);
    }
    return report::error_json("unknown command \"" + std::string(command) + "\"");
}

}  // namespace continuo::snapt::users
