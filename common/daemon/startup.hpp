// Start and end of a daemon: its process, its configuration file, its run, and the sentences for
// errors.
#pragma once

#include "common/base/log.hpp"
#include "common/base/result.hpp"
#include "common/base/secret.hpp"
#include "common/config/diagnostic.hpp"
#include "common/host/privileges.hpp"
#include "common/report/command_line.hpp"
#include "common/report/json.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace continuo::daemon {

// Size limit of configuration, policy and key files.
inline constexpr size_t kMaxFileBytes = size_t{1} << 20;

// Arguments of `run` of both programs.
struct RunOptions {
    std::string config;
    std::string socket;
    std::string state;
    bool verbose = false;
};

// "cannot bind: Address already in use"
std::string describe(const base::Error& error);
// Wall clock.
int64_t utc_us();
std::string host_name(std::string_view fallback);

// "2026-11-23T12:05:09.042Z " of Unix time.
std::string log_time(int64_t utc_us);
// Whether standard error is connected to the journal, by JOURNAL_STREAM (systemd.exec(5)): the
// journal has its own times.
bool is_stderr_journal();

// Sets log level, times in the log unless the journal reads it, no SIGPIPE, as many descriptors as
// the host allows, and memory that no other process can read.
void begin_process(bool verbose);

// The whole file; nothing, and a log line, when it cannot be read.
std::optional<std::string> read_text_file(const std::string& path);

// Before the first thread: `user` in root's place, and no more rights than starting needs
// (host/privileges.hpp). `policy`: a file that reload reads too. False, and a log line, when it
// cannot be done.
bool reduce_rights(const RunOptions& options,
                   const char* user,
                   const std::string& policy,
                   std::span<const io::Capability> for_start);
// After the start: reduces the rights to those needed while running, permanently.
void confine();
// The value of "process" in `status`.
void write_process(report::JsonWriter& json);

enum class DiagnosticsTo : uint8_t { Stderr, Log };
void say(std::span<const config::Diagnostic> diagnostics, DiagnosticsTo where);

template <typename Config>
struct LoadedConfig {
    std::optional<Config> config;  // none when something is wrong with the file
    std::string complaint;         // the first message, including warnings; empty: none
};

// `parse(text, path)` gives an optional `config` and `diagnostics`, which are said.
template <typename Config, typename Parse>
LoadedConfig<Config> load_config(const std::string& path, const Parse& parse, DiagnosticsTo where) {
    auto text = read_text_file(path);
    if (!text) {
        return {std::nullopt, "cannot read " + path};
    }
    const base::WipedAtEnd wiped(*text);  // it holds keys
    auto parsed = parse(*text, path);
    say(parsed.diagnostics, where);
    return {std::move(parsed.config),
            parsed.diagnostics.empty() ? "" : config::to_text(parsed.diagnostics.front())};
}

// After a reload: says what needs a restart; the answer to the command.
std::string reloaded(const std::string& path,
                     std::span<const std::string> applied,
                     std::span<const std::string> needs_restart);

// "cannot listen: TCP bind: Address already in use; another program has ...": with what to do.
void say_refusal(const std::string& failure, const base::Error& error);

// `app` has start(std::string& failure), run() and stop(). Runs until it is stopped; gives the exit
// code: 0, or 1 when it cannot start, which is said in one sentence.
template <typename App>
int run_app(App& app) {
    std::string failure;
    const base::Result<void> started = app.start(failure);
    if (started) {
        app.run();
    } else {
        say_refusal(failure, started.error());
    }
    app.stop();
    return started ? report::kExitGood : report::kExitError;
}

}  // namespace continuo::daemon
