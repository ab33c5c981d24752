#include "snapt/control_server.hpp"

#include "common/base/log.hpp"
#include "common/control/handshake_limiter.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/tcp_stream.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

namespace continuo::snapt {

namespace {

constexpr int kListenBacklog = 256;
constexpr int kAcceptsPerWake = 64;
// A closed link waits so long for the peer's end of stream, so that its last words are not cut by a
// reset.
constexpr base::Duration kLinger = base::seconds(1);
// After accept() found no descriptor free.
constexpr base::Duration kAcceptPause = base::milliseconds(100);
constexpr base::Duration kUnacknowledged = base::seconds(30);
constexpr base::Duration kKeepaliveIdle = 2 * control::kPingInterval;

// Datagrams of one wake-up, to cross the threads at once.
class DatagramBatch final : public control::DatagramSink {
  public:
    struct Datagrams {
        std::vector<uint8_t> bytes;
        std::vector<size_t> lengths;
    };
    void on_datagram(base::ByteView datagram) override {
        datagrams_.bytes.insert(datagrams_.bytes.end(), datagram.begin(), datagram.end());
        datagrams_.lengths.push_back(datagram.size());
    }
    bool is_empty() const { return datagrams_.lengths.empty(); }
    Datagrams take() { return std::exchange(datagrams_, {}); }

