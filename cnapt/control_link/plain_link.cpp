#include "cnapt/control_link/plain_link.hpp"

namespace continuo::cnapt::control_link {

void PlainLink::feed(const std::function<Target()>& target) {
    if (connection_) {
        flush();
        return;
    }
    const bool has_datagrams = queue_.room_bytes() < dataplane::DatagramQueue::kLimitBytes;
    if (has_datagrams && loop_.now() >= again_at_) {
        connect(target());
    } else if (has_datagrams && queue_.clear()) {
        on_room_();
    }
}

void PlainLink::connect(const Target& target) {
    base::Result<io::UniqueFd> fd = begin_connect(
        target.remote, target.uplinks.of(target.remote.address.version), target.fwmark);
    if (!fd) {
        lose();
        return;
    }
    connection_ = std::make_unique<Connection>(std::move(*fd));
    connection_->stream.set_hello(target.hello);
    connection_->poller = std::make_unique<io::Poller>(
        loop_, connection_->stream.fd(), [this] { on_readable(); },
        [this] {
            connection_->is_connected = true;  // or it failed, which sending tells
            flush();
        });
    connection_->poller->watch(true, true);
}

void PlainLink::flush() {
    if (!connection_->is_connected) {
        return;
    }
    const auto flushed = connection_->stream.flush(queue_);
    if (!flushed) {
        lose();
        return;
    }
    connection_->has_sent = true;
    connection_->poller->watch(true, !flushed->is_done);
    if (flushed->tells_room) {
        on_room_();
    }
}

void PlainLink::on_readable() {
    const bool goes_on = connection_->stream.receive([this](base::ByteView datagram) {
        on_datagram_(datagram);
        return true;
    });
    if (!goes_on) {
        lose();
    }
}

void PlainLink::lose() {
    const bool was_there = connection_ && connection_->has_sent;
    connection_.reset();
    again_at_ = loop_.now() + kAgain;
    if (queue_.clear()) {
        on_room_();
    }
    if (was_there) {
        on_lost_();
    }
}

}  // namespace continuo::cnapt::control_link
