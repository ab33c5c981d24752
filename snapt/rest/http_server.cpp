#include "snapt/rest/http_server.hpp"

#include "common/base/ip_address.hpp"
#include "common/host/unix_socket.hpp"
#include "common/io/socket_address.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <string_view>

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::rest {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr int kListenBacklog = 64;
constexpr int kAcceptsPerWake = 16;
// After accept() found no descriptor free.
constexpr base::Duration kAcceptPause = base::milliseconds(100);
// Interval of checks whether libmicrohttpd has noticed a shut connection.
constexpr base::Duration kShutLook = base::milliseconds(10);
constexpr unsigned kTooLarge = 413;  // RFC 9110 section 15.5.14
// Connections of libmicrohttpd beyond ours: shut ones that it has not noticed yet.
constexpr unsigned kSpareConnections = 16;

Result<io::UniqueFd> listen_at(const base::Endpoint& endpoint, base::Endpoint& bound) {
    const int family = endpoint.address.is_v4() ? AF_INET : AF_INET6;
    io::UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!fd.is_open()) {
        return Error{Errc::System, "TCP socket", errno};
    }
    const int on = 1;
    ::setsockopt(fd.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const io::SocketAddress address(endpoint);
    if (::bind(fd.value(), address.data(), address.size()) != 0 ||
        ::listen(fd.value(), kListenBacklog) != 0) {
        return Error{Errc::System, "TCP bind", errno};
    }
    io::SocketAddress name;
    socklen_t length = io::SocketAddress::capacity();
    if (::getsockname(fd.value(), name.data(), &length) != 0) {
        return Error{Errc::System, "getsockname", errno};
    }
    bound = name.endpoint().value_or(endpoint);
    return fd;
}

std::string header_of(MHD_Connection* connection, const char* name) {
    const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return value != nullptr ? value : "";
}

MHD_Result queue(MHD_Connection* connection, const HttpAnswer& answer) {
    // libmicrohttpd copies, and does not change what it is given.
    MHD_Response* response = MHD_create_response_from_buffer(
        answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) {
        return MHD_NO;
    }
    if (!answer.content_type.empty()) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                answer.content_type.c_str());
    }
    for (const auto& [name, value] : answer.headers) {
        MHD_add_response_header(response, name.c_str(), value.c_str());
    }
    const MHD_Result queued = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return queued;
}

}  // namespace

// A request from its first line to the end of its answer.
struct HttpReply::Exchange {
    HttpServer::Inner* server = nullptr;
    MHD_Connection* connection = nullptr;
    HttpRequest request;
    std::optional<HttpAnswer> answer;
    bool is_begun = false;      // its headers have arrived
    bool is_whole = false;      // it was passed on
    bool is_suspended = false;  // it waits for its answer

    void resume();
};

void HttpReply::send(HttpAnswer answer) const {
    const auto exchange = exchange_.lock();
    if (!exchange || exchange->answer) {
        return;
    }
    exchange->answer = std::move(answer);
    exchange->resume();
}

struct HttpServer::Inner {
    using Exchange = HttpReply::Exchange;
    struct Listener {
        io::UniqueFd fd;
        std::string path;                    // a Unix socket's; empty: TCP
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
    };
    struct Connection {
        int fd = -1;  // libmicrohttpd's
        base::TimePoint deadline{};
        std::weak_ptr<Exchange> exchange{};  // being answered
        bool is_shut = false;
    };

    Inner(io::EventLoop& event_loop, Handler&& request_handler, const HttpLimits& http_limits)
        : loop(event_loop)
        , handler(std::move(request_handler))
        , limits(http_limits)
        , timer(event_loop, [this] { run(); })
        , accept_again(event_loop, [this] { watch(true); }) {}
    ~Inner();
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

