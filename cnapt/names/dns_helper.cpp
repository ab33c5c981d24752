#include "cnapt/names/dns_helper.hpp"

#include "cnapt/names/resolv_file.hpp"
#include "cnapt/names/resolved_keeper.hpp"
#include "common/base/time.hpp"
#include "common/host/privileges.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::cnapt::names {

using base::Errc;
using base::Error;
using base::Result;

namespace {

// Interval of checks for changes by other programs, and time in which such a change must be
// complete.
constexpr int kLookMs = 1000;
constexpr int kOpenAgainMs = 50;
constexpr int kOpenTries = 60;
// Two programs that replace each other's file would never stop: the time between repairs doubles
// until nothing has happened for that long.
constexpr std::chrono::seconds kFirstRest{1};
constexpr std::chrono::seconds kLongestRest{60};

const std::string kResolvedName = "systemd-resolved: ";

volatile std::sig_atomic_t must_end = 0;
volatile pid_t helper_of_keeper = 0;

void on_end(int /*signal*/) {
    must_end = 1;
}

void on_end_of_keeper(int signal) {
    must_end = 1;
    if (helper_of_keeper > 0) {
        ::kill(helper_of_keeper, signal);
    }
}

std::string text_of(const Error& error) {
    std::string text(error.where);
    if (error.sys_errno != 0) {
        text += std::string(": ") + std::strerror(error.sys_errno);
    }
    return text;
}

class Helper {
  public:
    Helper(int fd, const DnsHelperOptions& options, ResolvFile file)
        : fd_(fd)
        , servers_(options.servers)
        , path_(options.resolv_conf)
        , file_(std::move(file))
        , resolved_(ResolvedLink(options.device)) {}

    void begin();
    // Before the daemon is heard: by then remains of an earlier run in another place are put back.
    // Without Landlock the rights of this process's user apply.
    void confine() {
        if (const auto confined = file_.confine(); !confined) {
            say("note the helper for resolv.conf is not confined by Landlock: " +
                text_of(confined.error()));
        }
    }
    void run();
    void end();

  private:
    using Clock = std::chrono::steady_clock;

    void say(const std::string& text) const {
        static_cast<void>(::send(fd_, text.data(), std::min(text.size(), kMaxDnsMessageBytes),
                                 MSG_NOSIGNAL) == 0);
    }
    void complain(const std::string& text);
    void tell_state(const char* state);
    void tell_original();
    void tell_resolved();
    bool receive();
    void apply();
    void apply_file();
    bool is_applied() const;
    void take_over();
    bool restore();
    void look();
    void look_at_resolved(Clock::time_point now);

    int fd_;
    std::vector<base::IpAddress> servers_;
    std::string path_;
    ResolvFile file_;
    ResolvedKeeper resolved_;
    bool is_wanted_ = false;  // names are to go through the tunnel
    bool was_resolved_told_ = false;
    std::string look_failure_;  // why the last look at resolved failed
    bool was_undone_ = false;   // at the last look
    Clock::time_point repaired_at_{};
    std::chrono::seconds rest_ = kFirstRest;
    std::string told_original_;
    std::string complaint_;  // since the last state message
};

void Helper::begin() {
    auto cleaned = file_.clean_up();
    if (const std::string other = file_.other_place(); !other.empty()) {
        auto theirs = ResolvFile::open(path_, other);
        cleaned = theirs ? theirs->clean_up() : Result<bool>(theirs.error());
    }
    if (cleaned && *cleaned) {
        say("note resolv.conf, which an earlier run had changed, is restored");
    }
    tell_original();
    say("resolved plain");  // before resolved asks other servers
    resolved_.clear();
    say("ready");
    if (!cleaned) {
        complain(text_of(cleaned.error()));
    }
}

// The same failure recurs with each try.
void Helper::complain(const std::string& text) {
    if (text != complaint_) {
        complaint_ = text;
        say("error " + text);
    }
}

void Helper::tell_state(const char* state) {
    complaint_.clear();
    say(std::string("state ") + state);
}

void Helper::tell_resolved() {
    if (std::exchange(was_resolved_told_, resolved_.is_told()) != resolved_.is_told()) {
        say(resolved_.is_told() ? "resolved tunnel" : "resolved plain");
    }
}

void Helper::tell_original() {
    std::string text = "original";
    for (const base::IpAddress& server : file_.original_servers()) {
        text += " " + server.to_string();
    }
    if (text != told_original_) {
        told_original_ = text;
        say(text);
    }
}

void Helper::run() {
    sigset_t blocked;
    sigset_t open;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &blocked, &open);
    sigdelset(&open, SIGTERM);
    const timespec look_after{kLookMs / 1000, 0};
    while (must_end == 0) {
        pollfd ready{fd_, POLLIN, 0};
        const bool is_left = !is_wanted_ && file_.is_applied();  // could not be put back
        const int count = ::ppoll(&ready, 1, is_wanted_ || is_left ? &look_after : nullptr, &open);
        if (count > 0 && !receive()) {
            return;
        }
        if (count == 0 && is_wanted_) {
            look();
        } else if (count == 0 && restore()) {
            tell_state("plain");
        }
    }
}

