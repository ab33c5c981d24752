// ControlClient::Inner: the race of connections for the link.
#include "cnapt/control_link/control_connection.hpp"
#include "common/daemon/link_pump.hpp"

namespace continuo::cnapt::control_link {

std::vector<ConnectWay> ControlClient::Inner::ways(const base::Endpoint& first) const {
    const ControlUplinks& uplinks = options_.uplinks;
    std::vector<ConnectWay> ways = {{first, uplinks.of(first.address.version)}};
    if (!uplinks.is_race || options_.is_hearsay) {  // hearsay must not aim many attempts at a host
        return ways;
    }
    const auto add_others = [&](const base::Endpoint& to) {
        for (const ControlUplink& other : uplinks.others) {
            if (other.source.version == to.address.version) {
                ways.push_back({to, other});
            }
        }
    };
    add_others(first);
    const std::vector<base::Endpoint>& addresses = options_.addresses;
    for (size_t i = 1; i < addresses.size(); ++i) {
        const base::Endpoint& to = addresses[(next_address_ + i) % addresses.size()];
        if (const auto& from = uplinks.of(to.address.version)) {
            ways.push_back({to, from});
            add_others(to);
        }
    }
    return ways;
}

void ControlClient::Inner::begin_race(std::vector<ConnectWay> ways) {
    race_ = std::make_unique<ConnectRace>(
        loop_, std::move(ways), options_.fwmark, kConnectTimeout,
        ConnectRace::Events{[this](io::UniqueFd fd, size_t number, const ConnectWay& way) {
                                on_connected(std::move(fd), number, way);
                            },
                            [this](int sys_errno) { on_race_lost(sys_errno); }});
}

void ControlClient::Inner::connect_by(const ControlUplink& uplink) {
    const auto& addresses = options_.addresses;
    const auto is_of_version = [&](const base::Endpoint& one) {
        return one.address.version == uplink.source.version;
    };
    if (short_sessions_ > 0 || is_sent_away_ || is_hearsay() ||
        std::none_of(addresses.begin(), addresses.end(), is_of_version)) {
        return;
    }
    base::Endpoint to = *std::find_if(addresses.begin(), addresses.end(), is_of_version);
    if (let_in_by_ && is_of_version(*let_in_by_) &&
        std::find(addresses.begin(), addresses.end(), *let_in_by_) != addresses.end()) {
        to = *let_in_by_;
    }
    std::erase_if(asked_, [&](const ConnectWay& one) { return one.from == uplink; });
    asked_.push_back({to, uplink});
    if (race_) {
        race_->add({to, uplink});
        return;
    }
    attempt_at_ = base::kNever;
    begin_race({{to, uplink}});
}

void ControlClient::Inner::on_connected(io::UniqueFd fd, size_t number, const ConnectWay& way) {
    auto connection = std::make_unique<Connection>(std::move(fd));
    Connection& candidate = *connection;
    candidate.remote = way.to;
    candidate.uplink = way.from;
    candidate.way = number;
    control::DatagramSink* sink = this;
    candidate.control = std::make_unique<control::ClientControl>(*context_, random_, sink);
    if (!candidate.control->start(options_.parameters, now())) {
        race_->fail(number);
        return;
    }
    candidate.poller = std::make_unique<io::Poller>(
        loop_, candidate.stream.fd(), [this, &candidate] { on_input(candidate, true); },
        [this, &candidate] { on_input(candidate, false); });
    candidates_.push_back(std::move(connection));
    go_on(candidate);
}

void ControlClient::Inner::on_input(Connection& of, bool is_readable) {
    if (connection_.get() == &of) {
        if (is_readable) {
            on_readable();
        } else {
            update();
        }
        return;
    }
    if (is_readable && !daemon::receive_pending(of.stream, *of.control, loop_)) {
        of.control->on_transport_closed(now());
    }
    go_on(of);
}

void ControlClient::Inner::go_on(Connection& candidate) {
    control::ClientControl& control = *candidate.control;
    base::Result<bool> flushed = true;
    if (control.state() == control::ClientState::Handshake) {
        flushed = daemon::send_pending(candidate.stream, control);
    }
    if (!flushed) {
        // The last message of the other end may still be there.
        static_cast<void>(daemon::receive_pending(candidate.stream, control, loop_));
        control.on_transport_closed(now());
    }
    if (control.state() == control::ClientState::Closed) {
        drop(candidate);
    } else if (control.state() != control::ClientState::Handshake) {
        take(candidate);
    } else {
        candidate.poller->watch(true, !*flushed);
        set_timer();
    }
}

// The SNAPT has proven itself: the others are not needed.
void ControlClient::Inner::take(Connection& candidate) {
    const auto place = std::find_if(candidates_.begin(), candidates_.end(),
                                    [&](const auto& one) { return one.get() == &candidate; });
    std::unique_ptr<Connection> winner = std::move(*place);
    candidates_.erase(place);
    end_race();
    asked_.clear();
    connection_ = std::move(winner);
    // network_changed() compares with it.
    options_.uplinks.of(connection_->remote.address.version) = connection_->uplink;
    update();
}

void ControlClient::Inner::drop(Connection& candidate) {
    LinkEnd end{
        {control::CloseCause::TransportClosed, {}}, true, 0, candidate.remote, candidate.uplink};
    while (const std::optional<control::ClientEvent> event = candidate.control->poll_event()) {
        if (const auto* closed = std::get_if<control::LinkClosed>(&*event)) {
            static_cast<control::LinkClosed&>(end) = *closed;
        }
    }
    // A refusal by a SNAPT says more than an end that is no SNAPT.
    if (!way_end_ || end.cause == control::CloseCause::LoginRefused) {
        way_end_ = end;
    }
    const size_t number = candidate.way;
    std::erase_if(candidates_, [&](const auto& one) { return one.get() == &candidate; });
    set_timer();
    tell([end = std::move(end)](ControlClientHandler& handler) { handler.on_way_failed(end); });
    race_->fail(number);
}

// All ways have failed.
void ControlClient::Inner::on_race_lost(int sys_errno) {
    if (connection_) {
        end_race();  // for its place
        return;
    }
    if (!way_end_) {
        fail_attempt(sys_errno, race_->first().to);
        return;
    }
    fail_attempt(*way_end_);
}

void ControlClient::Inner::on_race_timer(base::TimePoint at) {
    const auto due = [at](const auto& one) { return one->control->next_deadline() <= at; };
    const auto late = std::find_if(candidates_.begin(), candidates_.end(), due);
    if (late == candidates_.end()) {
        set_timer();
        return;
    }
    Connection& candidate = **late;
    candidate.control->on_timeout(at);
    go_on(candidate);  // sets the timer for the next one
}

void ControlClient::Inner::end_race() {
    race_.reset();
    candidates_.clear();
    way_end_.reset();
}

}  // namespace continuo::cnapt::control_link
