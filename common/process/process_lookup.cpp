#include "common/process/process_lookup.hpp"

#include "common/base/log.hpp"
#include "common/process/ping_sockets.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <functional>
#include <memory>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::process {

// A candidate socket, and how well it fits.
struct ProcessLookup::Socket {
    uint64_t inode = 0;
    uint64_t cookie = 0;
    uint32_t user_id = 0;
    unsigned fit = 0;  // 0: does not
};

namespace {

using base::ByteView;
using base::Errc;
using base::Error;
using base::IpAddress;
using base::IpVersion;
using base::Result;
using packet::FiveTuple;
using packet::Protocol;

constexpr size_t kMaxCommandBytes = 64;
constexpr uint32_t kAllStates = UINT32_MAX;
constexpr std::array<uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

void write_address(const IpAddress& address, IpVersion socket_version, __be32* to) {
    std::array<uint8_t, 16> octets{};
    if (address.is_v4() && socket_version == IpVersion::V6) {
        std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), octets.begin());
        std::copy_n(address.octets.begin(), 4, octets.begin() + kMappedPrefix.size());
    } else {
        octets = address.octets;
    }
    std::memcpy(to, octets.data(), octets.size());
}

// As in the flow: an IPv4 address mapped into IPv6 is IPv4.
IpAddress read_address(const __be32* from, IpVersion socket_version) {
    std::array<uint8_t, 16> octets{};
    std::memcpy(octets.data(), from, octets.size());
    if (socket_version == IpVersion::V4) {
        return IpAddress::v4(ByteView(octets).first(4));
    }
    if (std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), octets.begin())) {
        return IpAddress::v4(ByteView(octets).subspan(kMappedPrefix.size()));
    }
    return IpAddress::v6(octets);
}

// 0: another socket. A connected socket fits better than one bound to the address, and that better
// than one bound to all.
unsigned fit_of(const inet_diag_sockid& id, IpVersion socket_version, const FiveTuple& tuple) {
    const IpAddress local = read_address(id.idiag_src, socket_version);
    const IpAddress remote = read_address(id.idiag_dst, socket_version);
    if (ntohs(id.idiag_sport) != tuple.local_port) {
        return 0;
    }
    if (id.idiag_dport != 0) {
        const bool is_connected_so =
            remote == tuple.remote && ntohs(id.idiag_dport) == tuple.remote_port;
        return is_connected_so && (local == tuple.local || local.is_unspecified()) ? 4 : 0;
    }
    if (local == tuple.local) {
        return 3;
    }
    if (!local.is_unspecified()) {
        return 0;
    }
    return local.version == tuple.local.version ? 2 : 1;
}

uint64_t cookie_of(const inet_diag_sockid& id) {
    constexpr unsigned kLowBits = 32;
    return uint64_t{id.idiag_cookie[1]} << kLowBits | id.idiag_cookie[0];
}

bool parse_pid(const char* name, int32_t& pid) {
    const std::string_view text(name);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
    return error == std::errc() && end == text.data() + text.size() && pid > 0;
}

bool owns_socket(int32_t pid, const std::string& link) {
    const std::string path = "/proc/" + std::to_string(pid) + "/fd";
    const Directory directory(::opendir(path.c_str()));
    if (!directory) {
        return false;
    }
    std::array<char, 64> target{};
    while (const dirent* entry = ::readdir(directory.get())) {
        const ssize_t length =
            ::readlinkat(::dirfd(directory.get()), static_cast<const char*>(entry->d_name),
                         target.data(), target.size());
        if (length > 0 && std::string_view(target.data(), static_cast<size_t>(length)) == link) {
            return true;
        }
    }
    return false;
}

struct ProcessId {
    int32_t pid = 0;
    bool is_of_user = false;
};

