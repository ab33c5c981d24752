// RelaySettings: what the relay is told at its start; some change later.
#pragma once

#include "common/io/thread_time.hpp"
#include "common/record/recording.hpp"
#include "common/session/session_types.hpp"
#include "snapt/nat/refusals.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace continuo::snapt::relay {

struct RelaySettings {
    std::string device = "snapt0";
    std::vector<base::Endpoint> listen;
    base::IpAddress own_ipv4;
    base::IpAddress own_ipv6;
    uint16_t inner_mtu = 1500;
    size_t max_sessions = 10000;
    size_t max_flows = 65536;
    size_t max_user_sessions = 8;  // 0: none
    size_t max_user_flows = 4096;  // 0: none
    uint64_t user_bits_per_s = 0;  // each way, all its nodes together; 0: none
    base::Duration idle_timeout = base::seconds(86400);
    base::Duration keepalive = base::seconds(25);  // as sent to nodes
    // Wait for a node's sign of life after a request. A choice: some round trips, and TCP's
    // repetitions.
    base::Duration sign_of_life_wait = base::seconds(5);
    uint64_t rekey_datagrams = wire::kRekeyDatagrams;
    std::array<session::ClassSettings, base::kTrafficClasses> classes;
    std::array<uint8_t, base::kTrafficClasses> tos{};  // outer, whole octet
    size_t max_kept_bytes = session::kMaxKeptBytes;    // all sessions together
    nat::Refusals refusals;                            // for new flows
    record::Recording recording;                       // must outlive the relay
    // Clock that measures the work for each session.
    std::function<base::TimePoint()> clock = [] { return std::chrono::steady_clock::now(); };
    // Time that the data loop's thread has worked.
    std::function<base::Duration()> worked = io::thread_time;
};

}  // namespace continuo::snapt::relay
