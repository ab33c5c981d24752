#include "common/daemon/doctor_host.hpp"

#include "common/daemon/doctor.hpp"
#include "common/daemon/remedy.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/clock_sync.hpp"
#include "common/host/preflight.hpp"
#include "common/host/sysctl.hpp"
#include "common/netfilter/netfilter.hpp"
#include "common/netfilter/nft.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <optional>
#include <utility>

#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

namespace continuo::daemon {

using report::Findings;
using report::JsonValue;

namespace {

constexpr uint64_t kFullBytes = uint64_t{1} << 20;
constexpr std::pair<int, int> kOldestKernel{6, 1};
// Warning threshold, as a share of the connections that the kernel may track.
constexpr double kNearlyFull = 0.8;

bool has_capability(const JsonValue& process, std::string_view name) {
    const auto& list = process["capabilities"].items();
    return std::any_of(list.begin(), list.end(),
                       [&](const JsonValue& one) { return one.string() == name; });
}

void check_rights_of_daemon(const JsonValue& process, const std::string& user, Findings& findings) {
    const std::string check = "rights";
    const std::string owner = process.text("user", "unknown");
    if (!has_capability(process, "CAP_NET_ADMIN")) {
        findings.fail(check, "the daemon runs as " + owner + " without CAP_NET_ADMIN",
                      "start it as root, or by its unit");
    } else if (owner != "root") {
        findings.ok(check, "the daemon runs as " + owner + ", with CAP_NET_ADMIN");
    } else if (::getpwnam(user.c_str()) == nullptr) {
        findings.warn(check, "the daemon runs as root: there is no user " + user,
                      "make it (README, Build and install) and restart");
    } else {
        findings.warn(check, "the daemon runs as root, not as " + user,
                      "its log names the file in the way; see \"files\" below");
    }
}

// The first two numbers of "6.1.0-18-amd64".
std::optional<std::pair<int, int>> version_of(std::string_view release) {
    std::pair<int, int> version;
    const char* const end = release.data() + release.size();
    const auto [dot, first_error] = std::from_chars(release.data(), end, version.first);
    if (first_error != std::errc{} || dot == end || *dot != '.') {
        return std::nullopt;
    }
    const auto [rest, second_error] = std::from_chars(dot + 1, end, version.second);
    return second_error == std::errc{} ? std::optional(version) : std::nullopt;
}

std::optional<uint64_t> number_of(std::string_view key) {
    const auto text = host::read_sysctl(key);
    uint64_t number = 0;
    if (!text) {
        return std::nullopt;
    }
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    return error == std::errc{} ? std::optional(number) : std::nullopt;
}

// The nearest existing folder.
std::string existing(std::string path) {
    struct stat status {};
    while (path.size() > 1 && ::stat(path.c_str(), &status) != 0) {
        const size_t slash = path.find_last_of('/');
        path = slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
    }
    return path;
}

std::string utc_text(time_t at) {
    std::tm fields{};
    std::array<char, 32> text{};
    const size_t length =
        ::gmtime_r(&at, &fields) == nullptr
            ? 0
            : std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &fields);
    return {text.data(), length};
}

}  // namespace

void check_rights(const JsonValue& process, const std::string& user, Findings& findings) {
    const std::string check = "rights";
    if (process.is_object()) {
        check_rights_of_daemon(process, user, findings);
        return;
    }
    const std::string missing = host::missing_right();
    if (missing.empty()) {
        findings.ok(check, "CAP_NET_ADMIN");
    } else if (is_root()) {
        findings.fail(check, missing, "give the container or unit this capability");
    } else {
        findings.skip(check, "this is not root, so some checks are left out",
                      std::string(kRunAsRoot));
    }
}

void check_tun(Findings& findings) {
    const std::string check = "tun";
    const auto opened = host::try_tun();
    if (opened) {
        findings.ok(check, "/dev/net/tun can be opened");
    } else if (!is_root() && opened.error().sys_errno == EACCES) {
        findings.skip(check, "/dev/net/tun may not be opened by this user",
                      std::string(kRunAsRoot));
    } else {
        findings.fail(check, describe(opened.error()), std::string(remedy(opened.error())));
    }
}