  private:
    Datagrams datagrams_;
};

base::Endpoint without_mapping(const base::Endpoint& endpoint) {
    constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0,    0,
                                                 0, 0, 0, 0, 0xFF, 0xFF};  // RFC 4291 2.5.5.2
    const base::ByteView octets(endpoint.address.octets);
    if (endpoint.address.is_v4() || !std::equal(kMapped.begin(), kMapped.end(), octets.begin())) {
        return endpoint;
    }
    return {base::IpAddress::v4(octets.last(4)), endpoint.port};
}

base::Result<io::UniqueFd> open_listener(const base::Endpoint& endpoint, base::Endpoint& bound) {
    const int family = endpoint.address.is_v4() ? AF_INET : AF_INET6;
    io::UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!fd.is_open()) {
        return base::Error{base::Errc::System, "TCP socket", errno};
    }
    const int on = 1;
    ::setsockopt(fd.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) {
        ::setsockopt(fd.value(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    const io::SocketAddress address(endpoint);
    if (::bind(fd.value(), address.data(), address.size()) != 0) {
        return base::Error{base::Errc::System, "TCP bind", errno};
    }
    if (::listen(fd.value(), kListenBacklog) != 0) {
        return base::Error{base::Errc::System, "TCP listen", errno};
    }
    io::SocketAddress name;
    socklen_t length = io::SocketAddress::capacity();
    if (::getsockname(fd.value(), name.data(), &length) != 0) {
        return base::Error{base::Errc::System, "getsockname", errno};
    }
    bound = name.endpoint().value_or(endpoint);
    return fd;
}

}  // namespace

// Everything here belongs to the control thread but `handler`, which belongs to the data loop, and
// the atomics.
class ControlServer::Inner : public std::enable_shared_from_this<ControlServer::Inner> {
  public:
    Inner(io::EventLoop& data_loop, ControlHandler& handler, control::CredentialSource& credentials)
        : handler_(&handler)
        , data_loop_(data_loop)
        , credentials_(credentials)
        , timer_(loop_, [this] { on_timer(); }) {}

    base::Result<void> start(ControlServerOptions options);
    void stop();

    // Data loop: runs `action(ServerControl&, now)` on the control thread.
    template <typename Action>
    void with_link(LinkId id, Action action) {
        loop_.post([this, id, action = std::move(action)]() mutable {
            const auto found = links_.find(id);
            if (found != links_.end()) {
                action(found->second->control, loop_.now());
                update(*found->second);
            }
        });
    }
    void accept_link(LinkId id, control::Accept accept);
    ControlServerCounters counters() const;

    std::vector<base::Endpoint> endpoints_;

  private:
    struct Listener {
        io::UniqueFd fd;
        std::unique_ptr<io::Poller> poller;
    };
    struct Link {
        Link(Inner& owner, io::UniqueFd fd)
            : stream(std::move(fd))
            , control(*owner.context_, owner.credentials_, owner.parameters_, &datagrams) {}
        LinkId id = 0;
        base::Endpoint from;
        io::TcpStream stream;
        DatagramBatch datagrams;
        control::ServerControl control;
        std::optional<control::HandshakeLimiter::Ticket> ticket;
        base::TimePoint deadline = base::kNever;  // as in deadlines_
        bool announced = false;                   // on_hello was called
        bool lingering = false;
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
    };

    void on_acceptable(Listener& listener);
    void add_link(io::UniqueFd fd, const base::Endpoint& from);
    void on_readable(LinkId id);
    void on_timer();
    // After every input of a link: events, bytes, timer. May destroy it.
    void update(Link& link);
    void hand_over_events(Link& link);
    void set_deadline(Link& link, base::TimePoint at);
    void remove(Link& link);
    void pause_accepting();
    void shut_down();
    // Runs `call(ControlHandler&)` on the data loop, unless stopped by then.
    template <typename Call>
    bool tell(Call call) {
        return data_loop_.post([self = shared_from_this(), call = std::move(call)] {
            if (self->handler_ != nullptr) {
                call(*self->handler_);
            }
        });
    }

    ControlHandler* handler_;  // data loop; null once stopped
    io::EventLoop& data_loop_;
    control::CredentialSource& credentials_;
    control::ServerParameters parameters_;
    size_t max_links_ = 0;
    std::optional<control::TlsContext> context_;
    io::EventLoop loop_;
    io::DeadlineTimer timer_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    std::unordered_map<LinkId, std::unique_ptr<Link>> links_;
    std::set<std::pair<base::TimePoint, LinkId>> deadlines_;
    base::TimePoint accept_again_at_ = base::kNever;
    control::HandshakeLimiter limiter_;
    LinkId last_id_ = 0;
    std::atomic<uint64_t> accepted_ = 0;
    std::atomic<uint64_t> refused_ = 0;
    std::atomic<uint64_t> failed_handshakes_ = 0;
    std::atomic<uint64_t> link_count_ = 0;
    std::thread thread_;
};

base::Result<void> ControlServer::Inner::start(ControlServerOptions options) {
    if (thread_.joinable()) {
        return base::Error{base::Errc::InvalidState, "control server runs"};
    }
    context_.emplace(CTN_TRY(control::TlsContext::server()));
    parameters_ = std::move(options.parameters);
    max_links_ = options.max_links;
    for (const base::Endpoint& endpoint : options.listen) {
        auto listener = std::make_unique<Listener>();
        base::Endpoint bound;
        listener->fd = CTN_TRY(open_listener(endpoint, bound));
        endpoints_.push_back(bound);
        Listener* raw = listener.get();
        listener->poller = std::make_unique<io::Poller>(loop_, listener->fd.value(),
                                                        [this, raw] { on_acceptable(*raw); });
        listener->poller->watch(true);
        listeners_.push_back(std::move(listener));
    }
    thread_ = std::thread([this] { loop_.run(); });
    return {};
}

void ControlServer::Inner::stop() {
    handler_ = nullptr;
    if (thread_.joinable()) {
        loop_.post([this] { shut_down(); });
        loop_.stop();
        thread_.join();
    }
    // Not running any more: what is left is ours.
    links_.clear();
    listeners_.clear();
}

void ControlServer::Inner::shut_down() {
    for (const auto& entry : links_) {
        Link* link = entry.second.get();
        link->control.close(control::CloseReason::Shutdown, {});
        static_cast<void>(
            link->stream
                .flush([&](base::MutableByteView to) { return link->control.poll_bytes(to); })
                .has_value());
    }
    links_.clear();
    deadlines_.clear();
    listeners_.clear();
    link_count_ = 0;
}

void ControlServer::Inner::on_acceptable(Listener& listener) {
    for (int i = 0; i < kAcceptsPerWake; ++i) {
        io::SocketAddress peer;
        socklen_t length = io::SocketAddress::capacity();
        io::UniqueFd fd(
            ::accept4(listener.fd.value(), peer.data(), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd.is_open()) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                pause_accepting();
            }
            return;
        }
        const std::optional<base::Endpoint> from = peer.endpoint();
        if (from) {
            add_link(std::move(fd), without_mapping(*from));
        }
    }
}

void ControlServer::Inner::pause_accepting() {
    for (const auto& listener : listeners_) {
        listener->poller->watch(false);
    }
    accept_again_at_ = loop_.now() + kAcceptPause;
    timer_.set(std::min(timer_.deadline(), accept_again_at_));
}

void ControlServer::Inner::add_link(io::UniqueFd fd, const base::Endpoint& from) {
    const base::TimePoint now = loop_.now();
    if (links_.size() >= max_links_ + control::kMaxUnfinishedHandshakes) {
        ++refused_;
        return;
    }
    const auto ticket = limiter_.begin(from.address, now);
    if (!ticket) {
        ++refused_;
        return;
    }
    io::tune_tcp(fd.value(), kUnacknowledged, kKeepaliveIdle);
    auto owned = std::make_unique<Link>(*this, std::move(fd));
    Link& link = *owned;
    link.id = ++last_id_;
    link.from = from;
    link.ticket = ticket;
    if (!link.control.start(now)) {
        limiter_.end(*ticket);
        return;
    }
    link.poller = std::make_unique<io::Poller>(
        loop_, link.stream.fd(), [this, id = link.id] { on_readable(id); },
        [this, id = link.id] {
            const auto found = links_.find(id);
            if (found != links_.end()) {
                update(*found->second);
            }
        });
    links_.emplace(link.id, std::move(owned));
    ++accepted_;
    link_count_ = links_.size();
    update(link);
}

void ControlServer::Inner::on_readable(LinkId id) {
    const auto found = links_.find(id);
    if (found == links_.end()) {
        return;
    }
    Link& link = *found->second;
    const base::Result<bool> more = link.stream.drain([&](base::ByteView bytes) {
        link.control.on_bytes(bytes, loop_.now());
        return true;
    });
    if (!more || !*more) {
        link.control.on_transport_closed(loop_.now());
        hand_over_events(link);
        remove(link);
        return;
    }
    update(link);
}

void ControlServer::Inner::on_timer() {
    const base::TimePoint now = loop_.refresh_now();
    if (accept_again_at_ <= now) {
        accept_again_at_ = base::kNever;
        for (const auto& listener : listeners_) {
            listener->poller->watch(true);
        }
    }
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
        Link& link = *links_.at(deadlines_.begin()->second);
        if (link.lingering) {
            remove(link);
            continue;
        }
        link.control.on_timeout(now);
        update(link);
    }
    timer_.set(
        std::min(accept_again_at_, deadlines_.empty() ? base::kNever : deadlines_.begin()->first));
}

