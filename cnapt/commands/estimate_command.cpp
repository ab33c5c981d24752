#include "cnapt/commands/estimate_command.hpp"

#include "cnapt/commands/capture_clock.hpp"
#include "cnapt/commands/capture_input.hpp"
#include "cnapt/commands/estimate_svg.hpp"
#include "cnapt/commands/estimate_tunnel.hpp"
#include "cnapt/settings/default_paths.hpp"
#include "cnapt/settings/node_config.hpp"
#include "common/base/secret.hpp"
#include "common/config/diagnostic.hpp"
#include "common/config/units.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/system_random.hpp"
#include "common/io/file.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace continuo::cnapt::commands {

using report::Align;
using report::CommandOutput;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

constexpr int kPercentDigits = 2;
constexpr base::Duration kLongestRtt = base::seconds(10);
constexpr uint64_t kSlowestLink = 1000;  // bit/s

// Why packets of the capture are not in the estimate.
struct LeftOut {
    uint64_t refused = 0;  // or beside the tunnel, by the policy
    uint64_t no_room = 0;  // above `flows`, or of a form that no node takes
    uint64_t of_no_flow = 0;
    uint64_t cut_off = 0;  // shorter in the capture than they say

    uint64_t total() const { return refused + no_room + of_no_flow + cut_off; }
};

// Datagrams of the tunnel that carry no packets.
struct Overhead {
    uint64_t datagrams = 0;
    uint64_t bytes = 0;
};

struct Outcome {
    std::array<DirectionSums, base::kTrafficClasses> up;
    std::array<DirectionSums, base::kTrafficClasses> down;
    Overhead overhead_up;
    Overhead overhead_down;
    uint64_t link_drops = 0;
    LeftOut left_out;
    base::Duration span{};

    DirectionSums of(size_t index) const { return up[index] + down[index]; }
    DirectionSums total() const {
        DirectionSums sum;
        for (size_t i = 0; i < base::kTrafficClasses; ++i) {
            sum = sum + of(i);
        }
        sum.datagrams += overhead_up.datagrams + overhead_down.datagrams;
        sum.wire_bytes += overhead_up.bytes + overhead_down.bytes;
        return sum;
    }
};

DirectionSums sums_of(const session::ClassCounters& counters) {
    return {counters.packets, counters.datagrams, counters.inner_bytes, counters.wire_bytes,
            counters.queue_drops};
}

struct LinkChoice {
    EstimateLink link;
    std::string failure;
};
LinkChoice chosen_link(const ParsedCommand& command) {
    LinkChoice choice;
    if (const auto text = command.value("--rate")) {
        const auto rate = config::parse_rate_bits_per_s(*text);
        if (!rate || *rate < kSlowestLink) {
            choice.failure = "--rate \"" + *text + "\"; expected a rate such as 2mbit";
        }
        choice.link.bits_per_s = rate.value_or(0);
    }
    if (const auto text = command.value("--rtt")) {
        const auto rtt = config::parse_duration(*text);
        if (!rtt || *rtt > kLongestRtt) {
            choice.failure = "--rtt \"" + *text + "\"; expected at most 10s, such as 50ms";
        }
        choice.link.rtt = rtt.value_or(choice.link.rtt);
    }
    return choice;
}

// Class knobs and limits of the configuration that is named, or is in the usual place and good;
// otherwise the usual ones.
struct ConfigChoice {
    settings::NodeConfig config;
    CommandOutput failure;  // exit code 0: none
};
ConfigChoice chosen_config(const ParsedCommand& command) {
    const std::string path = command.value_or("--config", settings::kDefaultConfig);
    ConfigChoice choice;
    auto text = io::read_file(path, daemon::kMaxFileBytes);
    if (!text) {
        choice.failure = {
            "", "cnapt: cannot read " + path + ": " + daemon::describe(text.error()) + "\n",
            report::kExitError};
    } else {
        const base::WipedAtEnd wiped(*text);  // it holds keys
        auto parsed = settings::parse_node_config(*text, path);
        if (parsed.config) {
            choice.config = std::move(*parsed.config);
        } else {
            for (const config::Diagnostic& diagnostic : parsed.diagnostics) {
                choice.failure.err += config::to_text(diagnostic) + "\n";
            }
            choice.failure.exit_code = report::kExitConfig;
        }
    }
    if (!command.has("--config")) {
        choice.failure = {};
    }
    return choice;
}

class Estimate {
  public:
    Estimate(std::shared_ptr<const classifier::Ruleset> ruleset,
             const EstimateLink& link,
             const settings::NodeConfig& config)
        : flows_(std::move(ruleset), random_.u64())
        , tunnel_(link,
                  {dataplane::class_table(config.classes, config.limits.queue_bytes),
                   config.limits.flows, random_.u64()}) {}

