#include "common/io/file.hpp"
#include "snapt/rest/metrics.hpp"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace continuo::rest {
namespace {

using report::JsonValue;

constexpr const char* kStatus = R"({"version":"0.1.0","name":"zrh \"1\"\\","state":"degraded",
"uptime_s":9,"sessions":2,"flows":3,"flows_by_class":{"lt-ld":1,"ht-hd":2},
"traffic":{"up":{"inner_bytes":10,"wire_bytes":20},"down":{"inner_bytes":9007199254740993,"wire_bytes":40}},
"classes":{"lt-ld":{"inner_bytes":1,"wire_bytes":2,"datagrams":3},"ht-hd":{"inner_bytes":4,"wire_bytes":5,"datagrams":6}},
"drops":{"replay":7,"too-old":0},
"ledger":{"records":5,"recovered_records":1,"failed_seals":0,"last_commit_at":1000,"disk_full":false,
"write_error":"disk","booking_error":null,"disk_free_bytes":null,"live_slots":100,"live_slots_in_use":4,
"clock_steps":2,"charged_ud":123456,
"commit_seconds":{"buckets":[{"le_s":0.001,"count":3},{"le_s":10,"count":4}],"sum_s":0.25,"count":5},
"classes":{"lt-ld":{"up":{"payload_bytes":51,"inner_bytes":61,"pre_bytes":71,"post_bytes":81,"tunnel_bytes":91},
"down":{"payload_bytes":52,"inner_bytes":62,"pre_bytes":72,"post_bytes":82,"tunnel_bytes":92}}}},
"control":{"links":2,"accepted":8,"refused":0,"failed_handshakes":1}})";

std::string text_of(const std::string& status) {
    HttpServer::Counters http;
    http.requests = 11;
    http.timeouts = 3;
    return metrics_text(JsonValue::parse(status).value(), http, 1012);
}

// The checks of `promtool check metrics`: the grammar, HELP and TYPE before the values, each family
// and series once, counters named _total.
void check(const std::string& text) {
    static const std::regex series(
        R"re(^([a-z_]+)(\{([a-z_]+="([^"\\\n]|\\["\\n])*")(,[a-z_]+="([^"\\\n]|\\["\\n])*")*\})? (-?[0-9.]+)$)re");
    std::map<std::string, std::string> types;
    std::set<std::string> seen;
    std::string family;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string hash;
        std::string kind;
        std::string name;
        std::string type;
        if (line.starts_with("# ")) {
            words >> hash >> kind >> name >> type;
            EXPECT_FALSE(kind == "HELP" && types.contains(name)) << line;
            family = name;
            if (kind == "TYPE") {
                types[name] = type;
                EXPECT_TRUE(type == "gauge" || type == "counter" || type == "histogram") << line;
                EXPECT_EQ(type == "counter", name.ends_with("_total")) << line;
            } else {
                EXPECT_EQ(kind, "HELP");
                EXPECT_TRUE(line.ends_with('.')) << line;
            }
            continue;
        }
        std::smatch found;
        ASSERT_TRUE(std::regex_match(line, found, series)) << line;
        const std::string part =
            found[1].str().substr(std::min(family.size(), found[1].str().size()));
        EXPECT_TRUE(found[1].str().starts_with(family)) << line;
        EXPECT_TRUE(types.contains(family)) << line;
        EXPECT_TRUE(types[family] == "histogram"
                        ? part == "_bucket" || part == "_sum" || part == "_count"
                        : part.empty())
            << line;
        EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
    EXPECT_TRUE(text.ends_with('\n'));
}

TEST(RestMetrics, AreInTheTextFormat) {
    check(text_of(kStatus));
    check(text_of("{}"));
}

