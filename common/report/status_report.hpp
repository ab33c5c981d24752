// Parts of `status`, `flows` and `usage` that both daemons have: their JSON (docs/OPERATIONS.md)
// from plain figures, and their text for people from that JSON.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/base/traffic_class.hpp"
#include "common/report/json.hpp"
#include "common/report/json_value.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace continuo::report {

// Traffic of one class that this end sent, all sessions together.
struct ClassFigures {
    uint64_t packets = 0;
    uint64_t datagrams = 0;
    uint64_t packets_alone = 0;
    uint64_t sent_by_timeout = 0;
    uint64_t sent_by_size = 0;
    uint64_t inner_bytes = 0;  // IP lengths
    uint64_t wire_bytes = 0;   // outer IP lengths
    uint64_t queue_drops = 0;
    std::optional<double> queue_ms_p50;  // the session's that waits longest
    std::optional<double> queue_ms_p99;
    uint64_t super_packets = 0;
    uint64_t super_segments = 0;
    uint64_t software_segmented = 0;

    // Adds session::ClassCounters.
    template <typename Counters>
    void add(const Counters& counters) {
        packets += counters.packets;
        datagrams += counters.datagrams;
        packets_alone += counters.packets_alone;
        sent_by_timeout += counters.sent_by_timeout;
        sent_by_size += counters.sent_by_size;
        inner_bytes += counters.inner_bytes;
        wire_bytes += counters.wire_bytes;
        queue_drops += counters.queue_drops;
        super_packets += counters.super_packets;
        super_segments += counters.super_segments;
        software_segmented += counters.software_segmented;
        if (counters.queue_delay.total() > 0) {
            queue_ms_p50 =
                std::max(queue_ms_p50.value_or(0), counters.queue_delay.quantile_ms(0.5));
            queue_ms_p99 =
                std::max(queue_ms_p99.value_or(0), counters.queue_delay.quantile_ms(0.99));
        }
    }
};
using ClassFigureTable = std::array<ClassFigures, base::kTrafficClasses>;  // by base::index_of

// All that went one way, all sessions together.
struct TrafficFigures {
    uint64_t inner_bytes = 0;            // IP lengths
    uint64_t wire_bytes = 0;             // outer IP lengths
    std::optional<uint64_t> bits_per_s;  // inner IP packets, over the last seconds
};

// Counters of the data path beside the classes.
struct IoFigures {
    uint64_t tun_reads = 0;
    uint64_t tun_read_bytes = 0;
    uint64_t tun_writes = 0;
    uint64_t segments_written = 0;
    uint64_t frames_written = 0;
    bool uso = false;
    uint64_t slow_iterations = 0;
};

struct FlowFigures {
    uint64_t flow_id = 0;
    std::string_view proto;
    std::string src;
    uint16_t sport = 0;
    std::string dst;
    uint16_t dport = 0;
    std::optional<std::string> process;
    std::optional<std::string> app;
    base::TrafficClass traffic_class = base::TrafficClass::LtHd;
    std::optional<std::string> snapt;
    std::optional<std::string> path;
    std::string_view state;
    uint64_t packets_up = 0;
    uint64_t packets_down = 0;
    uint64_t inner_bytes_up = 0;
    uint64_t inner_bytes_down = 0;
    uint64_t wire_bytes_up = 0;
    uint64_t wire_bytes_down = 0;
    double age_s = 0;
    double idle_s = 0;  // since its last packet
    std::optional<std::string> refused_reason;
    std::optional<std::string> user;  // written when there is one
    std::optional<std::string> node;
};

// Nothing when nothing was there before.
std::optional<double> saved_percent(uint64_t bytes_before, uint64_t bytes_after);

// Each writes one value.
void write_classes(JsonWriter& json, const ClassFigureTable& classes);
void write_traffic(JsonWriter& json, const TrafficFigures& up, const TrafficFigures& down);
void write_io(JsonWriter& json, const IoFigures& io, const ClassFigureTable& classes);
// `others`: counted elsewhere.
void write_drops(JsonWriter& json,
                 const base::DropCounters& drops,
                 std::initializer_list<std::pair<std::string_view, uint64_t>> others = {});
void write_flow(JsonWriter& json, const FlowFigures& flow);
// {"error":"…"}
std::string error_json(std::string_view text);
// Answer to `reload`: keys that were applied and keys that only a restart applies.
std::string reload_json(std::span<const std::string> applied,
                        std::span<const std::string> needs_restart);

// --- For people
// "-" for null and for what is not there.
std::string cell(const JsonValue& value);
std::string price_cell(const JsonValue& value);  // three decimals
std::string bytes_cell(const JsonValue& value);
std::string count_cell(const JsonValue& value);
std::string milliseconds_cell(const JsonValue& value);
std::string denarii_cell(const JsonValue& value);   // from micro-denarii
std::string percent_cell(const JsonValue& value);   // from a percentage
std::string fraction_cell(const JsonValue& value);  // from a fraction, as percentage
std::string rate_cell(const JsonValue& value);      // from bits per second
std::string state_word(std::string_view state, bool is_terminal);
// Several addresses or names in a list, separated by commas; "none" for an empty one.
std::string list_cell(const JsonValue& list);

// Lines have at most `columns`, as far as that is possible (Table, wrapped()).
std::string classes_text(const JsonValue& classes, bool is_terminal, size_t columns = kAnyWidth);
// The text for the JSON of write_traffic(), with an empty line behind; empty when there is none.
std::string traffic_text(const JsonValue& traffic, bool is_terminal, size_t columns = kAnyWidth);
// The drops that are not zero; empty when there are none.
std::string drops_text(const JsonValue& drops, size_t columns = kAnyWidth);
std::string io_text(const JsonValue& io, size_t columns = kAnyWidth);
std::string usage_report_text(const JsonValue& usage, bool is_terminal, size_t columns = kAnyWidth);
// {"applied":[key…],"needs_restart":[key…]}
std::string reload_text(const JsonValue& answer);

}  // namespace continuo::report
