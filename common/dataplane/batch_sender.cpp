#include "common/dataplane/batch_sender.hpp"

namespace continuo::dataplane {

using base::DropReason;
using session::Session;
using session::TransmitItem;

bool BatchSender::flush(base::TimePoint now) {
    const auto items = batch_.items();
    while (next_ < items.size()) {
        if (items[next_].path == wire::kTcpPath) {
            send_over_stream();
            continue;
        }
        io::UdpSocket* socket = sockets_.socket_for(items[next_]);
        if (socket == nullptr) {
            drop_until(next_ + 1);
            blocked_since_ = base::kNever;
            continue;
        }
        size_t end = next_ + 1;
        while (end < items.size() && end - next_ < items_.size() &&
               items[end].path != wire::kTcpPath && sockets_.socket_for(items[end]) == socket) {
            ++end;
        }
        const size_t first = next_;
        const size_t done_of_first = done_of_next_;
        if (send_run(first, end, *socket) == end) {
            blocked_since_ = base::kNever;
            continue;
        }
        if (next_ != first || done_of_next_ != done_of_first || blocked_since_ == base::kNever) {
            blocked_since_ = now;
        }
        const bool is_jammed = now - blocked_since_ >= kMaxBlocked;
        if (!is_jammed && is_worth_waiting(items[next_])) {
            sockets_.wait_writable(*socket);
            return false;
        }
        // Behind one that its session has given up may be another session's.
        drop_until(is_jammed ? end : next_ + 1);
        blocked_since_ = next_ == end ? base::kNever : blocked_since_;
    }
    batch_.clear();
    next_ = 0;
    done_of_next_ = 0;
    return true;
}

// Never waits: a session whose stream is full is not asked for more (PathSet::set_room).
void BatchSender::send_over_stream() {
    const TransmitItem& item = batch_.items()[next_];
    if (item.session == nullptr || !sockets_.send_stream(item, batch_.bytes(item))) {
        drop_until(next_ + 1);
        return;
    }
    Session::on_sent(batch_, item);
    ++next_;
}

bool BatchSender::is_worth_waiting(const TransmitItem& item) {
    if (item.session == nullptr) {
        return true;
    }
    const session::PathSet& paths = item.session->paths();
    return paths.active() == item.path && paths.path(item.path).state != session::PathState::Dead;
}

void BatchSender::drop_until(size_t end) {
    for (; next_ < end; ++next_) {
        drops_.add(DropReason::SendFailed, batch_.items()[next_].datagrams);
    }
    done_of_next_ = 0;
}

// Sends items [first, end); gives the first that is not done with.
size_t BatchSender::send_run(size_t first, size_t end, io::UdpSocket& socket) {
    const auto items = batch_.items();
    for (size_t i = first; i < end; ++i) {
        const TransmitItem& item = items[i];
        io::SendItem& out = items_[i - first];
        out = {item.to, item.from.address, batch_.bytes(item), item.segment_bytes,
               sockets_.tos_of(item)};
    }
    items_[0].bytes = items_[0].bytes.subspan(done_of_next_);
    const auto result =
        sockets_.send(socket, std::span<const io::SendItem>(items_).first(end - first));
    for (size_t i = 0; i < result.items; ++i) {
        const TransmitItem& item = items[first + i];
        if (result.dropped_items.test(i)) {
            drops_.add(DropReason::SendFailed, item.datagrams);
            if (result.too_big) {
                sockets_.on_too_big(item);
            }
            continue;
        }
        if (item.session != nullptr) {
            Session::on_sent(batch_, item);
        }
        if (recorder_ != nullptr) {
            recorder_->sent(socket, items_[i]);
        }
    }
    if (recorder_ != nullptr && result.bytes_of_next > 0) {
        io::SendItem part = items_[result.items];
        part.bytes = part.bytes.first(result.bytes_of_next);
        recorder_->sent(socket, part);
    }
    next_ = first + result.items;
    done_of_next_ = result.items == 0 ? done_of_next_ + result.bytes_of_next : result.bytes_of_next;
    return next_;
}

void BatchSender::forget(const Session& session) {
    batch_.forget(session);
}

}  // namespace continuo::dataplane