    Result<void> start();
    Result<void> open(const std::string& address);
    void watch(bool accepting);
    void accept_some(const Listener& listener);
    bool make_room();
    void run();
    void shut(Connection& connection);
    Connection* find(MHD_Connection* connection);
    MHD_Result begin(MHD_Connection* connection, const char* method, HttpRequest& request);
    bool take_body(std::string_view piece, HttpRequest& request);
    MHD_Result serve(const std::shared_ptr<Exchange>& exchange);

    static void* on_target(void* self, const char* target, MHD_Connection* connection);
    static MHD_Result on_request(void* self,
                                 MHD_Connection* connection,
                                 const char* url,
                                 const char* method,
                                 const char* version,
                                 const char* upload,
                                 size_t* upload_bytes,
                                 void** context);
    static void on_completed(void* self,
                             MHD_Connection* connection,
                             void** context,
                             MHD_RequestTerminationCode how);
    static void on_connection(void* self,
                              MHD_Connection* connection,
                              void** context,
                              MHD_ConnectionNotificationCode what);

    io::EventLoop& loop;
    Handler handler;
    HttpLimits limits;
    Counters counters;
    std::vector<std::string> bound;
    std::list<Connection> connections;  // oldest first
    io::DeadlineTimer timer;
    io::DeadlineTimer accept_again;
    std::vector<std::unique_ptr<Listener>> listeners;
    MHD_Daemon* daemon = nullptr;
    std::unique_ptr<io::Poller> poller;  // watches the daemon's descriptor
};

// libmicrohttpd notices only in its next turn.
void HttpReply::Exchange::resume() {
    if (std::exchange(is_suspended, false)) {
        MHD_resume_connection(connection);
        server->timer.set(server->loop.now());
    }
}

// --- callbacks of libmicrohttpd; `self` is the server

void* HttpServer::Inner::on_target(void* self, const char* target, MHD_Connection* connection) {
    auto exchange = std::make_shared<Exchange>();
    exchange->server = static_cast<Inner*>(self);
    exchange->connection = connection;
    exchange->request.target = target;
    return new std::shared_ptr<Exchange>(std::move(exchange));
}

MHD_Result HttpServer::Inner::on_request(void* self,
                                         MHD_Connection* connection,
                                         const char* /*url*/,
                                         const char* method,
                                         const char* /*version*/,
                                         const char* upload,
                                         size_t* upload_bytes,
                                         void** context) {
    const auto exchange = *static_cast<std::shared_ptr<Exchange>*>(*context);
    auto* server = static_cast<Inner*>(self);
    if (!exchange->is_begun) {
        exchange->is_begun = true;
        return server->begin(connection, method, exchange->request);
    }
    if (exchange->is_whole) {
        return exchange->answer ? queue(connection, *exchange->answer) : MHD_NO;
    }
    if (*upload_bytes != 0) {
        const bool fits = server->take_body({upload, *upload_bytes}, exchange->request);
        *upload_bytes = 0;
        return fits ? MHD_YES : MHD_NO;
    }
    return server->serve(exchange);
}

void HttpServer::Inner::on_completed(void* self,
                                     MHD_Connection* connection,
                                     void** context,
                                     MHD_RequestTerminationCode /*how*/) {
    delete static_cast<std::shared_ptr<Exchange>*>(*context);
    *context = nullptr;
    auto* server = static_cast<Inner*>(self);
    if (auto* known = server->find(connection)) {
        known->exchange.reset();
        known->deadline = server->loop.now() + server->limits.request_time;
    }
}

void HttpServer::Inner::on_connection(void* self,
                                      MHD_Connection* connection,
                                      void** /*context*/,
                                      MHD_ConnectionNotificationCode what) {
    auto* server = static_cast<Inner*>(self);
    const auto* known = server->find(connection);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED && known != nullptr) {
        server->connections.remove_if([known](const Connection& one) { return &one == known; });
    }
}