    void add(const packet::CapturedPacket& packet) {
        const CaptureFlow* flow = flows_.add(packet);
        if (flow == nullptr) {
            ++outcome_.left_out.of_no_flow;
            return;
        }
        if (packet.bytes.size() < packet.length) {
            ++outcome_.left_out.cut_off;
            return;
        }
        if (flow->classification.action != classifier::Action::Serve) {
            ++outcome_.left_out.refused;
            return;
        }
        const EstimateTunnel::Sender sender{flow->tuple, flow->traffic_class(),
                                            flow->classification.may_compress, flows_.is_up()};
        if (!tunnel_.send(sender, packet.bytes, clock_.at(packet.at_ns))) {
            ++outcome_.left_out.no_room;
        }
    }
    const Outcome& finish() {
        tunnel_.finish();
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            const size_t index = base::index_of(traffic_class);
            outcome_.up[index] = sums_of(tunnel_.counters(true, traffic_class));
            outcome_.down[index] = sums_of(tunnel_.counters(false, traffic_class));
        }
        outcome_.overhead_up = {tunnel_.overhead_datagrams(true), tunnel_.overhead_bytes(true)};
        outcome_.overhead_down = {tunnel_.overhead_datagrams(false), tunnel_.overhead_bytes(false)};
        outcome_.span = clock_.span();
        outcome_.link_drops = tunnel_.link_drops();
        return outcome_;
    }
    const CaptureFlows& flows() const { return flows_; }

  private:
    host::SystemRandom random_;
    CaptureFlows flows_;
    EstimateTunnel tunnel_;
    CaptureClock clock_;
    Outcome outcome_;
};

void write_figures_of(JsonWriter& json, const DirectionSums& sums) {
    json.begin_object();
    json.field("packets", sums.packets).field("datagrams", sums.datagrams);
    json.field("inner_bytes", sums.inner_bytes).field("wire_bytes", sums.wire_bytes);
    json.field("frames_saved_percent", saved_percent(sums.packets, sums.datagrams).value_or(NAN),
               kPercentDigits);
    json.field("saved_percent", saved_percent(sums.inner_bytes, sums.wire_bytes).value_or(NAN),
               kPercentDigits);
    json.field("queue_drops", sums.queue_drops).end_object();
}

std::string json_text(const Outcome& outcome,
                      const EstimateLink& link,
                      const CaptureFlows& flows,
                      const CaptureReading& reading,
                      const PolicyChoice& policy) {
    JsonWriter json;
    json.begin_object().field("policy", policy.file);
    json.key("link").begin_object();
    json.field("bits_per_s", link.bits_per_s == 0 ? std::nullopt : std::optional(link.bits_per_s));
    json.field("rtt_ms", base::to_ms(link.rtt)).end_object();
    json.field("span_s", static_cast<uint64_t>(outcome.span / base::seconds(1)));
    json.field("flows", flows.flows().size());
    json.key("classes").begin_object();
    for (size_t i = 0; i < base::kTrafficClasses; ++i) {
        json.key(base::kTrafficClassTokens[i]).begin_object();
        json.key("up");
        write_figures_of(json, outcome.up[i]);
        json.key("down");
        write_figures_of(json, outcome.down[i]);
        json.end_object();
    }
    json.end_object();
    json.key("overhead_bytes").begin_object();
    json.field("up", outcome.overhead_up.bytes).field("down", outcome.overhead_down.bytes);
    json.end_object();
    json.key("overhead_datagrams").begin_object();
    json.field("up", outcome.overhead_up.datagrams).field("down", outcome.overhead_down.datagrams);
    json.end_object();
    json.key("total");
    write_figures_of(json, outcome.total());
    json.key("left_out").begin_object();
    json.field("of_no_flow", outcome.left_out.of_no_flow);
    json.field("refused_by_policy", outcome.left_out.refused);
    json.field("no_room", outcome.left_out.no_room);
    json.field("cut_off", outcome.left_out.cut_off).end_object();
    json.field("link_drops", outcome.link_drops);
    json.field("whole", reading.is_whole).end_object();
    return json.take() + "\n";
}

// Packets that found no room, and those that are not in the table.
std::string missing_text(const Outcome& outcome) {
    std::string text;
    uint64_t dropped = outcome.link_drops;
    for (size_t i = 0; i < base::kTrafficClasses; ++i) {
        dropped += outcome.of(i).queue_drops;
    }
    if (dropped > 0) {
        text += "the capture is faster than the link: " + report::format_count(dropped) +
                " packets and datagrams found no room, which TCP would have avoided\n";
    }
    const LeftOut& left_out = outcome.left_out;
    if (left_out.total() > 0) {
        text += "left out: " + report::format_count(left_out.total()) + " packets (" +
                report::format_count(left_out.of_no_flow) + " of no flow, " +
                report::format_count(left_out.refused) + " by the policy, " +
                report::format_count(left_out.no_room) + " without room, " +
                report::format_count(left_out.cut_off) + " cut off)\n";
    }
    return text;
}

