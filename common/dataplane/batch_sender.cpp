#include "common/dataplane/batch_sender.hpp"

namespace continuo::dataplane {

using base::DropReason;
using session::TransmitItem;
using tunnel::Session;

void BatchSender::flush(base::TimePoint now) {
    const auto items = queue_.batch.items();
    while (queue_.next < items.size()) {
        if (items[queue_.next].path == wire::kTcpPath) {
            send_over_stream();
            continue;
        }
        io::UdpSocket* socket = sockets_.socket_for(items[queue_.next]);
        if (socket == nullptr) {
            drop_until(queue_, queue_.next + 1);
            continue;
        }
        const size_t end = end_of_run(queue_, socket);
        if (Backlog* backlog = backlog_of(socket)) {
            hold_until(end, backlog);
        } else if (send_run(queue_, end, *socket) != end) {
            Backlog* fresh = new_backlog(*socket);
            hold_until(end, fresh);
            if (fresh != nullptr) {
                serve(*fresh, now);
            }
        }
    }
    queue_.batch.clear();
    queue_.next = 0;
}

bool BatchSender::retry(base::TimePoint now) {
    bool is_any_gone = false;
    for (const auto& backlog : backlogs_) {
        if (backlog != nullptr && backlog->socket != nullptr) {
            is_any_gone = serve(*backlog, now) || is_any_gone;
        }
    }
    return is_any_gone;
}

// Returns true when nothing is left in the backlog.
bool BatchSender::serve(Backlog& backlog, base::TimePoint now) {
    Queue& queue = backlog.queue;
    const auto items = queue.batch.items();
    while (queue.next < items.size()) {
        io::UdpSocket* socket = sockets_.socket_for(items[queue.next]);
        if (socket != backlog.socket) {
            drop_until(queue, queue.next + 1);  // the uplink has gone
            backlog.blocked_since = base::kNever;
            continue;
        }
        const size_t end = end_of_run(queue, socket);
        const size_t first = queue.next;
        const size_t done_of_first = queue.done_of_next;
        if (send_run(queue, end, *socket) == end) {
            backlog.blocked_since = base::kNever;
            continue;
        }
        if (queue.next != first || queue.done_of_next != done_of_first ||
            backlog.blocked_since == base::kNever) {
            backlog.blocked_since = now;
        }
        const bool is_jammed = now - backlog.blocked_since >= kMaxBlocked;
        if (!is_jammed && is_worth_waiting(items[queue.next])) {
            sockets_.wait_writable(*socket);
            return false;
        }
        // Behind an item given up by its session, items of other sessions may follow.
        drop_until(queue, is_jammed ? end : queue.next + 1);
        backlog.blocked_since = queue.next == end ? base::kNever : backlog.blocked_since;
    }
    queue.batch.clear();
    queue.next = 0;
    backlog.blocked_since = base::kNever;
    backlog.socket = nullptr;
    --backlogs_used_;
    return true;
}

BatchSender::Backlog* BatchSender::backlog_of(const io::UdpSocket* socket) {
    if (!is_holding()) {
        return nullptr;
    }
    for (const auto& backlog : backlogs_) {
        if (backlog != nullptr && backlog->socket == socket) {
            return backlog.get();
        }
    }
    return nullptr;
}

// Null: too many sockets are full.
BatchSender::Backlog* BatchSender::new_backlog(io::UdpSocket& socket) {
    for (auto& backlog : backlogs_) {
        if (backlog == nullptr) {
            backlog = std::make_unique<Backlog>();
        }
        if (backlog->socket == nullptr) {
            backlog->socket = &socket;
            ++backlogs_used_;
            return backlog.get();
        }
    }
    return nullptr;
}

// Without room there the datagrams are dropped.
void BatchSender::hold_until(size_t end, Backlog* backlog) {
    for (; queue_.next < end; ++queue_.next) {
        const TransmitItem& item = queue_.batch.items()[queue_.next];
        if (backlog == nullptr || !backlog->queue.batch.fits(item)) {
            drops_.add(DropReason::SendFailed, item.datagrams);
        } else {
            // For the first item of a new backlog it is not zero.
            backlog->queue.done_of_next += queue_.done_of_next;
            backlog->queue.batch.take(queue_.batch, item);
        }
        queue_.done_of_next = 0;
    }
}

bool BatchSender::set_rooms(Session& session) {
    routing::PathSet& paths = session.paths();
    bool is_any_full = false;
    for (uint8_t index = 0; index < wire::kTcpPath; ++index) {
        uint64_t room = UINT64_MAX;
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            const path::Tuple& tuple = paths.path(index).validation().tuple(traffic_class);
            TransmitItem item;
            item.session = &session;
            item.path = index;
            item.traffic_class = traffic_class;
            item.to = tuple.remote();
            item.from = tuple.local();
            const io::UdpSocket* socket =
                is_holding() && tuple.is_known() ? sockets_.socket_for(item) : nullptr;
            if (socket != nullptr && backlog_of(socket) != nullptr) {
                room = base::is_low_delay(traffic_class)
                           ? 0
                           : std::min<uint64_t>(room, path::kReservedRoomBytes);
            }
        }
        paths.path(index).set_room(room);
        is_any_full = is_any_full || room != UINT64_MAX;
    }
    return is_any_full;
}

