#include "snapt/links/control_door.hpp"

#include "common/daemon/link_pump.hpp"

#include <utility>

#include <sys/socket.h>

namespace continuo::snapt::links {

namespace {

constexpr base::Duration kUnacknowledged = base::seconds(30);
constexpr base::Duration kKeepaliveIdle = 2 * control::kPingInterval;

}  // namespace

ControlDoor::ControlDoor(ControlShared& shared, ControlLinks& links)
    : shared_(shared)
    , links_(links)
    , listener_(thread_.loop(),
                [this](io::UniqueFd fd, const base::Endpoint& from) { admit(std::move(fd), from); })
    , deadlines_(thread_.loop(), [this] { on_timer(); }) {}

ControlDoor::~ControlDoor() {
    stop();
}

base::Result<std::vector<base::Endpoint>>
ControlDoor::open(const std::vector<base::Endpoint>& listen, size_t max_links) {
    desk_.emplace(shared_.credentials, shared_.parameters.realm);
    max_links_ = max_links;
    return listener_.open(listen);
}

void ControlDoor::stop() {
    thread_.stop();
    for (const auto& [id, stranger] : strangers_) {
        ControlConnection& connection = *stranger->connection;
        connection.control.close(control::CloseReason::Shutdown, {});
        static_cast<void>(daemon::send_pending(connection.stream, connection.control).has_value());
    }
    strangers_.clear();
    deadlines_.clear();
    listener_.close();
}

void ControlDoor::admit(io::UniqueFd fd, const base::Endpoint& from) {
    const base::TimePoint now = thread_.loop().now();
    ControlCounts& counts = shared_.counts;
    if (counts.links >= max_links_ + control::kMaxUnfinishedHandshakes) {
        ++counts.refused;
        return;
    }
    const auto admitted = limiter_.begin(from.address, now);
    if (!admitted) {
        ++counts.refused;
        return;
    }
    if (const auto stalled = strangers_.find(admitted->displaced); stalled != strangers_.end()) {
        ++counts.displaced;
        remove(*stalled->second);
    }
    io::tune_tcp(fd.value(), kUnacknowledged, kKeepaliveIdle);
    const LinkId id = admitted->ticket;
    auto owned = std::make_unique<Stranger>();
    Stranger& stranger = *owned;
    stranger.connection = std::make_unique<ControlConnection>(shared_, id, from, std::move(fd));
    if (!stranger.connection->control.start(now)) {
        limiter_.end(id);
        return;
    }
    stranger.poller = std::make_unique<io::Poller>(
        thread_.loop(), stranger.connection->stream.fd(), [this, id] { on_readable(id); },
        [this, id] { on_writable(id); });
    strangers_.emplace(id, std::move(owned));
    ++counts.accepted;
    update(stranger);
}

ControlDoor::Kind ControlDoor::kind_of(const Stranger& stranger) {
    constexpr uint8_t kHelloLength = 0;  // the first of its two octets
    uint8_t first = 0;
    if (::recv(stranger.connection->stream.fd(), &first, 1, MSG_PEEK) != 1) {
        return Kind::Unknown;
    }
    return first == kHelloLength ? Kind::Plain : first == 'G' ? Kind::PortalCheck : Kind::Tls;
}

void ControlDoor::on_readable(LinkId id) {
    const auto found = strangers_.find(id);
    if (found == strangers_.end()) {
        return;
    }
    Stranger& stranger = *found->second;
    if (stranger.kind == Kind::Unknown && !stranger.lingering) {
        stranger.kind = kind_of(stranger);
    }
    switch (stranger.kind) {
    case Kind::Plain:
        on_plain_readable(stranger);
        break;
    case Kind::PortalCheck:
        on_portal_readable(stranger);
        break;
    case Kind::Unknown:  // has ended
    case Kind::Tls:
        on_tls_readable(stranger);
        break;
    }
}

void ControlDoor::on_writable(LinkId id) {
    if (const auto found = strangers_.find(id); found != strangers_.end()) {
        update(*found->second);
    }
}

// The stay here ends with the client's Finished, not its binder: a binder proves the key, but its
// ClientHello may be a recorded one. Data sent with it, HELLO first, waits unread in the control.
void ControlDoor::on_tls_readable(Stranger& stranger) {
    control::ServerControl& control = stranger.connection->control;
    const base::Result<bool> more = stranger.connection->stream.drain([&](base::ByteView bytes) {
        control.on_bytes(bytes, thread_.loop().now());
        return stranger.lingering || !control.is_authenticated();
    });
    if (!stranger.lingering && control.is_authenticated()) {
        let_in(stranger);
    } else if (!more || !*more) {
        remove(stranger);
    } else {
        update(stranger);
    }
}

void ControlDoor::let_in(Stranger& stranger) {
    control::ServerControl& control = stranger.connection->control;
    stranger.connection->place = shared_.user_links.take(control.identity().user);
    if (!stranger.connection->place) {
        ++shared_.counts.refused_links;
        shared_.note(EventLog::Kind::Refusal,
                     {{"user", control.identity().user},
                      {"from", stranger.connection->from.to_string()},
                      {"reason", "too many connections"}},
                     thread_.loop().now());
        control.reject(control::RejectReason::SessionLimit, "too many connections");
        linger(stranger);
        update(stranger);
        return;
    }
    stranger.poller.reset();
    std::unique_ptr<ControlConnection> connection = std::move(stranger.connection);
    forget(connection->id);
    if (!links_.adopt(std::move(connection))) {
        ++shared_.counts.refused;
    }
}

// The deadline of an unfinished handshake remains.
void ControlDoor::on_plain_readable(Stranger& stranger) {
    if (!stranger.plain) {
        stranger.plain =
            std::make_unique<dataplane::PlainStream>(std::move(stranger.connection->stream));
    }
    std::optional<LinkId> owner;
    bool was_told = false;
    const bool goes_on = stranger.plain->receive([&](base::ByteView record) {
        base::ByteReader reader(record);
        const auto hello = wire::Hello::parse(reader);
        owner = hello ? shared_.hellos.judge(*hello) : std::nullopt;
        was_told = true;
        return false;
    });
    if (goes_on && !was_told) {
        return;
    }
    if (!owner) {
        remove(stranger);
        return;
    }
    stranger.poller.reset();
    std::unique_ptr<dataplane::PlainStream> plain = std::move(stranger.plain);
    forget(stranger.connection->id);
    if (!links_.attach(*owner, std::move(plain))) {
        ++shared_.counts.refused;
    }
}

void ControlDoor::on_timer() {
    const base::TimePoint now = thread_.loop().refresh_now();
    while (const std::optional<LinkId> id = deadlines_.due(now)) {
        Stranger& stranger = *strangers_.at(*id);
        const bool is_other = stranger.kind == Kind::Plain || stranger.kind == Kind::PortalCheck;
        if (stranger.lingering || is_other) {
            remove(stranger);
            continue;
        }
        stranger.connection->control.on_timeout(now);
        update(stranger);
    }
    deadlines_.arm();
}

void ControlDoor::update(Stranger& stranger) {
    ControlConnection& connection = *stranger.connection;
    const base::Result<bool> flushed = daemon::send_pending(connection.stream, connection.control);
    if (!flushed) {
        remove(stranger);
        return;
    }
    stranger.poller->watch(true, !*flushed);
    if (connection.control.state() != control::ServerState::Closed) {
        deadlines_.set(connection.id, stranger.deadline, connection.control.next_deadline());
        return;
    }
    if (!stranger.lingering) {
        linger(stranger);
        ++shared_.counts.failed_handshakes;
        note_failure(stranger);
    }
    if (*flushed) {
        connection.stream.shutdown_write();
    }
}

// For the operator. The node gets the same answer whatever the reason.
void ControlDoor::note_failure(Stranger& stranger) {
    control::ServerControl& control = stranger.connection->control;
    bool is_key_wrong = false;
    while (const auto event = control.poll_event()) {
        const auto* closed = std::get_if<control::LinkClosed>(&*event);
        is_key_wrong = closed != nullptr && closed->cause == control::CloseCause::HandshakeFailed;
    }
    const auto& named = control.named();
    const char* reason = !named            ? "no identity of this SNAPT"
                         : !named->has_key ? "unknown user or key, or disabled"
                         : is_key_wrong    ? "wrong key"
                                           : "handshake not finished";
    shared_.note(EventLog::Kind::Stranger,
                 {{"user", named ? named->identity.user : "-"},
                  {"key_id", named ? named->identity.key_id : "-"},
                  {"from", stranger.connection->from.to_string()},
                  {"reason", reason}},
                 thread_.loop().now());
}

void ControlDoor::linger(Stranger& stranger) {
    stranger.lingering = true;
    deadlines_.set(stranger.connection->id, stranger.deadline, thread_.loop().now() + kLinger);
}

void ControlDoor::remove(Stranger& stranger) {
    if (!stranger.lingering) {
        ++shared_.counts.failed_handshakes;
    }
    forget(stranger.connection->id);
}

void ControlDoor::forget(LinkId id) {
    limiter_.end(id);
    if (const auto found = strangers_.find(id); found != strangers_.end()) {
        deadlines_.set(id, found->second->deadline, base::kNever);
        strangers_.erase(found);
    }
}

}  // namespace continuo::snapt::links