void ControlServer::Inner::update(Link& link) {
    hand_over_events(link);
    const bool closed = link.control.state() == control::ServerState::Closed;
    if (link.ticket && (closed || link.control.state() == control::ServerState::Open)) {
        limiter_.end(*link.ticket);
        link.ticket.reset();
    }
    const base::Result<bool> flushed =
        link.stream.flush([&](base::MutableByteView to) { return link.control.poll_bytes(to); });
    if (!flushed) {
        link.control.on_transport_closed(loop_.now());
        hand_over_events(link);
        remove(link);
        return;
    }
    link.poller->watch(true, !*flushed);
    if (!closed) {
        set_deadline(link, link.control.next_deadline());
        return;
    }
    if (!link.lingering) {
        link.lingering = true;
        set_deadline(link, loop_.now() + kLinger);
        if (!link.control.is_authenticated()) {
            ++failed_handshakes_;
        }
    }
    if (*flushed) {
        link.stream.shutdown_write();
    }
}

void ControlServer::Inner::hand_over_events(Link& link) {
    const LinkId id = link.id;
    bool told = true;
    if (!link.datagrams.is_empty()) {
        // Dropped when the data loop is behind, as a network would.
        static_cast<void>(tell([id, batch = link.datagrams.take()](ControlHandler& handler) {
            base::ByteView rest(batch.bytes);
            for (const size_t length : batch.lengths) {
                handler.on_datagram(id, rest.first(length));
                rest = rest.subspan(length);
            }
        }));
    }
    while (std::optional<control::ServerEvent> event = link.control.poll_event()) {
        const bool is_close = std::holds_alternative<control::LinkClosed>(*event);
        const bool is_hello = std::holds_alternative<control::HelloReceived>(*event);
        if (is_close && !link.announced) {
            continue;
        }
        link.announced = link.announced || is_hello;
        told = tell([id, from = link.from, event = std::move(*event)](ControlHandler& handler) {
            if (const auto* hello = std::get_if<control::HelloReceived>(&event)) {
                handler.on_hello(id, from, *hello);
            } else if (const auto* asked = std::get_if<control::RekeyAsked>(&event)) {
                handler.on_keys(id, asked->keys);
            } else if (const auto* apps = std::get_if<control::Apps>(&event)) {
                handler.on_apps(id, *apps);
            } else if (const auto* query = std::get_if<control::UsageQuery>(&event)) {
                handler.on_usage_query(id, *query);
            } else if (std::holds_alternative<control::SessionQuery>(event)) {
                handler.on_session_query(id);
            } else if (const auto* gone = std::get_if<control::LinkClosed>(&event)) {
                handler.on_closed(id, *gone);
            }
        });
    }
    if (!told) {
        base::log(base::LogLevel::Warning, "control: the data loop does not take events");
    }
}

