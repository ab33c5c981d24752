#include "cnapt/commands/capture_input.hpp"

#include "cnapt/settings/check_files.hpp"
#include "cnapt/settings/default_paths.hpp"
#include "common/config/diagnostic.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::cnapt::commands {

using report::OptionValue;
using report::ParsedCommand;

namespace {

// Fewer bytes at the end of the file, or where it cannot be read: `sys_errno` then says why.
size_t read_fully(int fd, base::MutableByteView to, int& sys_errno) {
    size_t done = 0;
    while (done < to.size()) {
        const ssize_t count = ::read(fd, to.data() + done, to.size() - done);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            sys_errno = count < 0 ? errno : 0;
            break;
        }
        done += static_cast<size_t>(count);
    }
    return done;
}

}  // namespace

std::vector<report::OptionSpec> capture_options() {
    return {{"--pcap", "F", OptionValue::Required, false, {}, "the capture, pcap or pcapng"},
            {"--config", "F", OptionValue::Required, false, {}, "configuration file"},
            {"--policy",
             "F",
             OptionValue::Required,
             false,
             {},
             "policy file, instead of the one that the configuration names"}};
}

PolicyChoice chosen_policy(const ParsedCommand& command) {
    PolicyChoice choice;
    choice.file = command.value("--policy");
    if (!choice.file) {
        choice.file =
            settings::policy_file_of(command.value_or("--config", settings::kDefaultConfig));
    }
    if (!choice.file) {
        choice.ruleset = classifier::built_in_ruleset();
        return choice;
    }
    const auto text = io::read_file(*choice.file, daemon::kMaxFileBytes);
    if (!text) {
        choice.failure = {
            "", "cnapt: cannot read " + *choice.file + ": " + daemon::describe(text.error()) + "\n",
            report::kExitError};
        return choice;
    }
    classifier::ParsedPolicy parsed = classifier::parse_policy(*text, *choice.file);
    for (const config::Diagnostic& diagnostic : parsed.diagnostics) {
        choice.failure.err += config::to_text(diagnostic) + "\n";
    }
    choice.failure.exit_code = report::kExitConfig;
    choice.ruleset = std::move(parsed.ruleset);
    return choice;
}

CaptureReading read_capture(const ParsedCommand& command,
                            const std::function<void(const packet::CapturedPacket&)>& take) {
    CaptureReading reading;
    const auto fail = [&](std::string text, int exit_code) {
        reading.failure = std::move(text);
        reading.exit_code = exit_code;
        return reading;
    };
    const auto path = command.value("--pcap");
    if (!path) {
        return fail("name the capture: --pcap F", report::kExitUsage);
    }
    const io::UniqueFd file(::open(path->c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) {
        return fail("cannot read " + *path + ": " + std::strerror(errno), report::kExitError);
    }
    int sys_errno = 0;
    packet::CaptureReader reader(
        [&](base::MutableByteView to) { return read_fully(file.value(), to, sys_errno); });
    uint64_t packets = 0;
    while (true) {
        const auto packet = reader.next();
        reading.frames = reader.frames();
        reading.not_ip = reader.not_ip();
        if (sys_errno != 0) {
            return fail("cannot read " + *path + ": " + std::strerror(sys_errno),
                        report::kExitError);
        }
        if (!packet) {
            return fail(*path + " " + std::string(packet.error().where), report::kExitError);
        }
        if (!*packet) {
            break;
        }
        ++packets;
        take(**packet);
    }
    reading.is_whole = true;
    if (packets == 0) {
        const std::string link = reader.unknown_link()
                                     ? ": frames of link type " +
                                           std::to_string(*reader.unknown_link()) +
                                           " are not understood"
                                     : "";
        return fail(*path + " has no IP packet" + link, report::kExitError);
    }
    return reading;
}

}  // namespace continuo::cnapt::commands
