// PathManager: which way the data of one session takes to its SNAPT. Pure: uplink facts, path views
// and `now` come in; what to activate and to ask, and the next deadline, go out. It keeps backoffs,
// what is under way, and the losses of the last seconds; further calls do no harm (docs/PATHS.md).
//
// UDP is preferred to TCP, and then the cheaper route. A working way is left only for a preferred
// one that has just answered, and throttled UDP for what carries more. When the way in use does not
// work, all others are asked one after the other, as in the race of RFC 8305, and the first answer
// wins.
#pragma once

#include "policy/backoff.hpp"
#include "policy/loss_window.hpp"
#include "policy/path_views.hpp"
#include "policy/tcp_trial.hpp"

#include <array>

namespace continuo::policy {

class PathManager {
  public:
    static constexpr size_t kMostUplinks = 16;  // slots
    // RFC 8305 section 8: Connection Attempt Delay.
    static constexpr base::Duration kHeadStart = base::milliseconds(250);
    // An answer this recent needs no question.
    static constexpr base::Duration kProofLifetime = base::seconds(2);
    // Rests of what failed in use, and intervals of questions without an answer.
    static constexpr base::Duration kFirstRest = base::seconds(1);
    static constexpr base::Duration kLongestRest = base::seconds(60);
    // Between two connection attempts by an uplink while packets wait.
    static constexpr base::Duration kLongestConnect = base::seconds(10);
    // Rests of UDP where TCP carries more, and of TCP where it does not; the first is kLongestRest.
    static constexpr base::Duration kLongestTrialRest = base::seconds(600);

    // To be called after every change of what it is told, and at the deadline.
    PathPlan decide(const PathSituation& situation, base::TimePoint now);

    const std::optional<Candidate>& active() const { return active_; }
    // TCP is in use to see whether it carries more than UDP, which loses much.
    bool tries_tcp() const { return trial_.is_on(); }
    // Neither used nor asked until then while there is another; in the past: may be used.
    base::TimePoint rests_until(uint8_t uplink, Transport transport) const;

  private:
    // Why the way in use may have to be left.
    enum class Trouble : uint8_t { None, Lost, Unproven, Silent, Hole, Throttled };
    struct Memory {
        base::TimePoint asked_at{};
        bool asked_open = false;      // the last question went over an open connection
        bool is_hinted = false;       // a question follows
        base::TimePoint hinted_at{};  // the last one
        Backoff asking{kFirstRest, kLongestRest};
        Backoff rest{kFirstRest, kLongestRest};
        Backoff trial{kLongestRest, kLongestTrialRest};
        base::TimePoint rests_until() const { return std::max(rest.until(), trial.until()); }
    };
    struct UplinkMemory {
        bool is_there = false;
        base::IpAddress local;
        base::IpAddress remote;
        base::TimePoint remote_since{};  // zero: as long as `local`
        uint32_t network = 0;
        size_t port = 0;  // index of the UDP port that is asked
        std::array<Memory, kTransports> transports;
    };
    // A candidate, for the duration of a call.
    struct Option {
        const UplinkFacts* uplink = nullptr;
        const PathView* view = nullptr;  // null: there is no path
        Memory* memory = nullptr;
        base::TimePoint remote_since{};
        Transport transport = Transport::Udp;
        size_t turn = 0;  // in the race

        bool works() const;
        bool has_answered_since(base::TimePoint since) const;
        bool is_unanswered() const;  // when asked last
        // The connection that was asked is dead: the next question makes another.
        bool has_lost_connection() const;
    };
    struct Look {
        const PathSituation& situation;
        base::TimePoint now;
        std::vector<Option> options;  // the preferred one first
        const Option* active = nullptr;
        PathPlan plan;
    };

    void follow(std::span<const UplinkFacts> uplinks, base::TimePoint now);
    std::vector<Option> options_of(const PathSituation& situation);
    bool is_active(const Option& option) const;
    void note_answers(Look& look);
    void judge(Look& look);
    void look_at_loss(const Look& look);
    void look_at_trial(Look& look);
    void end_trial(Look& look);
    void rest_from_trials(uint32_t network, Transport transport, base::TimePoint now);
    bool is_throttled(const Look& look) const;
    Trouble trouble_of(const Look& look) const;
    bool races(const Look& look) const;
    const Option* choose(Look& look);
    const Option* better_one(const Look& look) const;
    const Option* seat(const Look& look) const;
    const Option* relief(Look& look);
    bool is_connecting(Look& look);
    bool is_in_grace(Look& look);
    void activate(Look& look, const Option& next);
    void use(Look& look, const Option& next, const Candidate& as, bool is_known);
    void follow_address(Look& look);
    void rest(const Look& look, const Option& failed, const Option& next);
    void note_need(const Look& look);
    void take_hints(Look& look);
    void ask(Look& look);
    static bool asks_itself(const Look& look, const Option& option);
    base::TimePoint due_at(const Look& look, const Option& option) const;
    void probe(Look& look, const Option& option);
    Candidate candidate_of(const Look& look, const Option& option) const;
    static bool rests(const Option& option, base::TimePoint now);
    bool is_left_out(const Look& look, const Option& option) const;

    std::optional<Candidate> active_;
    base::TimePoint activated_at_{};
    base::TimePoint head_start_until_{};
    base::TimePoint next_probe_at_{};
    bool was_busy_ = false;
    bool was_racing_ = false;
    Trouble trouble_ = Trouble::None;
    base::TimePoint trouble_since_ = base::kNever;
    base::TimePoint worked_since_{};               // while there is no trouble
    base::TimePoint tcp_ready_at_ = base::kNever;  // has answered in this trouble
    base::TimePoint resting_ready_at_ =
        base::kNever;  // of those that rest one has answered in this trouble
    LossWindow loss_;
    TcpTrial trial_;
    std::array<UplinkMemory, kMostUplinks> memory_;
};

}  // namespace continuo::policy