// Those of the user first, newest first.
std::vector<ProcessId> list_processes(uint32_t user_id) {
    std::vector<ProcessId> processes;
    const Directory directory(::opendir("/proc"));
    if (!directory) {
        return processes;
    }
    while (const dirent* entry = ::readdir(directory.get())) {
        ProcessId process;
        struct stat status {};
        const char* name = static_cast<const char*>(entry->d_name);
        if (parse_pid(name, process.pid) &&
            ::fstatat(::dirfd(directory.get()), name, &status, 0) == 0) {
            process.is_of_user = status.st_uid == user_id;
            processes.push_back(process);
        }
    }
    std::sort(processes.begin(), processes.end(), [](const ProcessId& a, const ProcessId& b) {
        return a.is_of_user != b.is_of_user ? a.is_of_user : a.pid > b.pid;
    });
    return processes;
}

std::string read_command(int32_t pid) {
    const io::UniqueFd file(
        ::open(("/proc/" + std::to_string(pid) + "/comm").c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, kMaxCommandBytes> text{};
    const ssize_t length = file.is_open() ? ::read(file.value(), text.data(), text.size()) : 0;
    std::string command(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
    while (!command.empty() && command.back() == '\n') {
        command.pop_back();
    }
    return command;
}

// A number in /proc/PID/stat by its index in proc(5). Counts after the command, which may contain
// spaces and brackets.
constexpr unsigned kParentPlace = 4;
constexpr unsigned kStartTimePlace = 22;
uint64_t read_stat(int32_t pid, unsigned place) {
    const io::UniqueFd file(
        ::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 512> text{};
    const ssize_t length = file.is_open() ? ::read(file.value(), text.data(), text.size()) : 0;
    std::string_view rest(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
    const size_t bracket = rest.rfind(')');
    rest.remove_prefix(bracket == std::string_view::npos ? rest.size() : bracket);
    constexpr unsigned kCommandPlace = 2;
    for (unsigned at = kCommandPlace; at < place; ++at) {
        const size_t blank = rest.find(' ');
        rest.remove_prefix(blank == std::string_view::npos ? rest.size() : blank + 1);
    }
    uint64_t number = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), number);
    return number;
}

// The process that made the socket still exists and uses it. Process 1 makes sockets for others
// (socket activation).
bool is_owner(const SocketMaker& maker) {
    constexpr uint64_t kNsPerS = 1'000'000'000;
    const auto ticks_per_s = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
    const uint64_t started = read_stat(maker.process_id, kStartTimePlace);
    return maker.process_id != 1 && started != 0 &&
           started * (kNsPerS / ticks_per_s) <= maker.at_ns;
}

std::string read_executable(int32_t pid) {
    std::array<char, 4096> target{};
    const std::string path = "/proc/" + std::to_string(pid) + "/exe";
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    std::string_view name(target.data(), length > 0 ? static_cast<size_t>(length) : 0);
    constexpr std::string_view kReplaced = " (deleted)";
    if (name.ends_with(kReplaced)) {
        name.remove_suffix(kReplaced.size());
    }
    const size_t slash = name.rfind('/');
    return std::string(slash == std::string_view::npos ? name : name.substr(slash + 1));
}

}  // namespace

Result<ProcessLookup> ProcessLookup::open() {
    ProcessLookup lookup(CTN_TRY(netlink::NetlinkSocket::open(NETLINK_SOCK_DIAG)));
    if (auto recorder = SocketRecorder::attach()) {
        lookup.recorder_ = std::move(*recorder);
    } else {
        const std::string_view why = recorder.error().where;
        base::log(
            base::LogLevel::Warning,
            "rules by process see only processes of this user: %.*s (it takes CAP_BPF, a kernel "
            "from 6.0 on and the host's process numbers)",
            static_cast<int>(why.size()), why.data());
    }
    return lookup;
}

Result<void> ProcessLookup::query(const FiveTuple& tuple, IpVersion socket_version, Socket& best) {
    const bool is_tcp = tuple.protocol == Protocol::Tcp;
    netlink::NetlinkRequest request(SOCK_DIAG_BY_FAMILY,
                                    is_tcp ? uint16_t{0} : uint16_t{NLM_F_DUMP});
    inet_diag_req_v2 wanted{};
    wanted.sdiag_family = socket_version == IpVersion::V4 ? AF_INET : AF_INET6;
    wanted.sdiag_protocol = static_cast<uint8_t>(tuple.protocol);
    wanted.idiag_states = kAllStates;
    wanted.id.idiag_cookie[0] = wanted.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    wanted.id.idiag_sport = htons(tuple.local_port);
    if (is_tcp) {
        // An exact look-up in the kernel's table. For UDP kernels differ in which side is which:
        // hence the list, which the kernel filters by local port.
        wanted.id.idiag_dport = htons(tuple.remote_port);
        write_address(tuple.local, socket_version, wanted.id.idiag_src);
        write_address(tuple.remote, socket_version, wanted.id.idiag_dst);
    }
    request.fixed(wanted);
    return netlink_.list(request, "list sockets", [&](const netlink::NetlinkMessage& message) {
        const auto found = message.fixed<inet_diag_msg>();
        const unsigned fit =
            found.idiag_state == TCP_LISTEN ? 0 : fit_of(found.id, socket_version, tuple);
        if (fit > best.fit) {
            best = Socket{found.idiag_inode, cookie_of(found.id), found.idiag_uid, fit};
        }
    });
}

Result<ProcessLookup::Socket> ProcessLookup::find_socket(const FiveTuple& tuple) {
    if (tuple.protocol != Protocol::Tcp && tuple.protocol != Protocol::Udp) {
        const PingSocket found = CTN_TRY(find_ping_socket(tuple));
        return Socket{found.inode, 0, found.user_id, 1};
    }
    Socket best;
    const bool may_be_mapped = tuple.local.is_v4();
    for (const IpVersion version : {tuple.local.version, IpVersion::V6}) {
        const auto done = query(tuple, version, best);
        if (!done && done.error().code != Errc::NotFound) {
            return done.error();
        }
        constexpr unsigned kBest = 4;
        if (best.fit == kBest || !may_be_mapped) {
            break;
        }
    }
    if (best.fit == 0) {
        return Error{Errc::NotFound, "socket"};
    }
    return best;
}

Result<SocketOwner> ProcessLookup::find(const FiveTuple& tuple) {
    const Socket socket = CTN_TRY(find_socket(tuple));
    SocketOwner owner;
    owner.inode = socket.inode;
    owner.user_id = socket.user_id;
    // A closed connection that still sends belongs to no process.
    if (socket.inode == 0) {
        return owner;
    }
    owner.process_id = find_process(socket);
    if (owner.process_id != 0) {
        owner.process = read_command(owner.process_id);
        owner.executable = read_executable(owner.process_id);
        const auto parent = static_cast<int32_t>(read_stat(owner.process_id, kParentPlace));
        if (parent != 0) {
            owner.parent = read_command(parent);
        }
    }
    return owner;
}

int32_t ProcessLookup::find_process(const Socket& socket) {
    if (recorder_) {
        // A process that ended may have passed its socket on.
        const auto maker = recorder_->maker_of(socket.cookie);
        if (maker && is_owner(*maker)) {
            return maker->process_id;
        }
    }
    return search_processes(socket);
}

int32_t ProcessLookup::search_processes(const Socket& socket) {
    const std::string link = "socket:[" + std::to_string(socket.inode) + "]";
    for (const int32_t pid : recent_) {
        if (pid != 0 && owns_socket(pid, link)) {
            remember(pid);
            return pid;
        }
    }
    for (const ProcessId& process : list_processes(socket.user_id)) {
        if (owns_socket(process.pid, link)) {
            remember(process.pid);
            return process.pid;
        }
    }
    return 0;
}

void ProcessLookup::remember(int32_t process_id) {
    // Uses its place, or the last one, which is overwritten.
    int32_t* const first = recent_.data();
    int32_t* const place = std::find(first, first + recent_.size() - 1, process_id);
    *place = process_id;
    std::rotate(first, place, place + 1);
}

std::string user_name(uint32_t user_id) {
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    const int failed = ::getpwuid_r(user_id, &entry, buffer.data(), buffer.size(), &found);
    return failed == 0 && found != nullptr ? std::string(entry.pw_name) : std::string();
}

std::optional<uint32_t> user_id(const std::string& name) {
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    const int failed = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    return failed == 0 && found != nullptr ? std::optional<uint32_t>(entry.pw_uid) : std::nullopt;
}

}  // namespace continuo::process