bool Helper::receive() {
    std::array<char, kMaxDnsMessageBytes> buffer{};
    const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
        return count < 0 && errno == EINTR;
    }
    const std::string_view text(buffer.data(), static_cast<size_t>(count));
    if (text == "tunnel") {
        is_wanted_ = true;
        apply();
    } else if (text == "plain") {
        is_wanted_ = false;
        if (restore()) {
            tell_state("plain");
        }
    }
    return true;
}

// Programs may ask resolved other than by resolv.conf, so it is configured whenever it runs.
void Helper::apply() {
    if (const auto told = resolved_.tell(servers_); !told) {
        complain(kResolvedName + text_of(told.error()));
    }
    tell_resolved();
    if (!resolved_.is_told() || !file_.leads_to_resolved()) {
        apply_file();
    } else {
        tell_state("tunnel");
    }
    tell_original();
}

void Helper::apply_file() {
    const auto applied = file_.apply(servers_);
    if (applied) {
        tell_state("tunnel");
        return;
    }
    const bool is_refused =
        applied.error().sys_errno == EPERM || applied.error().sys_errno == EACCES;
    complain("cannot change resolv.conf (" + text_of(applied.error()) + ")" +
             (is_refused ? "; immutable, or not ours to write: names are looked up as before"
                         : "; names are looked up as before"));
}

bool Helper::restore() {
    if (std::exchange(was_resolved_told_, false)) {
        say("resolved plain");  // before resolved asks other servers
    }
    resolved_.undo();
    let_resolved_forget(file_);
    const auto restored = file_.restore();
    if (!restored) {
        complain("cannot put resolv.conf back (" + text_of(restored.error()) + ")");
    } else if (!*restored) {
        say("note resolv.conf was changed by another program and stays so");
    }
    tell_original();
    return restored.has_value();
}

bool Helper::is_applied() const {
    return file_.is_applied() ? !file_.is_replaced()
                              : resolved_.is_told() && file_.leads_to_resolved();
}

// A resolved that cannot be asked is taken to have what it was told; the daemon finds out whether
// names resolve.
void Helper::look_at_resolved(Clock::time_point now) {
    const auto again = resolved_.look(servers_, now);
    const std::string failure = again ? "" : text_of(again.error());
    if (std::exchange(look_failure_, failure) != failure && !failure.empty()) {
        say("note " + kResolvedName + failure);
        say("resolved silent");
    }
    tell_resolved();
    if (again && *again) {
        say("resolved again");
        if (!complaint_.empty() && is_applied()) {
            tell_state("tunnel");
        }
    }
}

// A change counts if it is still there at the next check: then it is complete.
void Helper::look() {
    tell_original();  // the link's target may have changed
    const auto now = Clock::now();
    look_at_resolved(now);
    const bool is_undone = !is_applied();
    const auto since = now - repaired_at_;
    if (!std::exchange(was_undone_, is_undone) || !is_undone || since < rest_) {
        return;
    }
    rest_ = since < 2 * kLongestRest ? std::min(2 * rest_, kLongestRest) : kFirstRest;
    repaired_at_ = now;
    was_undone_ = false;
    if (file_.is_applied()) {
        take_over();
    } else {
        apply();
    }
}

void Helper::take_over() {
    if (const auto taken = file_.take_over(); !taken) {
        complain("cannot change resolv.conf again (" + text_of(taken.error()) + ")");
        return;
    }
    if (!complaint_.empty()) {
        tell_state("tunnel");
    }
    say("note resolv.conf was changed by another program; at the end that version is restored");
    tell_original();
}

void Helper::end() {
    static_cast<void>(restore());
}

// The daemon is ended by the terminal or by a service manager that restarts it; the helper ends
// with the daemon.
void set_signals(void (*on_term)(int)) {
    struct sigaction action {};
    action.sa_handler = on_term;
    ::sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGUSR2, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGCHLD, SIG_DFL);
}

// The helper of a killed run is still restoring what that had changed.
Result<ResolvFile> open_file(const DnsHelperOptions& options) {
    auto file = ResolvFile::open(options.resolv_conf, options.kept);
    for (int tries = 0; tries < kOpenTries && !file && file.error().code == Errc::WouldBlock;
         ++tries) {
        ::poll(nullptr, 0, kOpenAgainMs);
        file = ResolvFile::open(options.resolv_conf, options.kept);
    }
    return file;
}

int serve(int fd, const DnsHelperOptions& options, ResolvFile file) {
    Helper helper(fd, options, std::move(file));
    helper.begin();
    helper.confine();
    helper.run();
    helper.end();
    return 0;
}