void ControlServer::Inner::set_deadline(Link& link, base::TimePoint at) {
    if (link.deadline != at) {
        deadlines_.erase({link.deadline, link.id});
        link.deadline = at;
        if (at != base::kNever) {
            deadlines_.emplace(at, link.id);
        }
    }
    if (at < timer_.deadline()) {
        timer_.set(at);
    }
}

void ControlServer::Inner::remove(Link& link) {
    if (link.ticket) {
        limiter_.end(*link.ticket);
    }
    if (!link.lingering && !link.control.is_authenticated()) {
        ++failed_handshakes_;
    }
    deadlines_.erase({link.deadline, link.id});
    links_.erase(link.id);
    link_count_ = links_.size();
}

void ControlServer::Inner::accept_link(LinkId id, control::Accept accept) {
    with_link(id, [this, id, accept = std::move(accept)](control::ServerControl& server,
                                                         base::TimePoint) {
        const base::Result<control::EpochKeys> keys = server.accept(accept);
        if (!keys) {
            server.reject(control::RejectReason::Internal, "parameters cannot be told");
            return;
        }
        static_cast<void>(
            tell([id, keys = *keys](ControlHandler& handler) { handler.on_keys(id, keys); }));
    });
}

ControlServerCounters ControlServer::Inner::counters() const {
    return {accepted_, refused_, failed_handshakes_, link_count_};
}

ControlServer::ControlServer(io::EventLoop& data_loop,
                             ControlHandler& handler,
                             control::CredentialSource& credentials)
    : inner_(std::make_shared<Inner>(data_loop, handler, credentials)) {}

ControlServer::~ControlServer() {
    stop();
}

base::Result<void> ControlServer::start(ControlServerOptions options) {
    return inner_->start(std::move(options));
}

void ControlServer::stop() {
    inner_->stop();
}

const std::vector<base::Endpoint>& ControlServer::endpoints() const {
    return inner_->endpoints_;
}

void ControlServer::accept(LinkId link, control::Accept accept) {
    inner_->accept_link(link, std::move(accept));
}

void ControlServer::reject(LinkId link, control::RejectReason reason, std::string text) {
    inner_->with_link(
        link, [reason, text = std::move(text)](control::ServerControl& server, base::TimePoint) {
            server.reject(reason, text);
        });
}

void ControlServer::confirm(LinkId link, uint32_t epoch) {
    inner_->with_link(link, [epoch](control::ServerControl& server, base::TimePoint now) {
        static_cast<void>(server.confirm(epoch, now).has_value());
    });
}

void ControlServer::ask_for_rekey(LinkId link) {
    inner_->with_link(link, [](control::ServerControl& server, base::TimePoint) {
        static_cast<void>(server.ask_for_rekey().has_value());
    });
}

void ControlServer::send_directory(LinkId link, control::Directory directory) {
    inner_->with_link(
        link, [directory = std::move(directory)](control::ServerControl& server, base::TimePoint) {
            static_cast<void>(server.send_directory(directory).has_value());
        });
}

void ControlServer::ask_for_keepalive(LinkId link) {
    inner_->with_link(link, [](control::ServerControl& server, base::TimePoint) {
        static_cast<void>(server.ask_for_keepalive().has_value());
    });
}

void ControlServer::reply_usage(LinkId link, control::UsageReply reply) {
    inner_->with_link(link,
                      [reply = std::move(reply)](control::ServerControl& server, base::TimePoint) {
                          static_cast<void>(server.reply_usage(reply).has_value());
                      });
}

void ControlServer::tell_session_state(LinkId link, bool known) {
    inner_->with_link(link, [known](control::ServerControl& server, base::TimePoint) {
        static_cast<void>(server.tell_session_state(known).has_value());
    });
}

void ControlServer::send_datagram(LinkId link, base::ByteView datagram) {
    std::vector<uint8_t> copy(datagram.begin(), datagram.end());
    inner_->with_link(link,
                      [copy = std::move(copy)](control::ServerControl& server, base::TimePoint) {
                          static_cast<void>(server.send_datagram(copy).has_value());
                      });
}

void ControlServer::close(LinkId link, control::CloseReason reason, std::string text) {
    inner_->with_link(
        link, [reason, text = std::move(text)](control::ServerControl& server, base::TimePoint) {
            server.close(reason, text);
        });
}

ControlServerCounters ControlServer::counters() const {
    return inner_->counters();
}

}  // namespace continuo::snapt
