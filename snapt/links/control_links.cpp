#include "snapt/links/control_links.hpp"

#include "common/base/log.hpp"
#include "common/daemon/link_pump.hpp"
#include "snapt/store/user_store.hpp"

#include <algorithm>
#include <utility>

namespace continuo::snapt::links {

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
    link.under_way = std::make_shared<std::atomic<int>>(0);
    link.connection->datagrams.set_on_room(
        [this, id] { return thread_.loop().post([this, id] { on_room(id); }); });
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
    // Beside a plain connection, which brings the datagrams, TLS brings control: it does not wait.
    const auto may_read = [&] { return link->plain || has_room(*link, kRoomToRead); };
    if (!may_read()) {
        update(*link);
        return;
    }
    const base::Result<bool> more = connection.stream.drain([&](base::ByteView bytes) {
        connection.control.on_bytes(bytes, thread_.loop().now());
        return !connection.control.is_full() && may_read();
    });
    if (more && *more) {
        update(*link);
    } else {
        lose(*link);
    }
}

bool ControlLinks::has_room(Link& link, size_t bytes) {
    link.waits_for_room = !link.connection->datagrams.has_room(bytes);
    return !link.waits_for_room;
}

void ControlLinks::on_room(LinkId id) {
    Link* link = find(id);
    if (link == nullptr) {
        return;
    }
    link->waits_for_room = false;
    if (link->plain) {
        on_plain_readable(id);  // whole records may wait in it
    } else {
        update(*link);
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
            hand_over_last_events(link);
            remove(link);
            continue;
        }
        link.connection->control.on_timeout(now);
        if (link.waits_for_room) {
            on_room(*id);  // the data loop may not have been able to say so
        } else {
            update(link);
        }
    }
    deadlines_.arm();
}

void ControlLinks::update(Link& link) {
    const bool goes_on = hand_over_events(link);
    ControlConnection& connection = *link.connection;
    const bool closed = connection.control.state() == control::ServerState::Closed;
    const base::Result<bool> flushed = send_pending(link);
    if (!flushed) {
        lose(link);
        return;
    }
    if (!goes_on && !link.is_paused) {
        ++shared_.counts.pauses;
        if (link.desk) {
            link.desk->on_paused();
        }
    }
    link.is_paused = !goes_on;
    link.poller->watch(goes_on && (link.plain || !link.waits_for_room), !*flushed);
    if (!closed) {
        base::TimePoint at = connection.control.next_deadline();
        const bool asks_again = link.connection->datagrams.wants_wake();  // it was too far behind
        if (link.is_paused || link.waits_for_room || asks_again) {
            at = std::min(at, thread_.loop().now() + kEventInterval);
        }
        deadlines_.set(connection.id, link.deadline, at);
        return;
    }
    if (!link.lingering) {
        link.lingering = true;
        link.plain_poller.reset();  // nothing more is read from it
        link.plain.reset();
        deadlines_.set(connection.id, link.deadline, thread_.loop().now() + kLinger);
    }
    if (*flushed) {
        connection.stream.shutdown_write();
    }
}

bool ControlLinks::hand_over_events(Link& link) {
    wake_data_loop(link);
    control::ServerControl& control = link.connection->control;
    for (;;) {
        while (may_tell(link)) {
            std::optional<control::ServerEvent> event = control.poll_event();
            if (!event) {
                break;
            }
            tell(link, std::move(*event));
        }
        if (!may_tell(link)) {
            return false;
        }
        if (control.state() == control::ServerState::Closed) {
            return true;
        }
        control.read_on(thread_.loop().now());
        wake_data_loop(link);
        if (!control.has_events()) {
            return true;
        }
    }
}

// The link ends: little is waiting.
void ControlLinks::hand_over_last_events(Link& link) {
    wake_data_loop(link);
    while (std::optional<control::ServerEvent> event = link.connection->control.poll_event()) {
        tell(link, std::move(*event));
    }
}

void ControlLinks::wake_data_loop(Link& link) {
    DatagramInput& datagrams = link.connection->datagrams;
    if (datagrams.take_wake() &&
        !gate_.tell([id = link.connection->id, queue = datagrams.queue()](ControlHandler& handler) {
            handler.on_datagrams(id, *queue);
        })) {
        datagrams.on_wake_failed();
    }
}

bool ControlLinks::may_tell(const Link& link) {
    return *link.under_way < kMaxEventsUnderWay &&
           link.events_paid_at - thread_.loop().now() < kEventInterval * kEventBurst;
}

