// Answers of the running snapt to status, sessions and flows: JSON whose names are fixed
// (docs/OPERATIONS.md). Data loop only; answers are built at once.
#pragma once

#include "snapt/accounting/accountant.hpp"
#include "snapt/links/control_server.hpp"
#include "snapt/relay/relay.hpp"
#include "snapt/settings/self_service.hpp"
#include "snapt/users/admission.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::users {

// State of the daemon that its Relay does not have.
struct SnaptInfo {
    std::string version;
    std::string name;
    std::string state_directory;
    std::string_view state = "up";  // up | draining | degraded | down
    std::optional<Drain> drain;
    std::string forwarding_error;  // why packets of nodes do not pass; empty: they do
    base::TimePoint started_at{};
    base::TimePoint now{};
    uint64_t slow_iterations = 0;                // the data loop's
    std::optional<ledger::LedgerStatus> ledger;  // absent: accounting is off
    bool is_clock_synchronised = false;
    int64_t utc_us = 0;
    uint64_t refused_ledger_commands = 0;
    uint64_t pruned_records = 0;
    links::ControlServerCounters control;
    std::optional<uint64_t> refused_connections;  // absent: they are not limited
    std::vector<base::IpPrefix> deny;             // as effective_deny_list()
    std::vector<settings::SelfService> allow_self;
    const record::PacketRecorder* recorder = nullptr;
};

// The `session_id` of `sessions`.
std::string hex_of(const control::SessionId& id);

// `command` is status, sessions or flows, of which one page is given: that behind place `after`
// (dataplane::flows_json). Whatever else gives {"error":"…"}.
std::string
answer(relay::Relay& relay, const SnaptInfo& info, std::string_view command, size_t after = 0);

}  // namespace continuo::snapt::users
