#include "cnapt/control_link/connect_race.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace continuo::cnapt::control_link {

using base::TimePoint;

ConnectRace::ConnectRace(io::EventLoop& loop,
                         std::vector<ConnectWay> ways,
                         uint32_t fwmark,
                         base::Duration timeout,
                         Events events)
    : loop_(loop)
    , ways_(std::move(ways))
    , fwmark_(fwmark)
    , timeout_(timeout)
    , began_at_(loop.now())
    , events_(std::move(events))
    , timer_(loop, [this] { on_timer(); }) {
    ways_.resize(std::min(ways_.size(), kMaxConnectWays));
    attempts_.reserve(ways_.size());
    timer_.set(loop_.now());
}

void ConnectRace::begin_next() {
    attempts_.emplace_back();
    begin(attempts_.size() - 1);
    if (attempts_.back().is_open()) {
        next_at_ = loop_.now() + kAttemptDelay;
    }
}

void ConnectRace::begin(size_t index) {
    const ConnectWay& way = ways_[index];
    Attempt& attempt = attempts_[index];
    // Otherwise one that is asked for again and again would never be given up.
    const TimePoint give_up_at = attempt.is_open() ? attempt.give_up_at : loop_.now() + timeout_;
    attempt.poller.reset();  // before its descriptor
    attempt = {};
    attempt.began_at = loop_.now();
    base::Result<io::UniqueFd> fd = begin_connect(way.to, way.from, fwmark_);
    if (!fd) {
        attempt.sys_errno = fd.error().sys_errno;
        return;
    }
    attempt.fd = std::move(*fd);
    attempt.give_up_at = give_up_at;
    const auto ready = [this, index] { on_writable(index); };
    attempt.poller = std::make_unique<io::Poller>(loop_, attempt.fd.value(), ready, ready);
    attempt.poller->watch(false, true);
}

void ConnectRace::add(const std::vector<ConnectWay>& more) {
    for (const ConnectWay& way : more) {
        const auto known = std::find(ways_.begin(), ways_.end(), way);
        const auto index = static_cast<size_t>(known - ways_.begin());
        if (index < attempts_.size()) {
            begin_anew(index);
        } else if (&way == &more.front()) {
            if (known != ways_.end()) {
                ways_.erase(known);
            }
            add_first(way);
        } else if (known == ways_.end() && ways_.size() < kMaxConnectWays) {
            ways_.push_back(way);
        }
    }
    timer_.set(loop_.now());
}

void ConnectRace::add_first(const ConnectWay& way) {
    if (ways_.size() == kMaxConnectWays && attempts_.size() == kMaxConnectWays) {
        const auto failed = std::find_if(attempts_.begin(), attempts_.end(),
                                         [](const Attempt& one) { return !one.is_open(); });
        if (failed != attempts_.end()) {
            const auto index = static_cast<size_t>(failed - attempts_.begin());
            ways_[index] = way;
            begin(index);
        }
        return;
    }
    if (ways_.size() == kMaxConnectWays) {
        ways_.pop_back();
    }
    ways_.insert(ways_.begin() + static_cast<std::ptrdiff_t>(attempts_.size()), way);
    next_at_ = loop_.now();
}

void ConnectRace::begin_anew(size_t index) {
    const Attempt& attempt = attempts_[index];
    if (!attempt.is_connected && loop_.now() - attempt.began_at >= kRepeatDelay) {
        begin(index);
    }
}

void ConnectRace::on_writable(size_t index) {
    Attempt& attempt = attempts_[index];
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(attempt.fd.value(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
    }
    if (error != 0) {
        fail(attempt, error);
        go_on();
        return;
    }
    attempt.poller.reset();
    attempt.give_up_at = base::kNever;
    attempt.is_connected = true;
    if (index + 1 == attempts_.size()) {
        next_at_ = loop_.now() + kAttemptDelay;
    }
    io::UniqueFd fd = std::move(attempt.fd);
    const auto connected = events_.on_connected;
    const ConnectWay way = ways_[index];
    go_on();
    connected(std::move(fd), index, way);  // may destroy this
}

void ConnectRace::fail(size_t number) {
    fail(attempts_[number], 0);
    go_on();
}

void ConnectRace::fail(Attempt& attempt, int sys_errno) {
    attempt.poller.reset();
    attempt.fd = {};
    attempt.give_up_at = base::kNever;
    attempt.is_connected = false;
    attempt.sys_errno = sys_errno;
}

void ConnectRace::on_timer() {
    const TimePoint now = loop_.refresh_now();
    for (Attempt& attempt : attempts_) {
        if (attempt.give_up_at <= now) {
            fail(attempt, ETIMEDOUT);
        }
    }
    go_on();
}

void ConnectRace::go_on() {
    const auto is_open = [](const Attempt& attempt) { return attempt.is_open(); };
    const TimePoint now = loop_.now();
    while (attempts_.size() < ways_.size() &&
           (now >= next_at_ || std::none_of(attempts_.begin(), attempts_.end(), is_open))) {
        begin_next();
    }
    if (std::none_of(attempts_.begin(), attempts_.end(), is_open)) {
        const auto failed = std::move(events_.on_failed);
        failed(attempts_.empty() ? EDESTADDRREQ : attempts_.front().sys_errno);
        return;  // this may be destroyed
    }
    TimePoint at = attempts_.size() < ways_.size() ? next_at_ : base::kNever;
    for (const Attempt& attempt : attempts_) {
        at = std::min(at, attempt.give_up_at);
    }
    timer_.set(at);
}

}  // namespace continuo::cnapt::control_link