size_t BatchSender::end_of_run(const Queue& queue, const io::UdpSocket* socket) {
    const auto items = queue.batch.items();
    size_t end = queue.next + 1;
    while (end < items.size() && end - queue.next < items_.size() &&
           items[end].path != wire::kTcpPath && sockets_.socket_for(items[end]) == socket) {
        ++end;
    }
    return end;
}

// Never waits: a session with a full stream is not polled for more (Path::set_room).
void BatchSender::send_over_stream() {
    const TransmitItem& item = queue_.batch.items()[queue_.next];
    if (item.session == nullptr || !sockets_.send_stream(item, queue_.batch.bytes(item))) {
        drop_until(queue_, queue_.next + 1);
        return;
    }
    Session::on_sent(queue_.batch, item);
    ++queue_.next;
}

bool BatchSender::is_worth_waiting(const TransmitItem& item) {
    if (item.session == nullptr) {
        return true;
    }
    const routing::PathSet& paths = item.session->paths();
    const path::PathState state = paths.path(item.path).state();
    return state == path::PathState::Usable ||
           (paths.active() == item.path && state != path::PathState::Dead);
}

void BatchSender::drop_until(Queue& queue, size_t end) {
    for (; queue.next < end; ++queue.next) {
        drops_.add(DropReason::SendFailed, queue.batch.items()[queue.next].datagrams);
    }
    queue.done_of_next = 0;
}

// Sends items up to `end`; returns the first unfinished one.
size_t BatchSender::send_run(Queue& queue, size_t end, io::UdpSocket& socket) {
    const size_t first = queue.next;
    const auto items = queue.batch.items();
    for (size_t i = first; i < end; ++i) {
        const TransmitItem& item = items[i];
        io::SendItem& out = items_[i - first];
        out = {item.to, item.from.address, queue.batch.bytes(item), item.segment_bytes,
               sockets_.tos_of(item)};
    }
    items_[0].bytes = items_[0].bytes.subspan(queue.done_of_next);
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
            Session::on_sent(queue.batch, item);
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
    queue.next = first + result.items;
    queue.done_of_next =
        result.items == 0 ? queue.done_of_next + result.bytes_of_next : result.bytes_of_next;
    return queue.next;
}

void BatchSender::forget(const Session& session) {
    queue_.batch.forget(session);
    for (const auto& backlog : backlogs_) {
        if (backlog != nullptr) {
            backlog->queue.batch.forget(session);
        }
    }
}

void BatchSender::forget(const flow::Flow& flow) {
    queue_.batch.forget(flow);
    for (const auto& backlog : backlogs_) {
        if (backlog != nullptr) {
            backlog->queue.batch.forget(flow);
        }
    }
}

}  // namespace continuo::dataplane