bool ControlLinks::serve(Link& link, const control::ServerEvent& event) {
    control::ServerControl& control = link.connection->control;
    if (const auto* query = std::get_if<control::UsageQuery>(&event)) {
        if (std::optional<std::string> answer = link.desk->on_usage_query(*query)) {
            static_cast<void>(control.reply_usage({query->request, std::move(*answer)}));
        }
        return true;
    }
    if (std::holds_alternative<control::SessionQuery>(event)) {
        static_cast<void>(control.tell_session_state(link.desk->is_session_known()));
        return true;
    }
    if (const auto* apps = std::get_if<control::Apps>(&event)) {
        link.desk->on_names(apps->apps);
        return apps->modes.empty();
    }
    return false;
}

void ControlLinks::refuse(Link& link,
                          const control::HelloReceived& received,
                          control::RejectReason reason,
                          const char* text) {
    shared_.note(EventLog::Kind::Refusal,
                 {{"user", received.identity.user},
                  {"node", received.hello.node},
                  {"from", link.connection->from.to_string()},
                  {"reason", text}},
                 thread_.loop().now());
    link.connection->control.reject(reason, text);
}

bool ControlLinks::let_hello_pass(Link& link, const control::HelloReceived& received) {
    if (!store::is_valid_name(received.hello.node)) {
        refuse(link, received, control::RejectReason::BadHello, "bad node name");
        return false;
    }
    const bool passes = hello_gate_.admit(received.identity.user, received.hello.node,
                                          shared_.user_links.user_sessions(), thread_.loop().now());
    if (!passes) {
        ++shared_.counts.refused_hellos;
        refuse(link, received, control::RejectReason::SessionLimit, "too many logins");
    }
    return passes;
}

void ControlLinks::tell(Link& link, control::ServerEvent&& event) {
    size_t cost = 1;
    if (const auto* apps = std::get_if<control::Apps>(&event)) {
        cost += (apps->apps.size() + apps->modes.size()) / kAppsOfAnEvent;
    }
    link.events_paid_at = std::max(link.events_paid_at, thread_.loop().now()) +
                          kEventInterval * static_cast<int64_t>(cost);
    if (serve(link, event)) {
        return;
    }
    if (const auto* rekeyed = std::get_if<control::RekeyAsked>(&event)) {
        remember_keys(link, rekeyed->keys);
    } else if (const auto* hello = std::get_if<control::HelloReceived>(&event)) {
        if (!let_hello_pass(link, *hello)) {
            return;
        }
        link.announced = true;
    } else if (!link.announced) {
        return;  // nobody heard of it
    }
    const LinkId id = link.connection->id;
    ++*link.under_way;
    const bool told =
        gate_.tell([this, id, under_way = link.under_way, from = link.connection->from,
                    event = std::move(event)](ControlHandler& handler) {
            const int left = --*under_way;
            if (const auto* hello = std::get_if<control::HelloReceived>(&event)) {
                handler.on_hello(id, from, *hello);
            } else if (const auto* asked = std::get_if<control::RekeyAsked>(&event)) {
                handler.on_keys(id, asked->keys);
            } else if (const auto* apps = std::get_if<control::Apps>(&event)) {
                handler.on_modes(id, apps->modes);
            } else if (const auto* gone = std::get_if<control::LinkClosed>(&event)) {
                handler.on_closed(id, *gone);
            }
            on_event_taken(id, left);
        });
    if (!told) {
        --*link.under_way;
        base::log(base::LogLevel::Warning, "control: the data loop does not take events");
    }
}

// On the data loop. If the notice could not be posted, the link checks soon by itself.
void ControlLinks::on_event_taken(LinkId id, int still_under_way) {
    if (still_under_way == kMaxEventsUnderWay / 2) {
        with_link(id, [](control::ServerControl&, base::TimePoint) {});
    }
}

// Sends the link's own messages first, then datagrams while the socket accepts them.
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
    hand_over_last_events(link);
    remove(link);
}

void ControlLinks::remove(Link& link) {
    const LinkId id = link.connection->id;
    deadlines_.set(id, link.deadline, base::kNever);
    shared_.hellos.remove(id, link.wire_session_up);
    links_.erase(id);
}

void ControlLinks::accept(LinkId id, control::Accept accept, std::shared_ptr<LinkDesk> desk) {
    with_link(id, [this, id, accept = std::move(accept),
                   desk = std::move(desk)](control::ServerControl& server, base::TimePoint) {
        const base::Result<control::EpochKeys> keys = server.accept(accept);
        if (!keys) {
            server.reject(control::RejectReason::Internal, "parameters cannot be told");
            return;
        }
        Link& link = *links_.at(id);
        link.desk = desk;
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

}  // namespace continuo::snapt::links
