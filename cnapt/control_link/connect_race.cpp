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
    , events_(std::move(events))
    , timer_(loop, [this] { on_timer(); }) {
    ways_.resize(std::min(ways_.size(), kMaxConnectWays));
    attempts_.reserve(ways_.size());
    timer_.set(loop_.now());
}

void ConnectRace::begin_next() {
    attempts_.emplace_back();
    begin(attempts_.size() - 1);
}

void ConnectRace::begin(size_t index) {
    const ConnectWay& way = ways_[index];
    Attempt& attempt = attempts_[index];
    attempt.poller.reset();  // before its descriptor
    attempt = {};
    attempt.began_at = loop_.now();
    base::Result<io::UniqueFd> fd = begin_connect(way.to, way.from, fwmark_);
    if (!fd) {
        attempt.sys_errno = fd.error().sys_errno;
        return;
    }
    attempt.fd = std::move(*fd);
    attempt.give_up_at = loop_.now() + timeout_;
    const auto ready = [this, index] { on_writable(index); };
    attempt.poller = std::make_unique<io::Poller>(loop_, attempt.fd.value(), ready, ready);
    attempt.poller->watch(false, true);
    next_at_ = loop_.now() + kAttemptDelay;
}

void ConnectRace::add(ConnectWay way) {
    const auto known = std::find_if(ways_.begin(), ways_.end(),
                                    [&](const ConnectWay& one) { return one.from == way.from; });
    const auto index = static_cast<size_t>(known - ways_.begin());
    if (known == ways_.end()) {
        if (ways_.size() == kMaxConnectWays) {
            return;
        }
        // Before those that have not begun.
        ways_.insert(ways_.begin() + static_cast<std::ptrdiff_t>(attempts_.size()), std::move(way));
        next_at_ = loop_.now();
        timer_.set(next_at_);
    } else if (index < attempts_.size() && !attempts_[index].is_connected &&
               loop_.now() - attempts_[index].began_at >= kRepeatDelay) {
        *known = std::move(way);
        begin(index);
        timer_.set(loop_.now());
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
