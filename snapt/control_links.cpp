#include "snapt/control_links.hpp"

#include "common/base/log.hpp"
#include "common/daemon/link_pump.hpp"

#include <utility>

namespace continuo::snapt {

ControlLinks::ControlLinks(io::EventLoop& data_loop, ControlHandler& handler, ControlShared& shared)
    : gate_(data_loop, handler)
    , shared_(shared)
    , deadlines_(thread_.loop(), [this] { on_timer(); }) {}

ControlLinks::~ControlLinks() {
    stop();
}

void ControlLinks::stop() {
    thread_.stop();
    for (const auto& [id, link] : links_) {
        ControlConnection& connection = *link->connection;
        connection.control.close(control::CloseReason::Shutdown, {});
        static_cast<void>(daemon::send_pending(connection.stream, connection.control).has_value());
        shared_.hellos.remove(id, link->wire_session_up);
    }
    links_.clear();
    deadlines_.clear();
}

bool ControlLinks::adopt(std::unique_ptr<ControlConnection> connection) {
    // A posted function can be copied.
    auto parcel = std::make_shared<std::unique_ptr<ControlConnection>>(std::move(connection));
    return thread_.loop().post(
        [this, parcel = std::move(parcel)] { add_link(std::move(*parcel)); });
}

ControlLinks::Link* ControlLinks::find(LinkId id) {
    const auto found = links_.find(id);
    return found != links_.end() ? found->second.get() : nullptr;
}

void ControlLinks::add_link(std::unique_ptr<ControlConnection> connection) {
    const LinkId id = connection->id;
    auto owned = std::make_unique<Link>();
    Link& link = *owned;
    link.connection = std::move(connection);
    link.poller = std::make_unique<io::Poller>(
        thread_.loop(), link.connection->stream.fd(), [this, id] { on_readable(id); },
        [this, id] { on_writable(id); });
    links_.emplace(id, std::move(owned));
    update(link);
}

void ControlLinks::on_readable(LinkId id) {
    Link* link = find(id);
    if (link == nullptr) {
        return;
    }
    ControlConnection& connection = *link->connection;
    if (daemon::receive_pending(connection.stream, connection.control, thread_.loop())) {
        update(*link);
    } else {
        lose(*link);
    }
}

void ControlLinks::on_writable(LinkId id) {
    if (Link* link = find(id)) {
        update(*link);
    }
}

void ControlLinks::on_timer() {
    const base::TimePoint now = thread_.loop().refresh_now();
    while (const std::optional<LinkId> id = deadlines_.due(now)) {
        Link& link = *links_.at(*id);
        if (link.lingering) {
            remove(link);
            continue;
        }
        link.connection->control.on_timeout(now);
        update(link);
    }
    deadlines_.arm();
}

void ControlLinks::update(Link& link) {
    hand_over_events(link);
    ControlConnection& connection = *link.connection;
    const bool closed = connection.control.state() == control::ServerState::Closed;
    const base::Result<bool> flushed = send_pending(link);
    if (!flushed) {
        lose(link);
        return;
    }
    link.poller->watch(true, !*flushed);
    if (!closed) {
        deadlines_.set(connection.id, link.deadline, connection.control.next_deadline());
        return;
    }
    if (!link.lingering) {
        link.lingering = true;
        link.plain_poller.reset();  // nothing of it is taken any more
        link.plain.reset();
        deadlines_.set(connection.id, link.deadline, thread_.loop().now() + kLinger);
    }
    if (*flushed) {
        connection.stream.shutdown_write();
    }
}

void ControlLinks::hand_over_events(Link& link) {
    ControlConnection& connection = *link.connection;
    const LinkId id = connection.id;
    bool told = true;
    if (connection.datagrams.take_wake() &&
        !gate_.tell([id, queue = connection.datagrams.queue()](ControlHandler& handler) {
            handler.on_datagrams(id, *queue);
        })) {
        connection.datagrams.on_wake_failed();
    }
    while (std::optional<control::ServerEvent> event = connection.control.poll_event()) {
        if (const auto* rekeyed = std::get_if<control::RekeyAsked>(&*event)) {
            remember_keys(link, rekeyed->keys);
        }
        const bool is_close = std::holds_alternative<control::LinkClosed>(*event);
        const bool is_hello = std::holds_alternative<control::HelloReceived>(*event);
        if (is_close && !link.announced) {
            continue;
        }
        link.announced = link.announced || is_hello;
        told = gate_.tell(
            [id, from = connection.from, event = std::move(*event)](ControlHandler& handler) {
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
base::Result<bool> ControlLinks::send_pending(Link& link) {
    ControlConnection& connection = *link.connection;
    for (;;) {
        dataplane::DatagramQueue::Pulled fed;
        if (link.out && link.plain) {
            fed.tells_room = flush_plain(link);
        } else if (link.out && !link.is_readable &&
                   connection.control.state() == control::ServerState::Open) {
            fed = dataplane::feed(*link.out, connection.control);
        }
        if (fed.tells_room) {
            tell_room(link);
        }
        const base::Result<bool> flushed =
            daemon::send_pending(connection.stream, connection.control);
        if (!flushed || !*flushed || !fed.has_more) {
            return flushed;
        }
    }
}

void ControlLinks::tell_room(const Link& link) {
    if (!gate_.tell(
            [id = link.connection->id](ControlHandler& handler) { handler.on_stream_room(id); })) {
        link.out->on_room_untold();
    }
}

// Its transport has ended.
void ControlLinks::lose(Link& link) {
    link.connection->control.on_transport_closed(thread_.loop().now());
    hand_over_events(link);
    remove(link);
}

void ControlLinks::remove(Link& link) {
    const LinkId id = link.connection->id;
    deadlines_.set(id, link.deadline, base::kNever);
    shared_.hellos.remove(id, link.wire_session_up);
    links_.erase(id);
}

void ControlLinks::accept(LinkId id, control::Accept accept) {
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

dataplane::StreamPort ControlLinks::open_stream(LinkId id) {
    auto queue = std::make_shared<dataplane::DatagramQueue>();
    thread_.loop().post([this, id, queue] {
        if (Link* link = find(id)) {
            link->out = queue;
        }
    });
    return {std::move(queue), [this, id] {
                // update() sends
                return with_link(id, [](control::ServerControl&, base::TimePoint) {});
            }};
}

}  // namespace continuo::snapt
