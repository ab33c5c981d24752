// `cnapt ping SNAPT`: asks the daemon for round trips, once a second, and sums them up.
#pragma once

#include "common/report/daemon_client.hpp"

#include <functional>
#include <string>

namespace continuo::cnapt::commands {

// The interval is that of ping(8); the numbers are choices.
inline constexpr uint64_t kDefaultPings = 4;
inline constexpr uint64_t kMostPings = 1000;
inline constexpr base::Duration kPingInterval = base::seconds(1);

report::CommandSpec ping_spec();

// `print` gets each line as it comes, without --json. Fails when nothing has answered.
report::CommandOutput ping_command(const report::DaemonAccess& access,
                                   const report::ParsedCommand& command,
                                   const std::function<void(const std::string& line)>& print);

}  // namespace continuo::cnapt::commands
