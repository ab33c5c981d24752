#include "cnapt/commands/classify_command.hpp"

#include "cnapt/commands/capture_input.hpp"
#include "common/host/system_random.hpp"
#include "common/report/json.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace continuo::cnapt::commands {

using report::Align;
using report::CommandOutput;
using report::JsonWriter;
using report::ParsedCommand;
using report::Table;

namespace {

constexpr uint64_t kNsPerS = 1'000'000'000;

std::string_view protocol_name(packet::Protocol protocol) {
    switch (protocol) {
    case packet::Protocol::Tcp:
        return "tcp";
    case packet::Protocol::Udp:
        return "udp";
    case packet::Protocol::Icmp:
        return "icmp";
    case packet::Protocol::IcmpV6:
        return "icmpv6";
    }
    return "unknown";
}

std::string endpoint_text(const base::IpAddress& address, uint16_t port) {
    return port == 0 ? address.to_string() : base::Endpoint{address, port}.to_string();
}

// Rules count from 1.
std::optional<uint32_t> rule_number(const CaptureFlow& flow) {
    const auto index = flow.classification.rule_index;
    return index ? std::optional(*index + 1) : std::nullopt;
}

std::string rule_text(const CaptureFlow& flow) {
    const auto number = rule_number(flow);
    return number ? std::to_string(*number) : "default";
}

std::string note_text(const CaptureFlow& flow) {
    std::string text;
    if (flow.promoted) {
        text = "was " + std::string(base::token(flow.classification.traffic_class)) + ": its rate";
    }
    if (flow.may_depend_on_process) {
        text += text.empty() ? "" : ", ";
        text += "or by its process";
    }
    return text;
}

std::string class_text(const CaptureFlow& flow) {
    return flow.classification.action == classifier::Action::Serve
               ? std::string(base::token(flow.traffic_class()))
               : std::string(classifier::to_string(flow.classification.action));
}

void write_flow(JsonWriter& json, const CaptureFlow& flow) {
    const packet::FiveTuple& tuple = flow.tuple;
    json.begin_object();
    json.field("proto", protocol_name(tuple.protocol));
    json.field("src", tuple.local.to_string()).field("sport", tuple.local_port);
    json.field("dst", tuple.remote.to_string()).field("dport", tuple.remote_port);
    json.field("class", base::token(flow.traffic_class()));
    json.field("class_at_first", base::token(flow.classification.traffic_class));
    json.field("action", classifier::to_string(flow.classification.action));
    json.field("app", flow.classification.app.empty() ? std::optional<std::string_view>()
                                                      : std::optional(flow.classification.app));
    json.field("rule", rule_number(flow));
    json.field("may_depend_on_process", flow.may_depend_on_process);
    json.field("packets_up", flow.packets_up).field("packets_down", flow.packets_down);
    json.field("bytes_up", flow.bytes_up).field("bytes_down", flow.bytes_down);
    json.field("first_at", flow.first_ns / kNsPerS);
    json.field("span_ms", (flow.last_ns - std::min(flow.last_ns, flow.first_ns)) / 1'000'000);
    json.end_object();
}

std::string
json_text(const CaptureFlows& flows, const CaptureReading& reading, const PolicyChoice& policy) {
    const CaptureRest& rest = flows.rest();
    JsonWriter json;
    json.begin_object();
    json.field("policy", policy.file);
    json.field("frames", reading.frames).field("packets", flows.packets());
    json.field("whole", reading.is_whole);
    json.key("skipped").begin_object();
    json.field("not_ip", reading.not_ip).field("fragments", rest.fragments);
    json.field("icmp_errors", rest.icmp_errors);
    json.field("other_protocols", rest.other_protocols).field("malformed", rest.malformed);
    json.field("beyond_limit", rest.beyond_limit).end_object();
    json.key("flows").begin_array();
    for (const CaptureFlow& flow : flows.flows()) {
        write_flow(json, flow);
    }
    json.end_array().end_object();
    return json.take() + "\n";
}

std::string skipped_text(const CaptureFlows& flows, const CaptureReading& reading) {
    const CaptureRest& rest = flows.rest();
    const std::pair<uint64_t, const char*> parts[] = {
        {reading.not_ip, "not IP"},
        {rest.other_protocols, "neither TCP, UDP nor ping"},
        {rest.fragments, "later fragments"},
        {rest.icmp_errors, "errors about a flow"},
        {rest.malformed, "damaged"},
        {rest.beyond_limit, "of more flows than are told apart"}};
    std::string text;
    for (const auto& [count, what] : parts) {
        if (count > 0) {
            text += (text.empty() ? "packets of no flow: " : ", ") + report::format_count(count) +
                    " " + what;
        }
    }
    return text.empty() ? "" : text + "\n";
}

// Those that carried most first.
std::string flows_text(const CaptureFlows& flows, bool is_terminal, size_t columns) {
    std::vector<const CaptureFlow*> order;
    order.reserve(flows.flows().size());
    for (const CaptureFlow& flow : flows.flows()) {
        order.push_back(&flow);
    }
    const auto bytes = [](const CaptureFlow* flow) { return flow->bytes_up + flow->bytes_down; };
    std::stable_sort(order.begin(), order.end(),
                     [&](const auto* one, const auto* other) { return bytes(one) > bytes(other); });
    constexpr uint8_t kEnoughAddress = 21;
    Table table({{"PROTO"},
                 {"SOURCE", Align::Left, 3, kEnoughAddress},
                 {"DESTINATION", Align::Left, 0, kEnoughAddress},
                 {"CLASS"},
                 {"RULE", Align::Right},
                 {"APP", Align::Left, 1},
                 {"PACKETS", Align::Right, 2},
                 {"UP", Align::Right},
                 {"DOWN", Align::Right},
                 {"NOTE", Align::Left, 4}});
    for (const CaptureFlow* flow : order) {
        table.add_row({std::string(protocol_name(flow->tuple.protocol)),
                       endpoint_text(flow->tuple.local, flow->tuple.local_port),
                       endpoint_text(flow->tuple.remote, flow->tuple.remote_port),
                       class_text(*flow), rule_text(*flow), std::string(flow->classification.app),
                       report::format_count(flow->packets_up + flow->packets_down),
                       report::format_bytes(flow->bytes_up), report::format_bytes(flow->bytes_down),
                       note_text(*flow)});
    }
    return table.rows() == 0 ? "no flow\n" : table.render(is_terminal, columns);
}

}  // namespace

report::CommandSpec classify_spec() {
    report::CommandSpec spec{
        "classify", "", 0, 0, capture_options(), "class and rule of each flow in a capture file"};
    spec.options.push_back({"--wide",
                            "",
                            report::OptionValue::None,
                            false,
                            {},
                            "all columns, however wide the screen is"});
    return spec;
}

CommandOutput classify_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    PolicyChoice policy = chosen_policy(command);
    if (policy.ruleset == nullptr) {
        return policy.failure;
    }
    host::SystemRandom random;
    CaptureFlows flows(policy.ruleset, random.u64());
    const CaptureReading reading =
        read_capture(command, [&](const packet::CapturedPacket& packet) { flows.add(packet); });
    CommandOutput output;
    output.err = policy.failure.err;  // warnings
    if (!reading.failure.empty()) {
        output.err += "cnapt: " + reading.failure + "\n";
        output.exit_code = reading.exit_code;
    }
    if (flows.packets() == 0) {
        return output;
    }
    output.out = command.has("--json")
                     ? json_text(flows, reading, policy)
                     : flows_text(flows, is_terminal, columns) + skipped_text(flows, reading);
    return output;
}

}  // namespace continuo::cnapt::commands
