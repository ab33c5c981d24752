#include "cnapt/resolved_link.hpp"

#include "common/base/time.hpp"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::cnapt {

namespace {

constexpr unsigned kResolvectlTimeoutSeconds = 5;
constexpr int kNotExecuted = 127;

// In the new process: its output is nobody's.
[[noreturn]] void execute(const char* program, char* const* arguments) {
    static char path[] = "PATH=/usr/bin:/bin";
    char* environment[] = {path, nullptr};
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        ::dup2(nowhere, standard);
    }
    ::alarm(kResolvectlTimeoutSeconds);  // ends it
    ::execve(program, arguments, environment);
    ::_exit(kNotExecuted);
}

}  // namespace

bool ResolvedLink::is_there() const {
    return ::access((places_.runtime + "/io.systemd.Resolve").c_str(), F_OK) == 0 &&
           ::access(places_.program.c_str(), X_OK) == 0;
}

base::Result<void> ResolvedLink::set(const std::vector<base::IpAddress>& servers) const {
    std::vector<std::string> dns = {"dns", device_};
    for (const base::IpAddress& server : servers) {
        dns.push_back(server.to_string());
    }
    CTN_TRY(run(dns));
    CTN_TRY(run({"domain", device_, "~."}));
    return run({"default-route", device_, "yes"});
}

base::Result<void> ResolvedLink::revert() const {
    return run({"revert", device_});
}

base::Result<void> ResolvedLink::run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> texts = {places_.program};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        execute(places_.program.c_str(), pointers.data());
    }
    if (child < 0) {
        return base::Error{base::Errc::System, "start resolvectl", errno};
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return base::Error{base::Errc::System, "wait for resolvectl", errno};
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return base::Error{base::Errc::InvalidState, "resolvectl refuses", 0};
    }
    return {};
}

}  // namespace continuo::cnapt
