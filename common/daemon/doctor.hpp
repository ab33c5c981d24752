// The frame of `doctor` in both programs: runs checks one after the other, each within its own time
// and all within one, and prints their findings.
#pragma once

#include "common/base/time.hpp"
#include "common/report/daemon_client.hpp"
#include "common/report/findings.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace continuo::daemon {

// For all checks together. A choice, not measured.
inline constexpr base::Duration kDoctorTime = base::seconds(60);

// The time that is left for all checks.
class Deadline {
  public:
    explicit Deadline(base::Duration whole = kDoctorTime)
        : end_(std::chrono::steady_clock::now() + whole) {}

    // `at_most`, or what is left.
    base::Duration time_for(base::Duration at_most) const {
        return std::clamp<base::Duration>(end_ - std::chrono::steady_clock::now(), {}, at_most);
    }
    bool is_over() const { return std::chrono::steady_clock::now() >= end_; }

  private:
    base::TimePoint end_;
};

// Runs all of `works`, which cannot be stopped, on separate threads. Nothing for one that takes
// longer: its thread is left behind and ends with the process, so it must refer only to objects
// that live as long.
template <typename T>
std::vector<std::optional<T>> within(base::Duration span,
                                     const std::vector<std::function<T()>>& works) {
    const auto end = std::chrono::steady_clock::now() + span;
    std::vector<std::future<T>> pending;
    for (const std::function<T()>& work : works) {
        auto task = std::make_shared<std::packaged_task<T()>>(work);
        pending.push_back(task->get_future());
        std::thread([task] { (*task)(); }).detach();
    }
    std::vector<std::optional<T>> results;
    for (std::future<T>& one : pending) {
        const bool is_done = one.wait_until(end) == std::future_status::ready;
        results.push_back(is_done ? std::optional<T>(one.get()) : std::nullopt);
    }
    return results;
}

// One check, or several that belong together; adds its findings to the context's.
template <typename Context>
struct DoctorCheck {
    std::string_view name;
    void (*run)(Context& context);
};

// `context` has `findings` and `deadline`.
template <typename Context>
void run_checks(std::span<const DoctorCheck<Context>> checks, Context& context) {
    for (const DoctorCheck<Context>& check : checks) {
        if (context.deadline.is_over()) {
            context.findings.skip(std::string(check.name), "the time for all checks is over",
                                  "mend what took so long above, then run it again");
        } else {
            check.run(context);
        }
    }
}

// `options`: beside --config and --state, between the two.
report::CommandSpec doctor_spec(const std::vector<report::OptionSpec>& options = {});

// Fails when a check has failed.
report::CommandOutput doctor_output(std::string_view program,
                                    const report::Findings& findings,
                                    const report::ParsedCommand& command);

// A daemon's answer to a plain request, for checks.
struct DaemonAnswer {
    enum class Kind : uint8_t {
        Answer,
        Absent,   // nobody listens at the socket
        Unknown,  // no permission, or no answer in time: one may run
    };
    Kind kind = Kind::Unknown;
    report::JsonValue json;  // the answer
    std::string failure;     // one sentence, of the others
};
DaemonAnswer
ask(const report::DaemonAccess& access, std::string_view command, base::Duration timeout);
DaemonAnswer
ask_line(const report::DaemonAccess& access, std::string_view request, base::Duration timeout);

bool is_root();
// The remedy of a check that needs more rights.
inline constexpr std::string_view kRunAsRoot = "run it as root";

}  // namespace continuo::daemon
