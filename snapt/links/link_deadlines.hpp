// LinkDeadlines: one deadline for each of many links, on one timer. One thread.
#pragma once

#include "common/io/event_loop.hpp"
#include "snapt/links/control_server.hpp"

#include <functional>
#include <optional>
#include <set>
#include <utility>

namespace continuo::snapt::links {

class LinkDeadlines {
  public:
    // `on_due` calls due() until it returns none, then arm().
    LinkDeadlines(io::EventLoop& loop, std::function<void()> on_due)
        : timer_(loop, std::move(on_due)) {}

    // `current` belongs to the link's owner and is changed only here; kNever: none.
    void set(LinkId link, base::TimePoint& current, base::TimePoint at) {
        if (current != at) {
            order_.erase({current, link});
            current = at;
            if (at != base::kNever) {
                order_.emplace(at, link);
            }
        }
        if (at < timer_.deadline()) {
            timer_.set(at);
        }
    }
    // A link whose deadline has passed; set() gives it another one.
    std::optional<LinkId> due(base::TimePoint now) const {
        const bool is_due = !order_.empty() && order_.begin()->first <= now;
        return is_due ? std::optional(order_.begin()->second) : std::nullopt;
    }
    // All links are gone.
    void clear() { order_.clear(); }
    void arm() { timer_.set(order_.empty() ? base::kNever : order_.begin()->first); }

  private:
    std::set<std::pair<base::TimePoint, LinkId>> order_;
    io::DeadlineTimer timer_;
};

}  // namespace continuo::snapt::links