// Done while root's capabilities remain: the directory may lie in another user's.
Result<ResolvFile> open_and_give_up_rights(int fd, const DnsHelperOptions& options) {
    auto file = open_file(options);
    static_cast<void>(io::keep_capabilities({}).has_value());
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    static_cast<void>(::chdir("/") == 0);
    if (!file) {
        const std::string text = "error " + text_of(file.error());
        static_cast<void>(::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == 0);
    }
    return file;
}

// Restarts a killed helper, at growing intervals while it does not live long; the new one restores
// what the old one left, and the daemon tells it the wanted state. This process does nothing else,
// so that it has little to fail of.
class Keeper {
  public:
    // `file` is open, and locked for all helpers.
    Keeper(int fd, const DnsHelperOptions& options, ResolvFile file)
        : fd_(fd), options_(options), file_(std::move(file)) {}

    int run();

  private:
    using Clock = std::chrono::steady_clock;

    // Exit status of the helper, as waitpid() gives it; -1: it could not be started.
    int run_helper();
    bool has_daemon() const;
    void wait(std::chrono::seconds rest) const;  // or until the daemon is gone, or this must end
    void put_back();

    int fd_;
    const DnsHelperOptions& options_;
    ResolvFile file_;
    // SIGTERM is unblocked only while this process waits.
    sigset_t blocked_{};
    sigset_t open_{};
};

int Keeper::run_helper() {
    const pid_t child = must_end == 0 ? ::fork() : -1;
    if (child == 0) {
        ::prctl(PR_SET_NAME, "cnapt-dns", 0, 0, 0);
        set_signals(on_end);
        ::sigprocmask(SIG_SETMASK, &open_, nullptr);
        ::_exit(serve(fd_, options_, std::move(file_)));
    }
    if (child < 0) {
        return -1;
    }
    helper_of_keeper = child;
    ::sigprocmask(SIG_SETMASK, &open_, nullptr);
    // The pid stays reserved until the handler has forgotten it.
    siginfo_t ended{};
    while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
    ::sigprocmask(SIG_BLOCK, &blocked_, nullptr);
    helper_of_keeper = 0;
    int status = -1;
    ::waitpid(child, &status, 0);
    return status;
}

bool Keeper::has_daemon() const {
    pollfd end{fd_, POLLRDHUP, 0};
    return ::poll(&end, 1, 0) == 0;
}

void Keeper::wait(std::chrono::seconds rest) const {
    pollfd end{fd_, POLLRDHUP, 0};
    const timespec time{rest.count(), 0};
    static_cast<void>(::ppoll(&end, 1, &time, &open_) == 0);
}

void Keeper::put_back() {
    static_cast<void>(file_.clean_up().has_value());
    ResolvedKeeper(ResolvedLink(options_.device)).clear();
}

int Keeper::run() {
    sigemptyset(&blocked_);
    sigaddset(&blocked_, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &blocked_, &open_);
    std::chrono::seconds rest = kFirstRest;
    for (;;) {
        const auto started_at = Clock::now();
        const int status = run_helper();
        if (WIFEXITED(status) && (must_end != 0 || !has_daemon())) {
            return 0;
        }
        constexpr std::string_view kEnded =
            "error the helper that changes resolv.conf has ended; it is started again";
        static_cast<void>(::send(fd_, kEnded.data(), kEnded.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                          0);
        rest = Clock::now() - started_at < kLongestRest ? rest : kFirstRest;
        if (must_end == 0) {
            wait(rest);
        }
        if (must_end != 0 || !has_daemon()) {  // nobody else restores what it left
            put_back();
            return 0;
        }
        rest = std::min(2 * rest, kLongestRest);
    }
}

[[noreturn]] void be_keeper(int fd, const DnsHelperOptions& options) {
    constexpr int kOwnFd = 3;
    if (fd != kOwnFd) {
        ::dup3(fd, kOwnFd, O_CLOEXEC);
    }
    static_cast<void>(::close_range(kOwnFd + 1, ~0U, 0) == 0);
    ::prctl(PR_SET_NAME, "cnapt-dns-keep", 0, 0, 0);
    set_signals(on_end_of_keeper);
    auto file = open_and_give_up_rights(kOwnFd, options);
    ::_exit(file ? Keeper(kOwnFd, options, std::move(*file)).run() : 1);
}

}  // namespace

Result<io::UniqueFd> fork_dns_helper(const DnsHelperOptions& options) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return Error{Errc::System, "connection to the DNS helper", errno};
    }
    io::UniqueFd ours(ends[0]);
    io::UniqueFd theirs(ends[1]);
    std::signal(SIGCHLD, SIG_IGN);
    const pid_t child = ::fork();
    if (child < 0) {
        return Error{Errc::System, "start the DNS helper", errno};
    }
    if (child == 0) {
        ours.reset();
        be_keeper(theirs.release(), options);
    }
    return ours;
}

int run_dns_helper(int fd, const DnsHelperOptions& options) {
    set_signals(on_end);
    auto file = open_and_give_up_rights(fd, options);
    return file ? serve(fd, options, std::move(*file)) : 1;
}

}  // namespace continuo::cnapt::names
