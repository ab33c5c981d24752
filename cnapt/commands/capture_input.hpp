// CaptureInput: file and policy of the commands on captures, and their messages when one of them
// cannot be read.
#pragma once

#include "cnapt/commands/capture_flows.hpp"
#include "common/io/unique_fd.hpp"
#include "common/report/command_line.hpp"
#include "common/report/daemon_client.hpp"

#include <functional>
#include <memory>
#include <string>

namespace continuo::cnapt::commands {

// --pcap, --config, --policy
std::vector<report::OptionSpec> capture_options();

// The policy that `run` would use; null, with the output that says why, when it cannot be read.
struct PolicyChoice {
    std::shared_ptr<const classifier::Ruleset> ruleset;
    std::optional<std::string> file;  // none: the built-in one
    report::CommandOutput failure;
};
PolicyChoice chosen_policy(const report::ParsedCommand& command);

// Reads the file of --pcap. `take` gets each packet.
struct CaptureReading {
    bool is_whole = false;  // to its end
    std::string failure;    // a sentence; empty: none
    int exit_code = 0;      // of it
    uint64_t frames = 0;
    uint64_t not_ip = 0;
};
CaptureReading read_capture(const report::ParsedCommand& command,
                            const std::function<void(const packet::CapturedPacket&)>& take);

}  // namespace continuo::cnapt::commands