TEST(RestMetrics, HaveTheFigures) {
    const std::string text = text_of(kStatus);
    for (const char* line : {R"(snapt_info{name="zrh \"1\"\\",version="0.1.0"} 1)",
                             "snapt_degraded 1",
                             "snapt_draining 0",
                             "snapt_sessions 2",
                             R"(snapt_flows{class="lt-ld"} 1)",
                             R"(snapt_flows{class="ht-hd"} 2)",
                             R"(snapt_bytes_total{class="lt-ld",dir="up",layer="payload"} 51)",
                             R"(snapt_bytes_total{class="lt-ld",dir="up",layer="tunnel"} 91)",
                             R"(snapt_bytes_total{class="lt-ld",dir="down",layer="inner"} 62)",
                             R"(snapt_pre_bytes_total{class="ht-hd",dir="down"} 4)",
                             R"(snapt_pre_bytes_total{class="lt-ld",dir="up"} 71)",
                             R"(snapt_post_bytes_total{class="lt-ld",dir="down"} 2)",
                             R"(snapt_post_bytes_total{class="lt-ld",dir="up"} 81)",
                             R"(snapt_ledger_commit_seconds_bucket{le="0.001"} 3)",
                             R"(snapt_ledger_commit_seconds_bucket{le="+Inf"} 5)",
                             "snapt_ledger_commit_seconds_sum 0.25",
                             "snapt_ledger_commit_seconds_count 5",
                             "snapt_clock_steps_total 2",
                             "snapt_charge_microdenarii_total 123456",
                             R"(snapt_drops_total{reason="replay"} 7)",
                             "snapt_ledger_checkpoint_age_seconds 12",
                             "snapt_ledger_failing 1",
                             "snapt_booking_failing 0",
                             "snapt_ledger_disk_full 0",
                             "snapt_live_slots_used 4",
                             "snapt_rest_requests_total 11",
                             R"(snapt_rest_closed_total{limit="time"} 3)"}) {
        EXPECT_NE(text.find(std::string(line) + "\n"), std::string::npos) << line << "\n" << text;
    }
}

TEST(RestMetrics, DashboardNamesNoOther) {
    std::string full = kStatus;
    full.replace(full.find("null,\"live_slots"), 4, "1");  // a disk that is known
    const std::string text = text_of(full);
    const auto dashboard =
        io::read_file(CONTINUO_SOURCE_DIR "/packaging/grafana/snapt.json", 1 << 20);
    ASSERT_TRUE(dashboard);
    ASSERT_TRUE(JsonValue::parse(*dashboard));
    static const std::regex metric("snapt_[a-z_]+");
    static const std::regex part("_(bucket|sum|count)$");
    size_t count = 0;
    for (std::sregex_iterator at(dashboard->begin(), dashboard->end(), metric), end; at != end;
         ++at) {
        const std::string family = std::regex_replace(at->str(), part, "");
        EXPECT_NE(text.find("# TYPE " + family + " "), std::string::npos) << at->str();
        ++count;
    }
    EXPECT_GT(count, 10U);
}

TEST(RestMetrics, HaveWhatThereIsWithoutALedger) {
    std::string off = kStatus;
    off.replace(off.find("\"ledger\":"), std::string("\"ledger\":").size(), "\"other\":");
    off.replace(off.find("flows_by_class"), std::string("flows_by_class").size(), "unknown");
    const std::string text = text_of(off);
    check(text);
    for (const char* line :
         {R"(snapt_bytes_total{dir="up",layer="tunnel"} 20)",
          R"(snapt_bytes_total{dir="down",layer="inner"} 9007199254740993)", "snapt_flows 3"}) {
        EXPECT_NE(text.find(std::string(line) + "\n"), std::string::npos) << line << "\n" << text;
    }
    EXPECT_EQ(text.find("snapt_ledger"), std::string::npos);
}

TEST(RestMetrics, UnknownIsLeftOut) {
    EXPECT_EQ(text_of(kStatus).find("disk_free_bytes"), std::string::npos);
    EXPECT_EQ(text_of("{}").find("snapt_records_total"), std::string::npos);
}

}  // namespace
}  // namespace continuo::rest
