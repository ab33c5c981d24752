#include "snapt/control_server.hpp"

#include "common/base/log.hpp"
#include "common/daemon/link_pump.hpp"
#include "common/io/privileges.hpp"
#include "snapt/control_server_inner.hpp"

#include <algorithm>
#include <utility>

#include <sys/socket.h>

namespace continuo::snapt {

namespace {

// A closed link waits so long for the peer's end of stream, so that its last words are not cut by a
// reset.
constexpr base::Duration kLinger = base::seconds(1);
constexpr base::Duration kUnacknowledged = base::seconds(30);
constexpr base::Duration kKeepaliveIdle = 2 * control::kPingInterval;

}  // namespace

base::Result<void> ControlServer::Inner::start(ControlServerOptions options) {
    if (thread_.joinable()) {
        return base::Error{base::Errc::InvalidState, "control server runs"};
    }
    context_.emplace(CTN_TRY(control::TlsContext::server()));
    parameters_ = std::move(options.parameters);
    desk_.emplace(credentials_, parameters_.realm);
    max_links_ = options.max_links;
    endpoints = CTN_TRY(listener_.open(options.listen));
    thread_ = std::thread([this] {
        static_cast<void>(io::keep_capabilities({}));
        loop_.run();
    });
    return {};
}

void ControlServer::Inner::stop() {
    gate_.shut();
    if (thread_.joinable()) {
        loop_.post([this] { shut_down(); });
        loop_.stop();
        thread_.join();
    }
    // Not running any more: what is left is ours.
    links_.clear();
    listener_.close();
}

void ControlServer::Inner::shut_down() {
    for (const auto& entry : links_) {
        Link* link = entry.second.get();
        link->control.close(control::CloseReason::Shutdown, {});
        static_cast<void>(daemon::send_pending(link->stream, link->control).has_value());
    }
    links_.clear();
    deadlines_.clear();
    listener_.close();
    link_count_ = 0;
}

void ControlServer::Inner::add_link(io::UniqueFd fd, const base::Endpoint& from) {
    const base::TimePoint now = loop_.now();
    if (links_.size() >= max_links_ + control::kMaxUnfinishedHandshakes) {
        ++refused_;
        return;
    }
    const auto admitted = limiter_.begin(from.address, now);
    if (!admitted) {
        ++refused_;
        return;
    }
    if (const auto stalled = links_.find(admitted->displaced); stalled != links_.end()) {
        ++displaced_;
        stalled->second->control.on_transport_closed(now);
        hand_over_events(*stalled->second);
        remove(*stalled->second);
    }
    io::tune_tcp(fd.value(), kUnacknowledged, kKeepaliveIdle);
    auto owned = std::make_unique<Link>(*this, std::move(fd));
    Link& link = *owned;
    link.id = admitted->ticket;
    link.from = from;
    link.ticket = admitted->ticket;
    if (!link.control.start(now)) {
        limiter_.end(*link.ticket);
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

ControlServer::Inner::Kind ControlServer::Inner::kind_of(const Link& link) {
    constexpr uint8_t kHelloLength = 0;  // of its two octets the first
    uint8_t first = 0;
    if (::recv(link.stream.fd(), &first, 1, MSG_PEEK) != 1) {
        return Kind::Unknown;
    }
    return first == kHelloLength ? Kind::Plain : first == 'G' ? Kind::PortalCheck : Kind::Tls;
}

void ControlServer::Inner::on_readable(LinkId id) {
    const auto found = links_.find(id);
    if (found == links_.end()) {
        return;
    }
    Link& link = *found->second;
    if (link.kind == Kind::Unknown) {
        link.kind = kind_of(link);
    }
    if (link.kind == Kind::Plain) {
        on_stranger_readable(link);
        return;
    }
    if (link.kind == Kind::PortalCheck) {
        on_portal_readable(link);
        return;
    }
    if (!daemon::receive_pending(link.stream, link.control, loop_)) {
        link.control.on_transport_closed(loop_.now());
        hand_over_events(link);
        remove(link);
        return;
    }
    update(link);
}

void ControlServer::Inner::on_timer() {
    const base::TimePoint now = loop_.refresh_now();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
        Link& link = *links_.at(deadlines_.begin()->second);
        const bool is_other = link.kind == Kind::Plain || link.kind == Kind::PortalCheck;
        if (link.lingering || is_other) {
            remove(link);
            continue;
        }
        link.control.on_timeout(now);
        update(link);
    }
    timer_.set(deadlines_.empty() ? base::kNever : deadlines_.begin()->first);
}

void ControlServer::Inner::update(Link& link) {
    hand_over_events(link);
    const bool closed = link.control.state() == control::ServerState::Closed;
    if (link.ticket && (closed || link.control.is_authenticated())) {
        limiter_.end(*link.ticket);
        link.ticket.reset();
    }
    const base::Result<bool> flushed = send_pending(link);
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
    if (link.datagrams.take_wake() &&
        !gate_.tell([id, queue = link.datagrams.queue()](ControlHandler& handler) {
            handler.on_datagrams(id, *queue);
        })) {
        link.datagrams.on_wake_failed();
    }
    while (std::optional<control::ServerEvent> event = link.control.poll_event()) {
        if (const auto* rekeyed = std::get_if<control::RekeyAsked>(&*event)) {
            remember_keys(link, rekeyed->keys);
        }
        const bool is_close = std::holds_alternative<control::LinkClosed>(*event);
        const bool is_hello = std::holds_alternative<control::HelloReceived>(*event);
        if (is_close && !link.announced) {
            continue;
        }
        link.announced = link.announced || is_hello;
        told =
            gate_.tell([id, from = link.from, event = std::move(*event)](ControlHandler& handler) {
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

// What the link has to say, then datagrams for as long as the socket takes them.
base::Result<bool> ControlServer::Inner::send_pending(Link& link) {
    for (;;) {
        dataplane::DatagramQueue::Pulled fed;
        if (link.out && link.plain) {
            const auto flushed = link.plain->flush(*link.out);
            if (flushed) {
                fed.tells_room = flushed->tells_room;
                link.plain_poller->watch(true, !flushed->is_done);
            } else {
                link.plain_poller.reset();
                link.plain.reset();
            }
        } else if (link.out && !link.is_readable &&
                   link.control.state() == control::ServerState::Open) {
            fed = dataplane::feed(*link.out, link.control);
        }
        if (fed.tells_room) {
            tell_room(link);
        }
        const base::Result<bool> flushed = daemon::send_pending(link.stream, link.control);
        if (!flushed || !*flushed || !fed.has_more) {
            return flushed;
        }
    }
}

void ControlServer::Inner::tell_room(const Link& link) {
    if (!gate_.tell([id = link.id](ControlHandler& handler) { handler.on_stream_room(id); })) {
        link.out->on_room_untold();
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
        Link& link = *links_.at(id);
        link.is_readable = accept.protection.kind == control::ProtectionKind::HmacSha256;
        link.wire_session_up = accept.wire_session_up;
        link.tag_bytes = accept.protection.tag_bytes;
        remember_keys(link, *keys);
        static_cast<void>(
            gate_.tell([id, keys = *keys](ControlHandler& handler) { handler.on_keys(id, keys); }));
    });
}

dataplane::StreamPort ControlServer::Inner::open_stream(LinkId id) {
    auto queue = std::make_shared<dataplane::DatagramQueue>();
    loop_.post([this, id, queue] {
        if (const auto found = links_.find(id); found != links_.end()) {
            found->second->out = queue;
        }
    });
    return {std::move(queue), [this, id] {
                // update() sends
                return with_link(id, [](control::ServerControl&, base::TimePoint) {});
            }};
}

ControlServerCounters ControlServer::Inner::counters() const {
    return {accepted_, refused_, displaced_, failed_handshakes_, portal_checks_, link_count_};
}

ControlServer::ControlServer(io::EventLoop& data_loop,
                             ControlHandler& handler,
                             control::CredentialSource& credentials)
    : inner_(std::make_unique<Inner>(data_loop, handler, credentials)) {}

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
    return inner_->endpoints;
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

dataplane::StreamPort ControlServer::open_stream(LinkId link) {
    return inner_->open_stream(link);
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
