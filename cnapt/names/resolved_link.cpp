#include "cnapt/names/resolved_link.hpp"

#include "common/base/time.hpp"
#include "common/io/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::cnapt::names {

namespace {

constexpr int kNotExecuted = 127;

constexpr size_t kMaxOutputBytes = 16384;

// Runs in the new process: `output` gets its output; its error messages are dropped.
[[noreturn]] void execute(const char* program, char* const* arguments, int output) {
    static char path[] = "PATH=/usr/bin:/bin";
    static char locale[] = "LC_ALL=C";
    static char no_colour[] = "SYSTEMD_COLORS=0";
    char* environment[] = {path, locale, no_colour, nullptr};
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nowhere, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::alarm(static_cast<unsigned>(kResolvectlTimeout.count()));  // ends it
    ::execve(program, arguments, environment);
    ::_exit(kNotExecuted);
}

// Reads until the other end closes; surplus bytes are dropped.
std::string output_of(int fd) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return text;
        }
        const size_t room = kMaxOutputBytes - text.size();
        text.append(buffer.data(), std::min(static_cast<size_t>(count), room));
    }
}

constexpr std::string_view kSpaces = " \t";

std::string_view without_spaces(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    return text;
}

std::vector<std::string_view> split_words(std::string_view text) {
    std::vector<std::string_view> words;
    for (text = without_spaces(text); !text.empty(); text = without_spaces(text)) {
        words.push_back(text.substr(0, text.find_first_of(kSpaces)));
        text.remove_prefix(words.back().size());
    }
    return words;
}

// The words after each label. A label starts with a capital letter; an address or a domain does
// not.
std::map<std::string_view, std::vector<std::string_view>> labelled(std::string_view status) {
    std::map<std::string_view, std::vector<std::string_view>> found;
    std::string_view label;
    while (!status.empty()) {
        const size_t end = status.find('\n');
        std::string_view line = without_spaces(status.substr(0, end));
        status = end == std::string_view::npos ? std::string_view() : status.substr(end + 1);
        const size_t colon = line.find(':');
        if (!line.empty() && line.front() >= 'A' && line.front() <= 'Z' &&
            colon != std::string_view::npos) {
            label = line.substr(0, colon);
            line.remove_prefix(colon + 1);
        }
        const auto words = split_words(line);
        found[label].insert(found[label].end(), words.begin(), words.end());
    }
    return found;
}

}  // namespace

bool shows_resolved_link(std::string_view status, const std::vector<base::IpAddress>& servers) {
    const auto said = labelled(status);
    const auto has = [&](const char* label, std::string_view word) {
        const auto at = said.find(label);
        return at != said.end() &&
               std::find(at->second.begin(), at->second.end(), word) != at->second.end();
    };
    std::vector<base::IpAddress> shown;
    if (const auto at = said.find("DNS Servers"); at != said.end()) {
        for (const std::string_view word : at->second) {
            if (const auto address = base::IpAddress::parse(word)) {
                shown.push_back(*address);
            }
        }
    }
    const bool is_plain = said.find("Protocols") == said.end() ||
                          (has("Protocols", "+DefaultRoute") && has("Protocols", "-DNSOverTLS") &&
                           status.find("DNSSEC=no") != std::string_view::npos);
    return shown == servers && has("DNS Domain", "~.") && is_plain;
}

std::string parse_resolved_global(std::string_view output) {
    const auto said = labelled(output);
    const auto at = said.find("Global");
    return at != said.end() && !at->second.empty() ? std::string(at->second.front()) : "";
}

// "Link 2 (eth0): ~. lan", "Global: ...", and lines that go on with more domains.
std::vector<ResolvedDomains> parse_resolved_domains(std::string_view output) {
    std::vector<ResolvedDomains> links;
    bool is_of_link = false;
    while (!output.empty()) {
        const size_t end = output.find('\n');
        std::string_view line = output.substr(0, end);
        output = end == std::string_view::npos ? std::string_view() : output.substr(end + 1);
        const size_t open = line.find(" (");
        const size_t close = line.find("):");
        if (line.rfind("Link ", 0) == 0 && open < close && close != std::string_view::npos) {
            links.push_back({std::string(line.substr(open + 2, close - open - 2)), {}});
            line.remove_prefix(close + 2);
            is_of_link = true;
        } else if (line.rfind("Global:", 0) == 0) {
            is_of_link = false;
        }
        for (const std::string_view word : split_words(line)) {
            if (is_of_link) {
                links.back().domains.emplace_back(word);
            }
        }
    }
    std::erase_if(links, [](const ResolvedDomains& one) { return one.domains.empty(); });
    return links;
}

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
    CTN_TRY(run({"default-route", device_, "yes"}));
    CTN_TRY(run({"dnsovertls", device_, "no"}));
    CTN_TRY(run({"dnssec", device_, "no"}));
    return {};
}

base::Result<bool> ResolvedLink::is_set(const std::vector<base::IpAddress>& servers) const {
    return shows_resolved_link(CTN_TRY(run({"--no-pager", "status", device_})), servers);
}

base::Result<void> ResolvedLink::revert() const {
    CTN_TRY(run({"revert", device_}));
    // Questions that other links refused look like losses, after which resolved would use TCP alone
    // for some minutes.
    static_cast<void>(run({"reset-server-features"}).has_value());
    return {};
}

base::Result<std::vector<ResolvedDomains>> ResolvedLink::domains() const {
    return parse_resolved_domains(CTN_TRY(run({"--no-pager", "domain"})));
}

base::Result<std::string> ResolvedLink::global(const std::string& setting) const {
    return parse_resolved_global(CTN_TRY(run({"--no-pager", setting})));
}

base::Result<std::string> ResolvedLink::run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> texts = {places_.program};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return base::Error{base::Errc::System, "start resolvectl", errno};
    }
    const io::UniqueFd ours(ends[0]);
    io::UniqueFd theirs(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        execute(places_.program.c_str(), pointers.data(), theirs.value());
    }
    theirs.reset();
    if (child < 0) {
        return base::Error{base::Errc::System, "start resolvectl", errno};
    }
    std::string said = output_of(ours.value());
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return base::Error{base::Errc::System, "wait for resolvectl", errno};
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return base::Error{base::Errc::InvalidState, "resolvectl refuses", 0};
    }
    return said;
}

}  // namespace continuo::cnapt::names
