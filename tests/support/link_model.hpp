// LinkModel: one direction of a link in virtual time: rate, delay, jitter (which reorders), loss,
// duplication, queue limit. Pure; datagrams go in with the time and come out when they are due.
#pragma once

#include "common/base/random.hpp"
#include "common/base/time.hpp"

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace continuo::tests {

struct LinkSettings {
    base::Duration delay = base::milliseconds(10);
    base::Duration jitter{};  // up to so much more, each datagram by itself
    uint32_t loss_permille = 0;
    uint32_t reorder_permille = 0;  // so many are held back by reorder_delay
    base::Duration reorder_delay = base::milliseconds(30);
    uint32_t duplicate_permille = 0;
    uint32_t corrupt_permille = 0;  // one bit is flipped
    uint64_t bits_per_s = 0;        // 0: unlimited
    size_t queue_datagrams = 1000;
};

class LinkModel {
  public:
    LinkModel(const LinkSettings& settings, base::Random& random)
        : settings_(settings), random_(random) {}

    void send(std::vector<uint8_t> datagram, base::TimePoint now) {
        if (chance(settings_.loss_permille) || flights_.size() >= settings_.queue_datagrams) {
            ++lost_;
            return;
        }
        if (chance(settings_.duplicate_permille)) {
            launch(datagram, now);
        }
        if (chance(settings_.corrupt_permille) && !datagram.empty()) {
            datagram[random_.below(datagram.size())] ^=
                static_cast<uint8_t>(1U << random_.below(8));
        }
        launch(std::move(datagram), now);
    }
    base::TimePoint next_due() const {
        return flights_.empty() ? base::kNever : flights_.top().due;
    }
    // The next datagram that is due at `now`; empty when there is none.
    std::vector<uint8_t> receive(base::TimePoint now) {
        if (next_due() > now) {
            return {};
        }
        std::vector<uint8_t> datagram = flights_.top().datagram;
        flights_.pop();
        return datagram;
    }
    LinkSettings& settings() { return settings_; }
    uint64_t lost() const { return lost_; }

  private:
    struct Flight {
        base::TimePoint due;
        uint64_t order = 0;
        std::vector<uint8_t> datagram;
        bool operator<(const Flight& other) const {
            return due != other.due ? due > other.due : order > other.order;
        }
    };
    bool chance(uint32_t permille) { return permille != 0 && random_.below(1000) < permille; }
    void launch(std::vector<uint8_t> datagram, base::TimePoint now) {
        base::TimePoint start = now;
        if (settings_.bits_per_s != 0) {
            start = std::max(now, free_at_);
            const auto ns =
                static_cast<int64_t>(datagram.size() * 8 * 1'000'000'000ULL / settings_.bits_per_s);
            free_at_ = start + base::Duration(ns);
            start = free_at_;
        }
        base::TimePoint due = start + settings_.delay;
        if (settings_.jitter > base::Duration{}) {
            due += base::Duration(static_cast<int64_t>(
                random_.below(static_cast<uint64_t>(settings_.jitter.count()))));
        }
        if (chance(settings_.reorder_permille)) {
            due += settings_.reorder_delay;
        }
        flights_.push({due, order_++, std::move(datagram)});
    }

    LinkSettings settings_;
    base::Random& random_;
    std::priority_queue<Flight> flights_;
    base::TimePoint free_at_{};
    uint64_t order_ = 0;
    uint64_t lost_ = 0;
};

}  // namespace continuo::tests
