#include "snapt/rest/metrics.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace continuo::rest {
namespace {

using report::JsonValue;
using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

class Exposition {
  public:
    // `kind`: gauge or counter. The following samples belong to it.
    void family(std::string_view name, std::string_view kind, std::string_view help) {
        name_ = "snapt_";
        name_ += name;
        head_ = "# HELP " + name_ + " ";
        head_ += help;
        head_ += "\n# TYPE " + name_ + " ";
        head_ += kind;
        head_ += "\n";
    }
    void add(const JsonValue& value, Labels labels = {}) {
        if (const auto number = value.boolean()) {
            add(std::string(*number ? "1" : "0"), labels);
        } else if (value.number()) {
            add(report::json_text(value), labels);
        }
    }
    void add(uint64_t value, Labels labels = {}) { add(std::to_string(value), labels); }
    void add(const std::string& value, Labels labels) {
        text_ += std::exchange(head_, "") + name_;
        std::string_view separator = "{";
        for (const auto& [name, label] : labels) {
            text_ += separator;
            text_ += name;
            text_ += "=\"" + escaped(label) + "\"";
            separator = ",";
        }
        text_ += labels.size() == 0 ? " " : "} ";
        text_ += value + "\n";
    }
    // A family with one value; nothing when it is unknown.
    void one(std::string_view name,
             std::string_view kind,
             std::string_view help,
             const JsonValue& value) {
        family(name, kind, help);
        add(value);
    }
    // `value`: {"buckets":[{"le_s":0.001,"count":1},…],"sum_s":0.2,"count":5}, counts cumulative.
    void histogram(std::string_view name, std::string_view help, const JsonValue& value) {
        if (!value.is_object()) {
            return;
        }
        family(name, "histogram", help);
        const std::string of_all = name_;
        name_ = of_all + "_bucket";
        for (const JsonValue& bucket : value["buckets"].items()) {
            add(report::json_text(bucket["count"]), {{"le", report::json_text(bucket["le_s"])}});
        }
        add(report::json_text(value["count"]), {{"le", "+Inf"}});
        name_ = of_all + "_sum";
        add(value["sum_s"]);
        name_ = of_all + "_count";
        add(value["count"]);
    }
    std::string take() { return std::move(text_); }

  private:
    static std::string escaped(std::string_view label) {
        std::string text;
        for (const char c : label) {
            if (c == '\n') {
                text += "\\n";
                continue;
            }
            if (c == '\\' || c == '"') {
                text += '\\';
            }
            text += c;
        }
        return text;
    }

