#include "cnapt/control_link/control_connection.hpp"

#include "common/base/assert.hpp"
#include "common/daemon/link_pump.hpp"

#include <algorithm>
#include <cerrno>
#include <future>

#include <sys/socket.h>

namespace continuo::cnapt::control_link {

using dataplane::DatagramQueue;

namespace {

// Room in the queue for what a read may release: a buffer, and a TLS record begun before it.
constexpr size_t kRoomToRead = size_t{48} << 10;
static_assert(kRoomToRead == DatagramQueue::kReservedBytes + 2 * io::TcpStream::kBufferBytes);
// When the data loop could not be heard.
constexpr base::Duration kLookAgain = base::milliseconds(20);
// As recovery::Liveness doubts a path: after two time-outs. TCP's own come first, since the other
// end of the session cannot answer what stands behind a lost segment.
constexpr uint32_t kStuckTimeouts = 2;
// Half of TCP's shortest time-out in Linux (TCP_RTO_MIN).
constexpr base::Duration kLookInterval = base::milliseconds(100);

}  // namespace

base::Result<void> ControlClient::Inner::start(ControlClientOptions options) {
    if (started_) {
        return base::Error{base::Errc::InvalidState, "control client runs"};
    }
    context_.emplace(CTN_TRY(control::TlsContext::client()));
    options_ = std::move(options);
    started_ = true;
    // Earlier events, which precede this one in the queue, are discarded.
    const bool posted = loop_.post([self = shared_from_this()] {
        self->running_ = true;
        self->timer_ = std::make_unique<io::DeadlineTimer>(self->loop_,
                                                           [raw = self.get()] { raw->on_timer(); });
        self->attempt();
    });
    CTN_ASSERT(posted);
    return {};
}

void ControlClient::Inner::stop() {
    gate_.shut();
    if (!std::exchange(started_, false)) {
        return;
    }
    // Pollers and timers must be destroyed on their own thread; wait for it.
    std::promise<void> done;
    const bool posted = loop_.post([this, &done] {
        if (connection_) {
            connection_->control->close(control::CloseReason::Shutdown, {});
            static_cast<void>(
                daemon::send_pending(connection_->stream, *connection_->control).has_value());
        }
        running_ = false;
        plain_.close();
        connection_.reset();
        end_race();
        timer_.reset();
        done.set_value();
    });
    CTN_ASSERT(posted);
    done.get_future().wait();
}

std::optional<base::Endpoint> ControlClient::Inner::next_address() {
    const std::vector<base::Endpoint>& addresses = options_.addresses;
    if (addresses.empty()) {
        return std::nullopt;
    }
    for (size_t i = 0; i < addresses.size(); ++i) {
        const size_t index = (next_address_ + i) % addresses.size();
        if (options_.uplinks.of(addresses[index].address.version)) {
            next_address_ = index;
            break;
        }
    }
    return addresses[next_address_ % addresses.size()];
}

std::optional<base::Endpoint> ControlClient::Inner::allowed(const base::Endpoint& next) const {
    if (is_proven(next) || loop_.now() >= hearsay_at_) {
        return next;
    }
    const auto& addresses = options_.addresses;
    const bool has_proven =
        let_in_by_ && options_.uplinks.of(let_in_by_->address.version) &&
        std::find(addresses.begin(), addresses.end(), *let_in_by_) != addresses.end();
    return has_proven ? let_in_by_ : std::nullopt;
}

void ControlClient::Inner::attempt() {
    attempt_at_ = base::kNever;
    connection_.reset();
    end_race();
    if (options_.addresses.empty()) {
        fail_attempt({{control::CloseCause::TransportClosed, {}}, false, EDESTADDRREQ, {}, {}});
        return;
    }
    std::vector<ConnectWay> all = due_ways();
    if (all.empty()) {
        attempt_at_ = hearsay_at_;
        set_timer();
        return;
    }
    add_asked(all);
    begin_race(std::move(all));
}

void ControlClient::Inner::attempt_now() {
    if (!is_hearsay() && !is_sent_away_) {
        delay_ = kMinReconnectDelay;
    }
    attempt();
}

void ControlClient::Inner::on_readable() {
    control::ClientControl& control = *connection_->control;
    if (is_held_up()) {
        update();
        return;
    }
    const base::Result<bool> more = connection_->stream.drain([&](base::ByteView bytes) {
        control.on_bytes(bytes, now());
        return in_->room_bytes() >= kRoomToRead;
    });
    if (!more || !*more) {
        control.on_transport_closed(now());
    }
    update();
}

void ControlClient::Inner::on_timer() {
    const base::TimePoint at = loop_.refresh_now();
    if (!connection_ && attempt_at_ <= at) {
        attempt();
        return;
    }
    if (race_) {
        on_race_timer(at);
    }
    if (connection_) {
        look_at_progress();
        connection_->control->on_timeout(at);
        update();
    }
}

void ControlClient::Inner::on_woken() {
    look_at_ = std::min(look_at_, now() + kLookInterval);
    update();  // sends what is there
}

// At the connection that takes the datagrams.
void ControlClient::Inner::look_at_progress() {
    if (now() < look_at_) {
        return;
    }
    look_at_ = now() + kLookInterval;
    if (connection_->control->state() != control::ClientState::Open) {
        return;
    }
    const auto plain = plain_.progress();
    const io::TcpProgress progress = plain ? *plain : io::progress_of(connection_->stream.fd());
    const bool has_more = out_->room_bytes() < DatagramQueue::kLimitBytes;
    if (!progress.is_owed && !progress.has_gap && !has_more) {
        look_at_ = base::kNever;
    }
    const bool is_stuck = stall_.is_stuck(progress, kStuckTimeouts, now());
    if (std::exchange(is_stuck_, is_stuck) != is_stuck) {
        tell([is_stuck](ControlClientHandler& handler) { handler.on_stream_stuck(is_stuck); });
    }
}

void ControlClient::Inner::update() {
    control::ClientControl& control = *connection_->control;
    base::Duration at_least{};
    while (std::optional<control::ClientEvent> event = control.poll_event()) {
        if (const auto* established = std::get_if<control::Established>(&*event)) {
            connection_->open_since = now();
            established_at_ = now();
            is_sent_away_ = false;
            lost_races_ = 0;
            let_in_by_ = connection_->remote;
            delay_ = std::min(delay_, kMaxReconnectDelay);
            keys_ = established->keys;
            plain_.close();
            stall_ = {};
            is_stuck_ = false;
            options_.parameters.hello.continuation =
                control::Continuation{established->accept.wire_session_up, established->keys.epoch};
        } else if (const auto* rekeyed = std::get_if<control::Rekeyed>(&*event)) {
            options_.parameters.hello.continuation->epoch = rekeyed->keys.epoch;
            keys_ = rekeyed->keys;
        } else if (const auto* rejected = std::get_if<control::Rejected>(&*event)) {
            at_least = kMaxReconnectDelay;
            if (rejected->reject.reason == control::RejectReason::UserDisabled) {
                on_sent_away();
            }
        } else if (const auto* closed = std::get_if<control::LinkClosed>(&*event)) {
            at_least = std::max(at_least, on_link_closed(*closed));
        }
        on_event(*event);
    }
    tell_arrivals();
    const base::Result<bool> flushed = send_pending();
    if (!flushed && control.state() != control::ClientState::Closed) {
        // The peer's last message may still be unread.
        static_cast<void>(daemon::receive_pending(connection_->stream, control, loop_));
        if (control.state() != control::ClientState::Closed) {
            control.on_transport_closed(now());
        }
        update();
        return;
    }
    if (control.state() == control::ClientState::Closed) {
        lost(at_least);
        return;
    }
    connection_->poller->watch(!is_held_up(), !*flushed);
    set_timer();
}

// Returns how long to wait, if the SNAPT or a rival has ended the session on purpose.
base::Duration ControlClient::Inner::on_link_closed(const control::LinkClosed& closed) {
    if (closed.cause != control::CloseCause::Peer) {
        return {};
    }
    if (closed.peer.reason == control::CloseReason::Disconnected) {
        on_sent_away();
        return kMaxReconnectDelay;
    }
    if (closed.peer.reason != control::CloseReason::Replaced) {
        return {};
    }
    if (now() - established_at_ < kStableLink) {
        ++short_sessions_;
    }
    return kMinReconnectDelay;
}

void ControlClient::Inner::on_event(const control::ClientEvent& event) {
    tell([remote = connection_->remote, uplink = connection_->uplink,
          event](ControlClientHandler& handler) {
        if (const auto* established = std::get_if<control::Established>(&event)) {
            handler.on_established(remote, uplink, *established);
        } else if (const auto* rejected = std::get_if<control::Rejected>(&event)) {
            handler.on_rejected(rejected->reject);
        } else if (const auto* rekeyed = std::get_if<control::Rekeyed>(&event)) {
            handler.on_rekeyed(rekeyed->keys);
        } else if (std::holds_alternative<control::RekeyRequested>(event)) {
            handler.on_rekey_wanted();
        } else if (const auto* directory = std::get_if<control::Directory>(&event)) {
            handler.on_directory(*directory);
        } else if (std::holds_alternative<control::KeepaliveRequest>(event)) {
            handler.on_keepalive_request();
        } else if (const auto* reply = std::get_if<control::UsageReply>(&event)) {
            handler.on_usage(*reply);
        } else if (const auto* state = std::get_if<control::SessionState>(&event)) {
            handler.on_session_state(state->known);
        } else if (const auto* allowance = std::get_if<control::Allowance>(&event)) {
            handler.on_allowance(*allowance);
        } else if (const auto* closed = std::get_if<control::LinkClosed>(&event)) {
            LinkEnd end{*closed, true, 0, remote, uplink};
            if (uplink) {
                end.failed_by.push_back(*uplink);
            }
            handler.on_closed(end);
        }
    });
}

// Sends the link's own messages first, then datagrams while the socket accepts them.
base::Result<bool> ControlClient::Inner::send_pending() {
    control::ClientControl& control = *connection_->control;
    for (;;) {
        dataplane::DatagramQueue::Pulled fed;
        if (control.state() == control::ClientState::Open && is_readable()) {
            feed_plain();
        } else if (control.state() == control::ClientState::Open) {
            fed = dataplane::feed(*out_, control);
        }
        if (fed.tells_room) {
            tell_room();
        }
        const base::Result<bool> flushed = daemon::send_pending(connection_->stream, control);
        if (!flushed || !*flushed || !fed.has_more) {
            return flushed;
        }
    }
}

// Datagrams use a plain connection where the payload must stay readable.
void ControlClient::Inner::feed_plain() {
    plain_.feed([this] {
        const control::Accept& accept = connection_->control->accept();
        return PlainLink::Target{connection_->remote, options_.uplinks, options_.fwmark,
                                 dataplane::make_hello(accept.wire_session_up, ++last_plain_number_,
                                                       keys_, accept.protection.tag_bytes)};
    });
}

// TCP waits where the data loop is behind. A datagram that is dropped all the same makes a
// connection in the tunnel wait for its timer, which has grown in a silence.
void ControlClient::Inner::on_datagram(base::ByteView datagram) {
    has_arrivals_ = in_->push(datagram, 0).wants_wake || has_arrivals_;
    if (connection_ && connection_->open_since != base::kNever) {
        tell_arrivals();
    }
}

// Those that follow the ACCEPT at once are told of after Established: the node announces the path
// by what came over the former connection. Otherwise the SNAPT would take for passed what was lost
// there.
void ControlClient::Inner::tell_arrivals() {
    if (std::exchange(has_arrivals_, false) &&
        !gate_.tell([in = in_, weak = weak_from_this()](ControlClientHandler& handler) {
            handler.on_datagrams(*in);
            if (const auto self = weak.lock()) {
                self->on_arrivals_taken();
            }
        })) {
        in_->on_wake_failed();
    }
}

void ControlClient::Inner::on_arrivals_taken() {
    if (waits_for_room_.exchange(false)) {
        with_link([](control::ClientControl&) {});  // update() reads on
    }
}

bool ControlClient::Inner::is_held_up() {
    waits_for_room_ = in_->room_bytes() < kRoomToRead;
    return waits_for_room_ &&
           in_->room_bytes() < kRoomToRead;  // it may have been too late to say so
}

void ControlClient::Inner::fail_attempt(LinkEnd end) {
    if (race_) {
        for (const ConnectWay& way : race_->ways()) {
            if (way.from) {
                end.failed_by.push_back(*way.from);
            }
        }
    }
    tell([end = std::move(end)](ControlClientHandler& handler) { handler.on_closed(end); });
    lost({});
}

// Waits, then connects again; the wait grows with each loss until a link was stable. After an
// address that led to no link the next one is tried.
void ControlClient::Inner::lost(base::Duration at_least) {
    const bool was_open = connection_ && connection_->open_since != base::kNever;
    if (was_open && race_ && at_least == base::Duration{}) {  // for its place
        connection_.reset();
        plain_.close();
        static_cast<void>(out_->clear());
        race_->add(due_ways());
        set_timer();
        return;
    }
    if (!was_open) {
        ++next_address_;
    } else if (now() - connection_->open_since >= kStableLink) {
        delay_ = is_sent_away_ ? kMaxReconnectDelay : kMinReconnectDelay;
        short_sessions_ = 0;
    }
    connect_later(at_least);
}

void ControlClient::Inner::connect_later(base::Duration at_least) {
    connection_.reset();
    end_race();
    plain_.close();
    static_cast<void>(out_->clear());  // open_stream() asks for the room
    attempt_at_ = now() + std::max(delay_, at_least);
    delay_ = std::min(2 * delay_, is_hearsay() ? kMaxFirstConnectDelay : kMaxReconnectDelay);
    set_timer();
}

void ControlClient::Inner::set_timer() {
    base::TimePoint at = connection_ ? connection_->control->next_deadline() : attempt_at_;
    for (const auto& candidate : candidates_) {
        at = std::min(at, candidate->control->next_deadline());
    }
    if (connection_ && waits_for_room_) {
        at = std::min(at, now() + kLookAgain);
    }
    if (connection_) {
        at = std::min(at, look_at_);
    }
    timer_->set(at);
}

// The connection would start at the same uplink, and data still uses the same IP version.
bool ControlClient::Inner::stays_with(const ControlUplinks& uplinks) const {
    if (!connection_) {  // as a race began, or what the next attempt takes
        return uplinks == options_.uplinks;
    }
    const base::IpVersion version = connection_->remote.address.version;
    const base::IpVersion data = uplinks.preferred.value_or(version);
    const auto& before = options_.uplinks.preferred;
    const bool has_left = before && uplinks.preferred != before && data != version &&
                          uplinks.of(data) && has_address(data);
    return uplinks.of(version) == options_.uplinks.of(version) && !has_left;
}

bool ControlClient::Inner::has_address(base::IpVersion version) const {
    return std::any_of(options_.addresses.begin(), options_.addresses.end(),
                       [&](const base::Endpoint& one) { return one.address.version == version; });
}

void ControlClient::Inner::prefer_version() {
    const auto& preferred = options_.uplinks.preferred;
    if (!preferred || !options_.uplinks.of(*preferred) || !has_address(*preferred)) {
        return;
    }
    const std::vector<base::Endpoint>& addresses = options_.addresses;
    next_address_ %= addresses.size();
    while (addresses[next_address_].address.version != *preferred) {
        next_address_ = (next_address_ + 1) % addresses.size();
    }
}

void ControlClient::Inner::network_changed(ControlUplinks uplinks) {
    if (!uplinks.preferred) {  // no uplink carries data: the version has not changed
        uplinks.preferred = options_.uplinks.preferred;
    }
    const bool is_same = stays_with(uplinks);
    options_.uplinks = std::move(uplinks);
    if (!is_same) {
        prefer_version();
        attempt_now();
    } else if (!connection_) {
        if (may_hurry()) {
            attempt_now();
        }
    } else if (connection_->control->state() == control::ClientState::Open) {
        static_cast<void>(connection_->control->probe(now()).has_value());
        update();
    }
}

// A session that is lost right after it was made has a rival (another node of this name): no hurry.
void ControlClient::Inner::restart() {
    options_.parameters.hello.continuation.reset();
    if (now() - established_at_ >= kStableLink) {
        short_sessions_ = 0;
        attempt_now();
        return;
    }
    ++short_sessions_;
    if (connection_ || race_) {
        connect_later({});
    }
}

void ControlClient::Inner::try_now() {
    if (may_hurry()) {
        attempt_now();
    }
}

void ControlClient::Inner::query_session() {
    later([](Inner& self) {
        if (self.may_hurry()) {
            self.attempt_now();
        } else if (self.connection_) {
            static_cast<void>(self.connection_->control->query_session(self.now()).has_value());
            self.update();
        }
    });
}

}  // namespace continuo::cnapt::control_link