HttpServer::Inner::~Inner() {
    listeners.clear();
    poller.reset();
    if (daemon != nullptr) {
        // libmicrohttpd cannot stop while one waits.
        for (Connection& connection : connections) {
            shut(connection);
        }
        MHD_run(daemon);
        MHD_stop_daemon(daemon);
    }
    for (const std::string& address : bound) {
        if (address.starts_with('/')) {
            ::unlink(address.c_str());
        }
    }
}

Result<void> HttpServer::Inner::start() {
    daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME,
                              0, nullptr, nullptr, &on_request, this,                   //
                              MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits.header_bytes,  //
                              MHD_OPTION_CONNECTION_LIMIT,
                              static_cast<unsigned>(limits.connections) + kSpareConnections,  //
                              MHD_OPTION_STRICT_FOR_CLIENT, 1,                                //
                              MHD_OPTION_URI_LOG_CALLBACK, &on_target, this,                  //
                              MHD_OPTION_NOTIFY_COMPLETED, &on_completed, this,               //
                              MHD_OPTION_NOTIFY_CONNECTION, &on_connection, this,             //
                              MHD_OPTION_END);
    const MHD_DaemonInfo* info =
        daemon != nullptr ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD) : nullptr;
    if (info == nullptr) {
        return Error{Errc::System, "libmicrohttpd", errno};
    }
    poller = std::make_unique<io::Poller>(loop, info->epoll_fd, [this] { run(); });
    poller->watch(true);
    return {};
}

Result<void> HttpServer::Inner::open(const std::string& address) {
    auto listener = std::make_unique<Listener>();
    if (address.starts_with('/')) {
        listener->fd = CTN_TRY(host::unix_listen(address));
        listener->path = address;
        bound.push_back(address);
    } else {
        const auto endpoint = base::Endpoint::parse(address);
        if (!endpoint) {
            return Error{Errc::InvalidConfig, "address of the REST interface"};
        }
        base::Endpoint at;
        listener->fd = CTN_TRY(listen_at(*endpoint, at));
        bound.push_back(at.to_string());
    }
    const Listener& ref = *listener;
    listener->poller = std::make_unique<io::Poller>(loop, listener->fd.value(),
                                                    [this, &ref] { accept_some(ref); });
    listener->poller->watch(true);
    listeners.push_back(std::move(listener));
    return {};
}

void HttpServer::Inner::watch(bool accepting) {
    for (const auto& listener : listeners) {
        listener->poller->watch(accepting);
    }
}

void HttpServer::Inner::accept_some(const Listener& listener) {
    for (int i = 0; i < kAcceptsPerWake; ++i) {
        io::UniqueFd fd(
            ::accept4(listener.fd.value(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd.is_open()) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                watch(false);
                accept_again.set(loop.now() + kAcceptPause);
            }
            break;
        }
        ++counters.connections;
        if (!make_room()) {
            ++counters.refused;
            continue;
        }
        sockaddr_storage nobody{};  // only the family counts
        nobody.ss_family = listener.path.empty() ? AF_INET : AF_UNIX;
        const int number = fd.release();
        connections.push_back({number, loop.now() + limits.request_time});
        if (MHD_add_connection(daemon, number, reinterpret_cast<sockaddr*>(&nobody),
                               sizeof nobody) != MHD_YES) {
            // libmicrohttpd has closed the descriptor, and may have reported so.
            connections.remove_if([number](const Connection& one) { return one.fd == number; });
        }
    }
    run();
}

// Closes the oldest connection without a request, otherwise the oldest with a complete answer that
// is not read. False: all others are being answered.
bool HttpServer::Inner::make_room() {
    const auto open = std::count_if(connections.begin(), connections.end(),
                                    [](const Connection& one) { return !one.is_shut; });
    if (static_cast<size_t>(open) < limits.connections) {
        return true;
    }
    const auto give_way = [this](const auto& may) {
        const auto found =
            std::find_if(connections.begin(), connections.end(), [&may](const Connection& one) {
                return !one.is_shut && may(one.exchange.lock());
            });
        if (found == connections.end()) {
            return false;
        }
        ++counters.displaced;
        shut(*found);
        run();  // lets libmicrohttpd notice
        return true;
    };
    return give_way([](const auto& exchange) { return exchange == nullptr; }) ||
           give_way([](const auto& exchange) { return exchange != nullptr && exchange->answer; });
}

