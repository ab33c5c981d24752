#include "common/dataplane/session_driver.hpp"

#include <algorithm>
#include <utility>

namespace continuo::dataplane {

using base::TimePoint;
using tunnel::Session;

namespace {

// A deadline that has come although polling gave nothing (credit, budget) is checked again only
// after this.
constexpr base::Duration kShortestSleep = base::microseconds(200);

}  // namespace

SessionDriver::SessionDriver(io::EventLoop& loop,
                             SocketDirectory& sockets,
                             base::DropCounters& drops)
    : loop_(loop), sender_(sockets, drops), timer_(loop, [this] {
        wake_waiting();  // one path is full: others of the same session may be free
        pump(loop_.now());
    }) {}

SessionDriver::~SessionDriver() = default;

void SessionDriver::add(Session& session) {
    session.hook = {};
    session.hook.heap_place = heap_.size();
    session.hook.deadline = base::kNever;
    heap_.push_back(&session);
    touch(session);
}

void SessionDriver::remove(Session& session) {
    const size_t hole = session.hook.heap_place;
    Session* last = heap_.back();
    heap_.pop_back();
    if (last != &session) {
        place(hole, last);
        sift_up(hole);
        sift_down(last->hook.heap_place);
    }
    std::erase(touched_, &session);
    std::erase(polling_, &session);
    std::erase(again_, &session);
    std::erase(waiting_, &session);
    sender_.forget(session);
}

void SessionDriver::touch(Session& session) {
    if (!session.hook.is_touched) {
        session.hook.is_touched = true;
        touched_.push_back(&session);
    }
}

void SessionDriver::pump(TimePoint now) {
    if (clock_) {
        pump_until_ = clock_() + kPumpTime;
    }
    run_due(now);
    if (sender_.is_holding() && sender_.retry(now)) {
        wake_waiting();
    }
    poll_touched(now);
    sender_.flush(now);
    const TimePoint earliest = heap_.empty() ? base::kNever : heap_.front()->hook.deadline;
    // Sending may touch a session: a size was refused.
    const bool has_work = sender_.is_holding() || !touched_.empty();
    timer_.set(has_more_  ? now
               : has_work ? std::min(earliest, now + kRetryWhileBlocked)
                          : earliest);
}

void SessionDriver::run_due(TimePoint now) {
    while (!heap_.empty() && heap_.front()->hook.deadline <= now) {
        Session& due = *heap_.front();
        due.on_timeout(now);
        touch(due);
        // Polling sets it again.
        set_deadline(due, std::max(due.next_deadline(now), now + kRetryWhileBlocked));
    }
}

// Sessions left over when time is up are placed after those touched later: polling starts at the
// back.
void SessionDriver::poll_touched(TimePoint now) {
    polling_.swap(touched_);
    const bool is_alone = polling_.size() == 1 && sender_.batch().empty();
    sender_.batch().set_limit(!clock_ ? SIZE_MAX : is_alone ? kSoleTurnBytes : kSendTurnBytes);
    has_more_ = false;
    while (!polling_.empty() && !has_more_) {
        Session& session = *polling_.back();
        const bool has_more = poll(session, now);
        polling_.pop_back();
        if (has_more) {
            again_.push_back(&session);
            has_more_ = is_pumping_for_long();
        } else {
            session.hook.is_touched = false;
            set_deadline(session, std::max(session.next_deadline(now), now + kShortestSleep));
        }
        if (polling_.empty()) {
            polling_.assign(again_.rbegin(), again_.rend());
            again_.clear();
        }
    }
    touched_.insert(touched_.end(), again_.rbegin(), again_.rend());
    touched_.insert(touched_.end(), polling_.begin(), polling_.end());
    again_.clear();
    polling_.clear();
}

// Returns true if there may be more.
bool SessionDriver::poll(Session& session, TimePoint now) {
    set_rooms(session);
    const bool has_more = session.poll_transmit(sender_.batch(), now);
    if (has_more) {
        sender_.flush(now);
    }
    return has_more;
}

// wait_writable or the timer returns to those that must wait.
void SessionDriver::set_rooms(Session& session) {
    if (sender_.is_holding() && sender_.set_rooms(session) &&
        !std::exchange(session.hook.is_waiting, true)) {
        waiting_.push_back(&session);
    }
}

// The session that filled the socket comes last, the others in the order of their wait: polling
// starts at the back.
void SessionDriver::wake_waiting() {
    if (waiting_.empty()) {
        return;
    }
    std::reverse(waiting_.begin() + 1, waiting_.end());
    for (Session* session : waiting_) {
        session->hook.is_waiting = false;
        sender_.set_rooms(*session);
        touch(*session);
    }
    waiting_.clear();
}

void SessionDriver::set_deadline(Session& session, TimePoint at) {
    session.hook.deadline = at;
    const size_t before = session.hook.heap_place;
    sift_up(before);
    if (session.hook.heap_place == before) {
        sift_down(before);
    }
}

void SessionDriver::place(size_t at, Session* session) {
    heap_[at] = session;
    session->hook.heap_place = at;
}

void SessionDriver::sift_up(size_t at) {
    Session* moved = heap_[at];
    while (at > 0) {
        const size_t parent = (at - 1) / 2;
        if (heap_[parent]->hook.deadline <= moved->hook.deadline) {
            break;
        }
        place(at, heap_[parent]);
        at = parent;
    }
    place(at, moved);
}

void SessionDriver::sift_down(size_t at) {
    Session* moved = heap_[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap_.size()) {
            break;
        }
        if (child + 1 < heap_.size() &&
            heap_[child + 1]->hook.deadline < heap_[child]->hook.deadline) {
            ++child;
        }
        if (moved->hook.deadline <= heap_[child]->hook.deadline) {
            break;
        }
        place(at, heap_[child]);
        at = child;
    }
    place(at, moved);
}

}  // namespace continuo::dataplane
