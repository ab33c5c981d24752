#include "cnapt/names/dns_connection.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace continuo::cnapt::names {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr int kReadyMs = 5000;

Result<DnsConnection> connect_or_fork(const DnsHelperOptions& options, const std::string& socket) {
    DnsConnection connection;
    if (::geteuid() != 0) {
        if (auto connected = connect_dns_helper(socket)) {
            connection = {std::move(*connected), socket};
        }
    }
    if (!connection.fd.is_open()) {
        connection.fd = CTN_TRY(fork_dns_helper(options));
    }
    pollfd ready{connection.fd.value(), POLLIN, 0};
    if (::poll(&ready, 1, kReadyMs) != 1) {
        return Error{Errc::WouldBlock, "the DNS helper says nothing", 0};
    }
    return connection;
}

}  // namespace

Result<io::UniqueFd> connect_dns_helper(const std::string& socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket.size() >= sizeof address.sun_path) {
        return Error{Errc::LimitReached, "path of the DNS helper's socket", 0};
    }
    std::memcpy(address.sun_path, socket.c_str(), socket.size());
    io::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    if (!fd.is_open() || ::connect(fd.value(), generic, sizeof address) != 0) {
        return Error{Errc::System, "connect to the DNS helper", errno};
    }
    return fd;
}

DnsConnection start_dns_helper(const settings::NodeConfig& config,
                               const std::string& state,
                               const std::string& command_socket) {
    if (config.dns.servers.empty()) {
        return {};
    }
    const size_t slash = command_socket.rfind('/');
    const std::string directory =
        slash == std::string::npos ? "" : command_socket.substr(0, slash + 1);
    auto helper = connect_or_fork({config.capture.device, config.dns.servers,
                                   state + (::geteuid() == 0 ? "/dns" : "/dns-user")},
                                  directory + kDnsSocketName);
    if (!helper) {
        base::log(base::LogLevel::Warning, "DNS: %s; names are looked up as before",
                  daemon::describe(helper.error()).c_str());
        return {};
    }
    return std::move(*helper);
}

}  // namespace continuo::cnapt::names