std::string
text_of(const Outcome& outcome, const EstimateLink& link, bool is_terminal, size_t columns) {
    const DirectionSums total = outcome.total();
    if (total.packets == 0) {
        return "no packet in the estimate\n" + missing_text(outcome);
    }
    Table table({{"CLASS"},
                 {"PACKETS", Align::Right, 2},
                 {"FRAMES", Align::Right, 2},
                 {"FRAMES SAVED", Align::Right},
                 {"BYTES", Align::Right, 1},
                 {"IN THE TUNNEL", Align::Right, 1},
                 {"BYTES SAVED", Align::Right}});
    const auto add = [&](const std::string& name, const DirectionSums& sums) {
        table.add_row(
            {name, report::format_count(sums.packets), report::format_count(sums.datagrams),
             report::format_percent(saved_percent(sums.packets, sums.datagrams)),
             report::format_bytes(sums.inner_bytes), report::format_bytes(sums.wire_bytes),
             report::format_percent(saved_percent(sums.inner_bytes, sums.wire_bytes))});
    };
    for (size_t i = 0; i < base::kTrafficClasses; ++i) {
        if (outcome.of(i).packets > 0) {
            add(std::string(base::kTrafficClassTokens[i]), outcome.of(i));
        }
    }
    add("all", total);
    std::string text = table.render(is_terminal, columns);
    const Overhead& up = outcome.overhead_up;
    const Overhead& down = outcome.overhead_down;
    text += "of these " + report::format_count(up.datagrams + down.datagrams) + " frames with " +
            report::format_bytes(up.bytes + down.bytes) +
            " are acknowledgements, keepalives and probes\n";
    const double seconds = std::chrono::duration<double>(outcome.span).count();
    if (link.bits_per_s != 0 && seconds > 0) {
        const auto share = [&](uint64_t bytes) {
            const double most = 2.0 * static_cast<double>(link.bits_per_s) * seconds;
            return report::format_percent(100.0 * 8.0 * static_cast<double>(bytes) / most);
        };
        text += "the link is used to " + share(total.inner_bytes) + " without, to " +
                share(total.wire_bytes) + " with the tunnel\n";
    }
    return text + missing_text(outcome);
}

std::vector<EstimateBar> bars_of(const Outcome& outcome) {
    std::vector<EstimateBar> bars;
    for (size_t i = 0; i < base::kTrafficClasses; ++i) {
        bars.push_back({std::string(base::kTrafficClassTokens[i]), outcome.of(i)});
    }
    bars.push_back({"all", outcome.total()});
    return bars;
}

}  // namespace

report::CommandSpec estimate_spec() {
    report::CommandSpec spec{
        "estimate", "", 0, 0, capture_options(), "what the tunnel would save, from a capture file"};
    for (report::OptionSpec& option : std::vector<report::OptionSpec>{
             {"--rate", "R", OptionValue::Required, false, {}, "rate of the link, such as 2mbit"},
             {"--rtt", "TIME", OptionValue::Required, false, {}, "round trip (default: 50ms)"},
             {"--svg",
              "F",
              OptionValue::Required,
              false,
              {},
              "also draw the result as an SVG file"},
             {"--wide",
              "",
              OptionValue::None,
              false,
              {},
              "all columns, however wide the screen is"}}) {
        spec.options.push_back(option);
    }
    return spec;
}

CommandOutput estimate_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    const auto failed = [](const std::string& text, int exit_code) {
        return CommandOutput{"", "cnapt: " + text + "\n", exit_code};
    };
    const LinkChoice choice = chosen_link(command);
    if (!choice.failure.empty()) {
        return failed(choice.failure, report::kExitUsage);
    }
    const ConfigChoice config = chosen_config(command);
    if (config.failure.exit_code != report::kExitGood) {
        return config.failure;
    }
    const PolicyChoice policy = chosen_policy(command);
    if (policy.ruleset == nullptr) {
        return policy.failure;
    }
    Estimate estimate(policy.ruleset, choice.link, config.config);
    const CaptureReading reading =
        read_capture(command, [&](const packet::CapturedPacket& packet) { estimate.add(packet); });
    const Outcome& outcome = estimate.finish();
    CommandOutput output;
    output.err = policy.failure.err;  // warnings
    if (!reading.failure.empty()) {
        output.err += "cnapt: " + reading.failure + "\n";
        output.exit_code = reading.exit_code;
    }
    if (outcome.left_out.cut_off > 0) {
        output.err += "cnapt: " + command.value_or("--pcap", "") + " has only the beginnings of " +
                      report::format_count(outcome.left_out.cut_off) +
                      " packets, which are left out: capture whole ones (tcpdump -s 0)\n";
    }
    if (outcome.total().packets == 0 && !reading.failure.empty()) {
        return output;
    }
    if (const auto path = command.value("--svg")) {
        if (const auto written =
                io::write_file_atomically(*path, estimate_svg(bars_of(outcome)), 0644);
            !written) {
            return failed("cannot write " + *path + ": " + daemon::describe(written.error()),
                          report::kExitError);
        }
    }
    output.out = command.has("--json")
                     ? json_text(outcome, choice.link, estimate.flows(), reading, policy)
                     : text_of(outcome, choice.link, is_terminal, columns);
    return output;
}

}  // namespace continuo::cnapt::commands
