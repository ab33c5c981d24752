// PathWorld: uplinks of which each has its own faults, and the paths of one session over them, as
// far as policy::PathManager is told: what is asked is answered a round trip later or not at all,
// and the way in use carries a steady flow of data or swallows it. One TCP connection is open at a
// time. Virtual time; the manager is called at its deadlines and when something changes.
#pragma once

#include "common/base/random.hpp"
#include "policy/path_manager.hpp"

#include <deque>
#include <string>

namespace continuo::tests {

class PathWorld {
  public:
    static constexpr uint8_t kUplinks = 3;
    static constexpr base::Duration kStep = base::milliseconds(10);
    struct Link {
        bool is_there = false;
        bool has_carrier = true;
        bool passes = true;          // false: it swallows everything
        bool passes_udp = true;      // false: UDP is blocked
        bool swallows_data = false;  // of UDP: only questions are answered
        bool has_hole = false;       // full TCP segments do not arrive
        bool tells_hole = true;      // the kernel sees that
        bool is_throttled = false;   // UDP
        uint32_t loss_percent = 0;   // both ways together, of UDP and TCP
        base::Duration rtt = base::milliseconds(20);
        base::TimePoint slow_until{};  // new: neighbours and radio wake up
        uint64_t cost = 0;
    };

    explicit PathWorld(uint64_t seed) : chance_(seed) {}

    // Changes of the truth; of some of them nobody tells.
    void appear(uint8_t slot);
    void readdress(uint8_t slot);
    void change(uint8_t slot, Link link);
    void forget_connections();  // a NAT did
    const Link& link(uint8_t slot) const { return links_.at(slot); }

    void run(base::Duration span);

    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(chance_.below(bound)); }
    bool one_in(uint32_t count) { return below(count) == 0; }
    base::TimePoint now() const { return now_; }
    const std::optional<policy::Candidate>& active() const { return manager_.active(); }
    const policy::PathManager& manager() const { return manager_; }
    bool carries(uint8_t slot, policy::Transport transport) const;
    // The preferred one of those that carry and need not rest. If there is none: that in use, if it
    // carries.
    std::string best() const;
    static std::string name(uint8_t slot, policy::Transport transport);
    std::string in_use() const;

    // First fault; empty: none.
    std::string fault;
    base::Duration longest_stall{};  // while something worked throughout
    double longest_of_allowed = 0;   // as a share
    uint32_t moves = 0;
    uint32_t returns = 0;     // from a way that worked
    uint32_t news = 0;        // changes that let a way return at once
    uint32_t most_tries = 0;  // activations within one stall, while something works

  private:
    enum class Kind : uint8_t { Answer, Connected, Acknowledged };
    struct Event {
        base::TimePoint at;
        Kind kind;
        uint8_t slot;
        policy::Transport transport;
        uint32_t outages;  // of the link, when it left
        uint32_t attempt;  // to connect
    };
    struct Way {
        policy::PathView view;
        bool has_view = false;
        base::TimePoint owed_since = base::kNever;
        base::TimePoint works_since = base::kNever;
        base::TimePoint in_vain_since = base::kNever;  // asked and not answered
        base::Duration asked_in_vain{};                // before it worked
    };

    Way& way(uint8_t slot, policy::Transport transport) {
        return ways_.at(slot).at(static_cast<size_t>(transport));
    }
    const Way& way(uint8_t slot, policy::Transport transport) const {
        return ways_.at(slot).at(static_cast<size_t>(transport));
    }
    bool leads(uint8_t slot) const;
    bool is_blocked(uint8_t slot) const;  // the connection, by what is under way in it
    void follow_truth();
    void step();
    void take(const Event& event);
    void send_data();
    void look_at_health();
    void decide();
    void ask(const policy::Candidate& candidate);
    void trace(const policy::PathPlan& plan) const;
    void plan(Kind kind, uint8_t slot, policy::Transport transport, base::Duration after);
    void watch();
    base::Duration allowed(const Way& witness, policy::Transport transport) const;
    base::Duration longest_doubt() const;

    base::SeededRandom chance_;
    policy::PathManager manager_;
    base::TimePoint now_{base::seconds(1000)};
    std::array<Link, kUplinks> links_;
    std::array<uint32_t, kUplinks> outages_{};
    std::array<base::TimePoint, kUplinks> passes_since_{};
    std::array<base::TimePoint, kUplinks> silent_since_{};
    std::array<uint32_t, kUplinks> addresses_{};
    std::array<std::array<Way, policy::kTransports>, kUplinks> ways_;
    std::deque<Event> events_;
    std::array<uint32_t, kUplinks> attempts_{};  // to connect; a new one replaces the last
    std::optional<uint8_t> connection_;          // slot
    bool is_forgotten_ = false;
    base::TimePoint stuck_until_{};  // until TCP repeats what was lost in an outage
    bool has_news_ = true;
    base::TimePoint next_at_{};
    std::vector<uint8_t> hints_;
    base::TimePoint delivered_at_{};
    base::TimePoint activated_at_{};
    base::TimePoint worse_at_{};
    uint32_t tries_ = 0;
};

}  // namespace continuo::tests