    std::string name_;
    std::string head_;  // until the first value
    std::string text_;
};

constexpr std::string_view kGauge = "gauge";
constexpr std::string_view kCounter = "counter";

constexpr std::string_view kDirections[] = {"up", "down"};

// `counted`: what the ledger's slots have, by class.
void add_bytes(Exposition& to, const JsonValue& traffic, const JsonValue& counted) {
    to.family(
        "bytes_total", kCounter,
        "Bytes of users: payload, inner packets, and the tunnel datagrams that carried them.");
    for (const std::string_view direction : kDirections) {
        if (!counted.is_object()) {
            to.add(traffic[direction]["inner_bytes"], {{"dir", direction}, {"layer", "inner"}});
            to.add(traffic[direction]["wire_bytes"], {{"dir", direction}, {"layer", "tunnel"}});
        }
        for (const auto& [token, figures] : counted.members()) {
            for (const std::string_view layer : {"payload", "inner", "tunnel"}) {
                to.add(figures[direction][std::string(layer) + "_bytes"],
                       {{"class", token}, {"dir", direction}, {"layer", layer}});
            }
        }
    }
}

// Before and after aggregation. Down: of the sessions, up: of the ledger's slots.
void add_saved(Exposition& to, const JsonValue& sent, const JsonValue& counted) {
    to.family("pre_bytes_total", kCounter,
              "Inner bytes in datagrams before aggregation, by class and direction.");
    for (const auto& [token, figures] : sent.members()) {
        to.add(figures["inner_bytes"], {{"class", token}, {"dir", "down"}});
        to.add(counted[token]["up"]["pre_bytes"], {{"class", token}, {"dir", "up"}});
    }
    to.family("post_bytes_total", kCounter,
              "Bytes of the datagrams that carried them, by class and direction; the difference is "
              "saved, and may be negative.");
    for (const auto& [token, figures] : sent.members()) {
        to.add(figures["wire_bytes"], {{"class", token}, {"dir", "down"}});
        to.add(counted[token]["up"]["post_bytes"], {{"class", token}, {"dir", "up"}});
    }
}

void add_flows(Exposition& to, const JsonValue& status) {
    to.family("flows", kGauge, "Flows of nodes, by class.");
    if (!status["flows_by_class"].is_object()) {
        to.add(status["flows"]);
    }
    for (const auto& [token, count] : status["flows_by_class"].members()) {
        to.add(count, {{"class", token}});
    }
}

void add_traffic(Exposition& to, const JsonValue& status) {
    const JsonValue& counted = status["ledger"]["classes"];
    add_bytes(to, status["traffic"], counted);
    add_saved(to, status["classes"], counted);
    to.family("datagrams_total", kCounter, "Tunnel datagrams with packets to nodes, by class.");
    for (const auto& [token, figures] : status["classes"].members()) {
        to.add(figures["datagrams"], {{"class", token}});
    }
    to.family("drops_total", kCounter, "Packets and datagrams that were dropped, by reason.");
    for (const auto& [reason, count] : status["drops"].members()) {
        to.add(count, {{"reason", reason}});
    }
}

void add_ledger(Exposition& to, const JsonValue& ledger, int64_t now_s) {
    to.one("records_total", kCounter, "Usage records written since the start.", ledger["records"]);
    to.one("recovered_records_total", kCounter, "Usage records recovered at the start.",
           ledger["recovered_records"]);
    to.one("failed_seals_total", kCounter, "Times that usage could not be written.",
           ledger["failed_seals"]);
    if (const auto at_s = ledger["last_commit_at"].integer()) {
        to.family("ledger_checkpoint_age_seconds", kGauge,
                  "Time since the ledger was last written.");
        to.add(static_cast<uint64_t>(std::max<int64_t>(now_s - *at_s, 0)));
    }
    to.one("ledger_disk_full", kGauge, "Whether the disk of the ledger is full.",
           ledger["disk_full"]);
    if (ledger.is_object()) {
        to.family("ledger_failing", kGauge, "Whether the ledger cannot be written.");
        to.add(uint64_t{ledger["write_error"].is_null() ? 0U : 1U});
        to.family("booking_failing", kGauge, "Whether usage is not, or not wholly, booked.");
        to.add(uint64_t{ledger["booking_error"].is_null() ? 0U : 1U});
    }
    to.histogram("ledger_commit_seconds", "Duration of commits to the ledger.",
                 ledger["commit_seconds"]);
    to.one("clock_steps_total", kCounter,
           "Times since the start that the wall clock was set by more than half a second.",
           ledger["clock_steps"]);
    to.one("charge_microdenarii_total", kCounter,
           "Charges that were booked since the start, before discounts, in micro-denarii.",
           ledger["charged_ud"]);
    to.one("disk_free_bytes", kGauge, "Free bytes of the disk of the ledger.",
           ledger["disk_free_bytes"]);
    to.one("live_slots", kGauge, "Flows that can be counted singly.", ledger["live_slots"]);
    to.one("live_slots_used", kGauge, "Slots of flows in use.", ledger["live_slots_in_use"]);
}

void add_control(Exposition& to, const JsonValue& control) {
    to.one("control_links", kGauge, "Control links of nodes.", control["links"]);
    to.one("control_accepted_total", kCounter, "Control connections accepted.",
           control["accepted"]);
    to.one("control_refused_total", kCounter, "Control connections refused for want of room.",
           control["refused"]);
    to.one("control_failed_handshakes_total", kCounter,
           "Control connections that ended before authentication.", control["failed_handshakes"]);
}

void add_http(Exposition& to, const HttpServer::Counters& http) {
    to.family("rest_requests_total", kCounter, "Requests to the REST interface.");
    to.add(http.requests);
    to.family("rest_connections_total", kCounter, "Connections to the REST interface.");
    to.add(http.connections);
    to.family("rest_closed_total", kCounter,
              "Connections to the REST interface that were closed at a limit.");
    to.add(http.refused, {{"limit", "connections"}});
    to.add(http.displaced, {{"limit", "silent"}});
    to.add(http.timeouts, {{"limit", "time"}});
    to.add(http.too_large, {{"limit", "body"}});
}

}  // namespace

std::string metrics_text(const JsonValue& status, const HttpServer::Counters& http, int64_t now_s) {
    Exposition to;
    to.family("info", kGauge, "Always 1.");
    to.add(std::string("1"), {{"name", status.text("name")}, {"version", status.text("version")}});
    to.family("degraded", kGauge,
              "Whether something hinders the service; `snapt status` says what.");
    to.add(uint64_t{status.text("state") == "degraded" ? 1U : 0U});
    to.family("draining", kGauge, "Whether an operator empties it: no new sessions and flows.");
    to.add(uint64_t{status["draining"].is_object() ? 1U : 0U});
    to.one("uptime_seconds", kGauge, "Time since the start.", status["uptime_s"]);
    to.one("sessions", kGauge, "Sessions of nodes.", status["sessions"]);
    add_flows(to, status);
    add_traffic(to, status);
    add_ledger(to, status["ledger"], now_s);
    add_control(to, status["control"]);
    add_http(to, http);
    return to.take();
}

}  // namespace continuo::rest
