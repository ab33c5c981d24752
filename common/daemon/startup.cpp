#include "common/daemon/startup.hpp"

#include "common/base/printable.hpp"
#include "common/daemon/remedy.hpp"
#include "common/io/file.hpp"
#include "common/report/status_report.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::daemon {

using base::log;
using base::LogLevel;

std::string describe(const base::Error& error) {
    std::string text(error.where.empty() ? base::to_string(error.code) : error.where);
    if (error.sys_errno != 0) {
        text += std::string(": ") + std::strerror(error.sys_errno);
    }
    return text;
}

void say_refusal(const std::string& failure, const base::Error& error) {
    const std::string advice(remedy(error));
    log(LogLevel::Error, "%s: %s%s%s", failure.c_str(), describe(error).c_str(),
        advice.empty() ? "" : "; ", advice.c_str());
}

int64_t utc_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string host_name(std::string_view fallback) {
    std::array<char, 256> name{};
    return std::string(::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : fallback);
}

std::string log_time(int64_t utc_us) {
    constexpr int64_t kSecond = 1'000'000;
    const std::time_t seconds = utc_us / kSecond;
    std::tm fields{};
    std::array<char, 64> text{};
    if (gmtime_r(&seconds, &fields) == nullptr) {
        return {};
    }
    std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ ",
                  fields.tm_year + 1900, fields.tm_mon + 1, fields.tm_mday, fields.tm_hour,
                  fields.tm_min, fields.tm_sec, static_cast<int>(utc_us % kSecond / 1000));
    return text.data();
}

bool is_stderr_journal() {
    const char* const named = std::getenv("JOURNAL_STREAM");
    struct stat own {};
    return named != nullptr && ::fstat(STDERR_FILENO, &own) == 0 &&
           std::to_string(own.st_dev) + ":" + std::to_string(own.st_ino) == named;
}

void begin_process(bool verbose) {
    base::set_log_level(verbose ? LogLevel::Debug : LogLevel::Info);
    if (!is_stderr_journal()) {
        base::set_log_stamp([] { return log_time(utc_us()); });
    }
    std::signal(SIGPIPE, SIG_IGN);
    // The soft limit is for programs that use select().
    rlimit descriptors{};
    if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
        descriptors.rlim_cur = descriptors.rlim_max;
        static_cast<void>(::setrlimit(RLIMIT_NOFILE, &descriptors) == 0);
    }
    // Its memory holds keys: no core file, and no other process of the same user reads it.
    const rlimit no_core{};
    static_cast<void>(::setrlimit(RLIMIT_CORE, &no_core) == 0);
    static_cast<void>(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}

bool reduce_rights(const RunOptions& options,
                   const char* user,
                   const std::string& policy,
                   std::span<const io::Capability> for_start) {
    const host::ServiceFiles files{
        {options.config, policy}, options.state, options.socket, "/dev/net/tun", user};
    const auto change = host::reduce_rights(files, for_start);
    if (!change) {
        log(LogLevel::Error, "cannot give up rights: %s", describe(change.error()).c_str());
        return false;
    }
    if (!change->obstacle.empty()) {
        log(LogLevel::Warning, "stays user root, without root's capabilities: %s",
            change->obstacle.c_str());
    }
    return true;
}

void confine() {
    if (const auto kept = io::keep_capabilities(io::kNetworkRights); !kept) {
        log(LogLevel::Warning, "keeps its capabilities: %s", describe(kept.error()).c_str());
    }
    if (const auto filtered = host::filter_system_calls(); !filtered) {
        log(LogLevel::Warning, "runs without a filter of system calls: %s",
            describe(filtered.error()).c_str());
    }
}

void write_process(report::JsonWriter& json) {
    const host::ProcessRights rights = host::process_rights();
    json.begin_object();
    json.field("user", rights.user);
    json.key("capabilities").begin_array();
    for (const std::string& capability : rights.capabilities) {
        json.string(capability);
    }
    json.end_array();
    json.field("seccomp", rights.seccomp);
    json.field("no_new_privs", rights.no_new_privs);
    json.end_object();
}

std::optional<std::string> read_text_file(const std::string& path) {
    auto text = io::read_file(path, kMaxFileBytes);
    if (!text) {
        log(LogLevel::Error, "cannot read %s: %s", path.c_str(), describe(text.error()).c_str());
        return std::nullopt;
    }
    return std::move(*text);
}

void say(std::span<const config::Diagnostic> diagnostics, DiagnosticsTo where) {
    for (const config::Diagnostic& diagnostic : diagnostics) {
        const std::string text = config::to_text(diagnostic);
        if (where == DiagnosticsTo::Stderr) {
            std::fprintf(stderr, "%s\n", base::printable(text).c_str());
        } else {
            log(LogLevel::Error, "%s", text.c_str());
        }
    }
}

std::string reloaded(const std::string& path,
                     std::span<const std::string> applied,
                     std::span<const std::string> needs_restart) {
    for (const std::string& key : needs_restart) {
        log(LogLevel::Warning, "%s: needs restart", key.c_str());
    }
    std::string text;
    for (const std::string& key : applied) {
        text += (text.empty() ? ": " : ", ") + key;
    }
    log(LogLevel::Info, "reloaded %s%s", path.c_str(),
        text.empty() ? "; nothing changed" : text.c_str());
    return report::reload_json(applied, needs_restart);
}

}  // namespace continuo::daemon
