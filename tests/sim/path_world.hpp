// PathWorld: uplinks of which each has its own faults, and the paths of one session over them, as
// far as policy::PathManager is told: what is asked is answered a round trip later or not at all,
// and the way in use carries a steady flow of data or swallows it. One TCP connection is open at a
// time. Virtual time; the manager is called at its deadlines and when something changes.
#pragma once

#include "common/base/random.hpp"
#include "common/recovery/liveness.hpp"
#include "policy/path_manager.hpp"

#include <deque>
#include <string>

namespace continuo::tests {

class PathWorld {
  public:
    static constexpr uint8_t kUplinks = 3;
    static constexpr base::Duration kStep = base::milliseconds(10);
    static constexpr std::array<uint16_t, 2> kPorts = {9347, 443};
    struct Link {
        bool is_there = false;
        bool has_carrier = true;
        bool has_route = true;
        bool is_weak = false;    // the signal; says nothing of what passes
        bool passes = true;      // false: it swallows everything
        bool passes_udp = true;  // false: UDP is blocked
        bool passes_first_port = true;
        bool swallows_data = false;   // of UDP: only questions are answered
        bool has_hole = false;        // full TCP segments do not arrive
        bool tells_hole = true;       // the kernel sees that
        bool is_throttled = false;    // UDP
        uint32_t loss_percent = 0;    // both ways together, of UDP and TCP
        bool loses_upward = false;    // else downward
        bool has_full_queue = false;  // upward
        base::Duration rtt = base::milliseconds(20);
        base::TimePoint slow_until{};  // new: neighbours and radio wake up
        uint64_t cost = 0;
    };

    explicit PathWorld(uint64_t seed) : chance_(seed) {}

    // Changes of the truth; of some of them nobody tells.
    void appear(uint8_t slot);
    void vanish(uint8_t slot);
    void readdress(uint8_t slot);
    void change(uint8_t slot, Link link);
    void forget_connections();  // a NAT did
    void set_busy(bool is_busy);
    bool is_busy() const { return is_busy_; }
    const Link& link(uint8_t slot) const { return links_.at(slot); }

    void run(base::Duration span);

    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(chance_.below(bound)); }
    bool one_in(uint32_t count) { return below(count) == 0; }
    base::TimePoint now() const { return now_; }
    const std::optional<policy::Candidate>& active() const { return manager_.active(); }
    const policy::PathManager& manager() const { return manager_; }
    bool carries(uint8_t slot, policy::Transport transport) const;
    // The preferred one of those that carry and need not rest, by what happened here; that in use
    // need not.
    std::string best() const;
    // A way that a rest left out may be used again, and may not have been asked yet.
    bool has_rest_ended_since(base::TimePoint since) const;
    static std::string name(uint8_t slot, policy::Transport transport);
    std::string in_use() const;

    // First fault; empty: none.
    std::string fault;
    base::Duration longest_stall{};    // between two moves, while something worked throughout
    base::Duration longest_trouble{};  // over several moves
    double longest_of_allowed = 0;     // as a share
    uint32_t moves = 0;
    uint32_t returns = 0;        // from a way that worked
    uint32_t most_failures = 0;  // of one candidate within a stall over several moves

  private:
    enum class Kind : uint8_t { Answer, Connected, Acknowledged };
    struct Event {
        base::TimePoint at;
        Kind kind;
        uint8_t slot;
        policy::Transport transport;
        uint32_t outages;  // of the link, when it left
        uint32_t attempt;  // to connect
        uint16_t port;     // of the SNAPT
    };
    struct Way {
        explicit Way(policy::Transport transport) : rest(policy::PathManager::rest_of(transport)) {}
        policy::PathView view;
        bool has_view = false;
        bool carried = false;
        recovery::Liveness liveness;
        // This account says what the manager should keep in mind.
        policy::Backoff rest;
        base::TimePoint dead_at{};              // the connection was, by what happened here
        base::TimePoint lost_at{};              // of UDP: much
        std::vector<base::TimePoint> failures;  // since something was delivered
        base::TimePoint works_since = base::kNever;
        base::TimePoint in_vain_since = base::kNever;  // asked and not answered
        base::Duration asked_in_vain{};                // before it worked
    };

    using Ways = std::array<Way, policy::kTransports>;
    static Ways new_ways() { return {Way(policy::Transport::Udp), Way(policy::Transport::Tcp)}; }
    Way& way(uint8_t slot, policy::Transport transport) {
        return ways_.at(slot).at(static_cast<size_t>(transport));
    }
    const Way& way(uint8_t slot, policy::Transport transport) const {
        return ways_.at(slot).at(static_cast<size_t>(transport));
    }
    static base::Duration timeout_of(const policy::PathView& view);
    static base::Duration doubt_of(const policy::PathView& view);
    bool leads(uint8_t slot) const;
    bool passes_udp(uint8_t slot, uint16_t port) const;
    bool is_good(uint8_t slot, policy::Transport transport) const;
    bool is_blocked(uint8_t slot) const;  // the connection, by what is under way in it
    void follow_truth();
    void step();
    void take(const Event& event);
    void send_data();
    void look_at_health();
    void decide_if_due();
    void decide();
    void leave(const std::optional<policy::Candidate>& former);
    void account(const std::optional<policy::Candidate>& former, bool worked);
    void watch_failures(const Way& witness, base::TimePoint since);
    void fail(const std::string& what);
    bool may_rest_from_trial(uint8_t slot, policy::Transport transport) const;
    bool has_to_rest(uint8_t slot, policy::Transport transport) const;
    void watch_rests();
    void forget(uint8_t slot);
    void ask(const policy::Candidate& candidate);
    void send_question(const policy::Candidate& candidate);
    void trace(const policy::PathPlan& plan) const;
    void plan(Kind kind, const policy::Candidate& way, base::Duration after);
    void watch();
    base::Duration allowed(uint8_t slot, policy::Transport transport, base::TimePoint since) const;
    base::Duration longest_doubt() const;

    base::SeededRandom chance_;
    policy::PathManager manager_;
    base::TimePoint now_{base::seconds(1000)};
    std::array<Link, kUplinks> links_;
    std::array<uint32_t, kUplinks> outages_{};
    std::array<base::TimePoint, kUplinks> passes_since_{};
    std::array<base::TimePoint, kUplinks> silent_since_{};
    std::array<uint32_t, kUplinks> addresses_{};
    std::array<Ways, kUplinks> ways_ = {new_ways(), new_ways(), new_ways()};
    std::deque<Event> events_;
    std::array<uint32_t, kUplinks> attempts_{};  // to connect; a new one replaces the last
    std::optional<uint8_t> connection_;          // slot
    bool is_forgotten_ = false;
    base::TimePoint stuck_until_{};  // until TCP repeats what was lost in an outage
    bool is_busy_ = true;            // packets are sent
    base::TimePoint busy_since_{};
    bool has_news_ = true;
    base::TimePoint next_at_{};
    std::vector<uint8_t> hints_;
    base::TimePoint delivered_at_{};
    base::TimePoint activated_at_{};
    uint32_t active_address_ = 0;
    base::TimePoint worse_at_{};
    base::TimePoint lost_at_{};  // by any UDP
};

}  // namespace continuo::tests