void check_nftables(Findings& findings) {
    const std::string check = "nftables";
    if (!is_root() && !host::missing_right().empty()) {
        findings.skip(check, "only root may list rules", std::string(kRunAsRoot));
        return;
    }
    netfilter::Nft nft;
    if (nft.list_chains_json()) {
        findings.ok(check, "rules can be listed");
    } else {
        const std::string text = nft.error_text().substr(0, nft.error_text().find('\n'));
        findings.fail(check, "cannot list rules: " + text,
                      "this needs CAP_NET_ADMIN and a kernel with nftables (nf_tables)");
    }
}

void check_kernel(Findings& findings) {
    utsname name{};
    const std::string_view told = ::uname(&name) == 0 ? static_cast<const char*>(name.release) : "";
    const auto version = version_of(told);
    const std::string release = version ? std::string(told) : "unknown";
    if (!version || *version < kOldestKernel) {
        findings.warn("kernel",
                      "Linux " + release + " is older than 6.1, the oldest that is tested",
                      "update it");
    } else {
        findings.ok("kernel", "Linux " + release);
    }
}

// The tunnel needs no correct clock; logs and usage records do.
void check_clock(bool counts, Findings& findings) {
    const std::string check = "clock";
    const time_t now = std::time(nullptr);
    struct stat program {};
    if (::stat("/proc/self/exe", &program) == 0 && now < program.st_mtime) {
        findings.warn(check, utc_text(now) + ", before this program was installed",
                      "set it (timedatectl, or an NTP client)");
        return;
    }
    const bool is_kept = host::is_clock_synchronised();
    if (!is_kept && counts) {
        findings.warn(check,
                      utc_text(now) + ", not synchronised by NTP: usage records have its times",
                      "run an NTP client");
    } else {
        findings.ok(check, utc_text(now) + (is_kept ? ", synchronised by NTP" : ", without NTP"));
    }
}

void check_ipv6(const Ipv6Wish& wish, Findings& findings) {
    const std::string check = "ipv6";
    const std::string why = host::ipv6_switched_off(wish.device);
    if (!wish.is_wanted) {
        findings.ok(check, "not wanted (" + wish.switch_off + ")");
    } else if (why.empty()) {
        findings.ok(check, "on");
    } else {
        findings.warn(check, "is switched off on this host (" + why + "): IPv4 only",
                      "switch it on and restart, or set " + wish.switch_off);
    }
}

void check_disk(const std::string& path, uint64_t least_bytes, Findings& findings) {
    const std::string check = "disk";
    const std::string place = existing(path);
    struct statvfs status {};
    if (::statvfs(place.c_str(), &status) != 0) {
        const int reason = errno;
        if (reason == EACCES && !is_root()) {
            findings.skip(check, place + " cannot be checked by this user",
                          std::string(kRunAsRoot));
        } else {
            findings.fail(check, place + ": " + describe({base::Errc::System, "statvfs", reason}),
                          "mount it, or name another --state");
        }
        return;
    }
    const uint64_t free = uint64_t{status.f_bavail} * status.f_frsize;
    const std::string text = report::format_bytes(free) + " free at " + place;
    const bool has_no_inode = status.f_files != 0 && status.f_favail == 0;
    if ((status.f_flag & ST_RDONLY) != 0) {
        findings.fail(check, place + " is mounted read-only", "mount it read-write");
    } else if (free < kFullBytes || has_no_inode) {
        findings.fail(check, "full: " + text + (has_no_inode ? ", no inode" : ""), "make room");
    } else if (free < least_bytes) {
        findings.warn(check, text + ", less than " + report::format_bytes(least_bytes),
                      "make room");
    } else {
        findings.ok(check, text);
    }
}

void check_conntrack(Findings& findings) {
    const std::string check = "conntrack";
    const auto used = number_of("net/netfilter/nf_conntrack_count");
    const auto most = number_of("net/netfilter/nf_conntrack_max");
    if (!used || !most) {
        findings.warn(check, "the kernel tracks no connections yet",
                      "NAT loads it (nf_conntrack); if the start fails for it, load it");
        return;
    }
    const std::string text =
        std::to_string(*used) + " of " + std::to_string(*most) + " connections tracked";
    if (*most != 0 && static_cast<double>(*used) >= kNearlyFull * static_cast<double>(*most)) {
        findings.fail(check, text + ": new ones will be dropped",
                      "sysctl -w net.netfilter.nf_conntrack_max=" + std::to_string(2 * *most));
    } else if (is_root() && !netfilter::NetfilterClient::open()) {
        findings.warn(check, text + ", but they cannot be listed",
                      "a kernel with ctnetlink (nf_conntrack_netlink)");
    } else {
        findings.ok(check, text);
    }
}

}  // namespace continuo::daemon