void HttpServer::Inner::shut(Connection& connection) {
    connection.is_shut = true;
    static_cast<void>(::shutdown(connection.fd, SHUT_RDWR));
    if (const auto exchange = connection.exchange.lock()) {
        exchange->resume();  // without an answer
    }
}

void HttpServer::Inner::run() {
    MHD_run(daemon);
    const base::TimePoint now = loop.now();
    for (Connection& connection : connections) {
        if (!connection.is_shut && connection.deadline <= now) {
            ++counters.timeouts;
            shut(connection);
        }
    }
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    base::TimePoint next = base::kNever;
    for (const Connection& connection : connections) {
        next = std::min(next, connection.is_shut ? now + kShutLook : connection.deadline);
    }
    if (MHD_get_timeout(daemon, &wait_ms) == MHD_YES) {
        next = std::min(next, now + base::milliseconds(static_cast<int64_t>(
                                        std::min<MHD_UNSIGNED_LONG_LONG>(wait_ms, 1000))));
    }
    timer.set(next);
}

HttpServer::Inner::Connection* HttpServer::Inner::find(MHD_Connection* connection) {
    const MHD_ConnectionInfo* info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const auto found =
        std::find_if(connections.begin(), connections.end(),
                     [info](const Connection& one) { return one.fd == info->connect_fd; });
    return found == connections.end() ? nullptr : &*found;
}

// The headers are here.
MHD_Result
HttpServer::Inner::begin(MHD_Connection* connection, const char* method, HttpRequest& request) {
    request.method = method;
    request.authorization = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    request.idempotency_key = header_of(connection, "Idempotency-Key");
    const std::string length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    constexpr size_t kMostDigits = 9;
    if (length.size() <= kMostDigits &&
        std::strtoul(length.c_str(), nullptr, 10) <= limits.body_bytes) {
        return MHD_YES;
    }
    ++counters.too_large;
    HttpAnswer answer;
    answer.status = kTooLarge;
    answer.headers.emplace_back(MHD_HTTP_HEADER_CONNECTION, "close");
    return queue(connection, answer);
}

// False: the body is too large, in chunks of unknown number.
bool HttpServer::Inner::take_body(std::string_view piece, HttpRequest& request) {
    if (request.body.size() + piece.size() > limits.body_bytes) {
        ++counters.too_large;
        return false;
    }
    request.body += piece;
    return true;
}

MHD_Result HttpServer::Inner::serve(const std::shared_ptr<Exchange>& exchange) {
    ++counters.requests;
    exchange->is_whole = true;
    if (auto* known = find(exchange->connection)) {
        known->exchange = exchange;
        known->deadline = loop.now() + limits.answer_time;
    }
    HttpReply reply;
    reply.exchange_ = exchange;
    handler(std::move(exchange->request), reply);
    if (exchange->answer) {
        return queue(exchange->connection, *exchange->answer);
    }
    exchange->is_suspended = true;
    MHD_suspend_connection(exchange->connection);
    return MHD_YES;
}

HttpServer::HttpServer(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(io::EventLoop& loop,
                                                       std::span<const std::string> addresses,
                                                       Handler handler,
                                                       const HttpLimits& limits) {
    auto inner = std::make_unique<Inner>(loop, std::move(handler), limits);
    CTN_TRY(inner->start());
    for (const std::string& address : addresses) {
        CTN_TRY(inner->open(address));
    }
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(inner)));
}

const std::vector<std::string>& HttpServer::addresses() const {
    return inner_->bound;
}

const HttpServer::Counters& HttpServer::counters() const {
    return inner_->counters;
}

}  // namespace continuo::rest
