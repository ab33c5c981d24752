#include "common/host/unix_server.hpp"

#include "common/host/privileges.hpp"
#include "common/host/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <utility>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::host {

namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::TimePoint;

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 32;
constexpr size_t kBlockBytes = 65536;

Error system_error(std::string_view where) {
    return Error{Errc::System, where, errno};
}

void give_to_group(const std::string& path) {
    if (const auto group = command_group()) {
        // Not permitted when not root: then the socket stays ours alone.
        [[maybe_unused]] const int changed = ::chown(path.c_str(), static_cast<uid_t>(-1), *group);
    }
}

}  // namespace

Result<io::UniqueFd> unix_listen(const std::string& path) {
    sockaddr_un address = CTN_TRY(unix_address(path));
    // A file without a listener remains after kill -9.
    const auto other = unix_connect(path);
    if (other || other.error().code == Errc::WouldBlock) {
        return Error{Errc::System, "command socket", EADDRINUSE};
    }
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) {
        if (!S_ISSOCK(status.st_mode)) {
            return Error{Errc::System, "command socket", EEXIST};
        }
        // A sticky directory lets only the owner remove the socket.
        if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
            return system_error("remove left command socket");
        }
    }
    io::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) {
        return system_error("open command socket");
    }
    // Nobody may connect between bind and chmod.
    const mode_t before = ::umask(0177);
    const int bound =
        ::bind(fd.value(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const int error = errno;
    ::umask(before);
    if (bound != 0) {
        return Error{Errc::System, "bind command socket", error};
    }
    give_to_group(path);
    if (::chmod(path.c_str(), kSocketMode) != 0 || ::listen(fd.value(), kBacklog) != 0) {
        return system_error("listen on command socket");
    }
    return fd;
}

struct UnixReply::Connection {
    UnixServer::Inner* server = nullptr;
    std::list<std::shared_ptr<Connection>>::iterator place;
    io::UniqueFd fd;
    std::unique_ptr<io::Poller> poller;
    std::unique_ptr<io::DeadlineTimer> timer;
    UnixRequest request;
    std::string input;
    std::string output;
    size_t output_done = 0;
    bool has_request = false;
    bool is_finished = false;

    bool send(std::string_view bytes, bool then_close);
    bool send_pending();
    void on_readable();
    void on_writable();
    void on_timeout();
    void close();
    void take_line();
};

struct UnixServer::Inner {
    io::EventLoop& loop;
    std::string path;
    Handler handler;
    UnixServerLimits limits;
    Counters counters;
    io::UniqueFd fd;
    std::list<std::shared_ptr<UnixReply::Connection>> connections;
    std::unique_ptr<io::Poller> poller;

    Inner(io::EventLoop& on, std::string at, Handler call, const UnixServerLimits& most)
        : loop(on), path(std::move(at)), handler(std::move(call)), limits(most) {}

    void accept_clients();
    void add(io::UniqueFd client);
};

void UnixServer::Inner::accept_clients() {
    for (;;) {
        io::UniqueFd client(::accept4(fd.value(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!client.is_open()) {
            return;
        }
        if (connections.size() >= limits.clients) {
            ++counters.refused_clients;
            continue;
        }
        add(std::move(client));
    }
}

void UnixServer::Inner::add(io::UniqueFd client) {
    auto connection = std::make_shared<UnixReply::Connection>();
    UnixReply::Connection* raw = connection.get();
    ucred credentials{};
    socklen_t length = sizeof credentials;
    if (::getsockopt(client.value(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
        raw->request.user_id = credentials.uid;
        raw->request.process_id = credentials.pid;
    }
    raw->server = this;
    raw->fd = std::move(client);
    raw->poller = std::make_unique<io::Poller>(
        loop, raw->fd.value(), [raw] { raw->on_readable(); }, [raw] { raw->on_writable(); });
    raw->timer = std::make_unique<io::DeadlineTimer>(loop, [raw] { raw->on_timeout(); });
    raw->timer->set(loop.now() + limits.request_timeout);
    raw->poller->watch(true);
    raw->place = connections.insert(connections.end(), std::move(connection));
}

void UnixReply::Connection::on_readable() {
    std::array<char, kBlockBytes> block{};
    for (;;) {
        const ssize_t got = ::recv(fd.value(), block.data(), block.size(), 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        // A client may shut its sending side down after the line.
        if (got < 0 || (got == 0 && !has_request)) {
            close();
            return;
        }
        if (got == 0) {
            poller->watch(false, poller->is_watching_writable());
            return;
        }
        if (has_request) {
            return;  // one request per connection; more is ignored, a block per turn
        }
        input.append(block.data(), static_cast<size_t>(got));
        if (input.find('\n') != std::string::npos) {
            take_line();
            return;
        }
        if (input.size() > server->limits.request_bytes) {
            ++server->counters.too_long;
            close();
            return;
        }
    }
}

void UnixReply::Connection::take_line() {
    has_request = true;
    ++server->counters.requests;
    input.resize(input.find('\n'));
    if (input.size() > server->limits.request_bytes) {
        ++server->counters.too_long;
        close();
        return;
    }
    request.line = std::move(input);
    timer->set(server->loop.now() + server->limits.idle_timeout);
    UnixReply reply;
    reply.connection_ = *place;
    server->handler(request, reply);
}

bool UnixReply::Connection::send(std::string_view bytes, bool then_close) {
    if (is_finished) {
        return false;
    }
    is_finished = then_close;
    if (output.size() - output_done + bytes.size() > server->limits.unsent_bytes) {
        ++server->counters.too_long;
        close();
        return false;
    }
    output.append(bytes);
    timer->set(server->loop.now() + server->limits.idle_timeout);
    return send_pending();
}

// False when the connection is gone.
bool UnixReply::Connection::send_pending() {
    while (output_done < output.size()) {
        const ssize_t sent = ::send(fd.value(), output.data() + output_done,
                                    output.size() - output_done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && errno == EAGAIN) {
            poller->watch(!is_finished, true);
            return true;
        }
        if (sent < 0) {
            close();
            return false;
        }
        output_done += static_cast<size_t>(sent);
        timer->set(server->loop.now() + server->limits.idle_timeout);
    }
    output.clear();
    output_done = 0;
    if (is_finished) {
        close();
        return false;
    }
    poller->watch(true, false);
    return true;
}

void UnixReply::Connection::on_writable() {
    send_pending();
}

void UnixReply::Connection::on_timeout() {
    ++server->counters.timeouts;
    close();
}

// The object is destroyed with it unless a caller holds it.
void UnixReply::Connection::close() {
    if (server == nullptr) {
        return;
    }
    UnixServer::Inner* owner = std::exchange(server, nullptr);
    const std::shared_ptr<Connection> self = std::move(*place);
    owner->connections.erase(place);
    poller.reset();
    timer.reset();
    fd.reset();
    is_finished = true;
    // Callers still use members: released on the next turn.
    owner->loop.post([self] {});
}

bool UnixReply::write(std::string_view bytes) const {
    const auto connection = connection_.lock();
    return connection && connection->server != nullptr && connection->send(bytes, false);
}

void UnixReply::finish(std::string_view bytes) const {
    const auto connection = connection_.lock();
    if (connection && connection->server != nullptr) {
        connection->send(bytes, true);
    }
}

bool UnixReply::is_open() const {
    const auto connection = connection_.lock();
    return connection && connection->server != nullptr && !connection->is_finished;
}

Result<std::unique_ptr<UnixServer>> UnixServer::listen(io::EventLoop& loop,
                                                       const std::string& path,
                                                       Handler handler,
                                                       const UnixServerLimits& limits) {
    auto inner = std::make_unique<Inner>(loop, path, std::move(handler), limits);
    inner->fd = CTN_TRY(unix_listen(path));
    Inner* raw = inner.get();
    inner->poller =
        std::make_unique<io::Poller>(loop, inner->fd.value(), [raw] { raw->accept_clients(); });
    inner->poller->watch(true);
    return std::unique_ptr<UnixServer>(new UnixServer(std::move(inner)));
}

UnixServer::UnixServer(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}

UnixServer::~UnixServer() {
    while (!inner_->connections.empty()) {
        const auto connection = inner_->connections.front();
        connection->close();
    }
    inner_->poller.reset();
    ::unlink(inner_->path.c_str());
}

const UnixServer::Counters& UnixServer::counters() const {
    return inner_->counters;
}

}  // namespace continuo::host
