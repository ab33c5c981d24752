// Path: one way between the ends of a session, as this end knows it: whether it works, by which
// addresses, and what it delivers (docs/PROTOCOL.md section 5). Put together of the parts in
// common/path. Pure: what it has to send comes out of the *_probe() calls, deadline() says when to
// call on_time().
//
//   Unknown --first datagram or begin()--> Challenged --RESPONSE--> Usable --silence--> Doubtful
//                                           |  ^ ^                     ^--- any datagram ---'| ^
//                                           |  | `-any datagram, if it has not answered yet--'| |
//                                           |  RESPONSE or begin()                more silence| |
//                                           |  |            Dead <----end()-------------------' |
//                                           |  `-------------'                                  |
//                                           `---------------------silence-----------------------'
//
// Silence is counted from the first datagram that should have had an answer. At SNAPT it changes no
// state; it asks for a sign of life over control.
#pragma once

#include "common/base/random.hpp"
#include "common/path/delivery.hpp"
#include "common/session/path_types.hpp"
#include "common/wire/ack_ranges.hpp"

#include <memory>
#include <optional>

namespace continuo::session {

class Path {
  public:
    using Tuples = std::array<Tuple, base::kTrafficClasses>;

    // `random` must outlive it.
    Path(uint8_t index, Role role, base::Random& random)
        : index_(index), role_(role), random_(&random) {}
    Path(const Path&) = delete;
    Path& operator=(const Path&) = delete;
    ~Path() = default;

    // --- State
    PathState state() const { return state_; }
    bool is_failing() const { return path::is_failing(state_); }
    bool is_live() const { return state_ != PathState::Unknown && state_ != PathState::Dead; }
    bool is_active() const { return is_active_; }
    bool has_answered() const { return has_answered_; }  // since it began or was last dead
    bool is_suspect() const { return is_suspect_; }
    bool was_left_silent() const { return was_left_silent_; }
    base::TimePoint heard_at() const { return heard_at_; }
    base::TimePoint packets_sent_at() const { return packets_sent_at_; }
    const Tuples& tuples() const { return tuples_; }
    const Tuple& tuple(base::TrafficClass traffic_class) const {
        return tuples_[base::index_of(traffic_class)];
    }
    // The tuple of LtLd, which is asked and announced.
    const Tuple& first_tuple() const { return tuples_.front(); }
    const path::Silence& silence() const { return silence_; }
    const path::Announcements& announcements() const { return announcements_; }
    // It is announced, again and again until that is answered.
    bool is_announcing() const { return announcements_.are_repeated(); }
    // A CHALLENGE or an announcement waits for its RESPONSE.
    bool is_asked() const { return first_tuple().validation.is_asked(); }
    const path::KeepaliveSearch& keepalive() const { return keepalive_; }
    path::KeepaliveSearch& keepalive() { return keepalive_; }
    const path::SignOfLife& sign_of_life() const { return sign_of_life_; }
    const path::CopyWish& copies() const { return copies_; }
    path::Patience patience() const { return path::Patience::of(rtt_, is_suspect_); }
    // Nothing has answered for as long as makes a path doubtful.
    bool is_late(base::TimePoint now) const;
    // Nothing has answered for long: datagrams may be lost.
    bool is_overdue(base::TimePoint now) const;

    // --- What it is like
    uint16_t mtu() const { return search_.size(); }  // of the outer IP packet that this end sends
    const path::MtuSearch& search() const { return search_; }
    const path::RttEstimator& rtt() const { return rtt_; }
    // Zero: no sample.
    base::Duration smoothed_rtt() const {
        return rtt_.has_sample() ? rtt_.smoothed() : base::Duration{};
    }
    base::Duration rtt_variation() const {
        return rtt_.has_sample() ? rtt_.variation() : base::Duration{};
    }
    // The longest that it can be, by an answer that tells no sample; zero: none.
    base::Duration rtt_at_most() const { return rtt_at_most_; }
    const PathCounters& counters() const { return counters_; }
    const DeliveryTotals& totals() const { return totals_; }
    // In the direction that this end sends, as acknowledgements tell.
    const Delivered& delivered() const { return delivered_; }
    // Null: it has carried no packets for a while.
    const path::Delivery* delivery() const { return delivery_.get(); }
    uint64_t room_for(base::TrafficClass traffic_class) const;

    // --- Questions
    // Whether it works, unless that is being asked or it is dead.
    void probe(base::TimePoint now);
    // The same, whatever it is used for; an active one is announced.
    void ask(base::TimePoint now);
    // Node: tells SNAPT that it is the active one, and asks.
    void announce(base::TimePoint now);
    // Usable, and so it stays: one announcement, repeated until it is answered.
    void announce_usable(base::TimePoint now);
    // Node: a dead one, at `at` and more often again.
    void ask_again(base::TimePoint at);
    // Node: it carries nothing until an answer to retry() comes.
    void give_up();
    void retry(const base::Endpoint& remote, base::TimePoint now);
    // Node: it is dead from now on, and asked at growing intervals.
    void bury(base::TimePoint now);
    // Node: it goes to another port of the SNAPT.
    void redirect(const base::Endpoint& remote, base::TimePoint now);
    // Node: what is unanswered is asked anew.
    void forgive() { silence_.end(); }
    // SNAPT misses a sign of life. False: the path works or is being asked already.
    bool on_request(base::TimePoint idle_since, base::TimePoint now);
    void on_pause(base::TimePoint now);
    void suspect(bool is_suspect) { is_suspect_ = is_suspect; }

    // --- What came
    void on_received(uint64_t outer_bytes) { counters_.received_bytes += outer_bytes; }
    void on_duplicate() { ++counters_.duplicate_datagrams; }
    // TCP proves an address by itself.
    void trust(base::TrafficClass traffic_class) {
        tuples_[base::index_of(traffic_class)].validation.trust();
    }

    // --- What left
    void
    on_sent(base::TrafficClass tuple_class, uint64_t bytes, bool wants_answer, base::TimePoint now);
    void on_data_sent(uint32_t outer_bytes, uint64_t total_bytes, base::TimePoint now);
    void on_numbered(const path::SentRun& run, base::TimePoint now);
    void on_app_limited();
    // Datagrams that left before `now` give no sample of delay, round trip or rate.
    void distrust_samples(base::TimePoint now);
    void withhold_challenge(base::TrafficClass traffic_class) {
        tuples_[base::index_of(traffic_class)].validation.withhold();
    }
    void set_room(uint64_t bytes) { room_bytes_ = bytes; }

    // --- Acknowledgements; false: nothing that was sent is known of
    bool on_ack_range(uint32_t epoch, const wire::Ack& ack, const wire::AckRange& range);
    void on_ack_count(uint32_t epoch, const wire::Ack& ack);
    void on_acks_read(bool came_back, base::Duration peer_interval, base::TimePoint now);
    // A higher number than before was acknowledged, on this path or another. True: it ends a doubt.
    bool on_feedback(bool came_back, uint64_t outstanding, base::TimePoint now);
    // Forgets what was told too long ago.
    void on_housekeeping(base::TimePoint now);

    // --- MTU
    void set_limit(uint16_t mtu) { search_.set_limit(mtu); }

  private:
    friend class PathSet;  // which alone knows the others, and keeps is_active_ true of one
    // The outcome of on_time().
    enum class Step : uint8_t {
        None,
        Asked,  // it was silent for long enough to be asked
        Told,   // it is doubtful or dead now, or SNAPT misses a sign of life
    };

    // --- Beginning and end
    // Node: the path leads there, and was not asked yet.
    void begin(const base::Endpoint& remote, uint16_t mtu, base::TimePoint now);
    // Nothing is known of it any more.
    void end();
    // It carries what does not go by others.
    void set_active(bool is_active) { is_active_ = is_active; }

    // --- SNAPT
    // The node announces it. `is_new`: as the active one, not said before.
    void on_announced(uint16_t mtu, bool is_new);
    // The node leaves it for another one.
    void leave(base::TimePoint now) {
        was_left_silent_ = is_overdue(now);
        silence_.end_all();  // nobody may be there to answer
    }
    // The node comes to it.
    void enter(base::TimePoint now) {
        silence_.end_all();
        heard_at_ = now;
    }
    void want_copies(base::TimePoint now) { copies_.repeat(wire::kCopiesLifetime, now); }
    void end_copies() { copies_.end(); }

    // --- What comes
    // An authenticated datagram. True when it ends a doubt (node).
    bool on_authenticated(base::TrafficClass traffic_class, base::TimePoint now);
    // SNAPT: it came from there. False: late, and so it says nothing of where the node is.
    bool on_source(base::TrafficClass traffic_class,
                   const base::Endpoint& from,
                   const base::Endpoint& local,
                   uint64_t bytes,
                   bool is_highest,
                   base::TimePoint now);
    struct Answer {
        bool is_of_path = false;     // to the challenge of LtLd, which asks for the whole path
        bool was_announced = false;  // by announcements
        bool is_news = false;        // the path became usable with it
    };
    Answer on_response(base::TrafficClass traffic_class,
                       const wire::ChallengeToken& token,
                       base::TimePoint now);

    // --- What it has to send, and when
    Step on_time(base::TimePoint now);
    base::TimePoint deadline() const;
    std::optional<Probe> announce_probe(uint16_t number, base::TimePoint now);
    std::optional<Probe> challenge_probe(base::TimePoint now);
    std::optional<Probe> ping_probe();
    // Sets `has_narrowed` when a black hole was found.
    std::optional<Probe> mtu_probe(bool& has_narrowed, base::TimePoint now);

    Path& operator=(Path&&) = default;  // what is measured refers to the object
    bool is_tcp() const { return index_ == wire::kTcpPath; }
    Tuple& first() { return tuples_.front(); }
    void challenge(Tuple& tuple, base::TimePoint now);
    void challenge_or_announce(base::TimePoint now);
    void forget_other_tuples();
    void move_tuple(base::TrafficClass traffic_class,
                    const base::Endpoint& from,
                    const base::Endpoint& local,
                    base::TimePoint now);
    void note_answered(const path::Validation::Answer& answer, base::TimePoint now);
    bool confirm(uint64_t outstanding, base::TimePoint now);

    // path_doubt.cpp
    base::TimePoint silence_deadline() const;
    base::TimePoint proof_deadline() const;
    Step on_silence(base::TimePoint now);
    Step on_proof_missing(base::TimePoint now);
    void ask_for_proof(base::TimePoint now);

    // Probe time-outs count. A dead path is asked by announcements, and TCP repeats by itself.
    bool is_probed() const { return delivery_ != nullptr && !is_tcp() && is_live(); }
    void count_totals();
    void forget_delivery();
    void forget_round_trips();

    uint8_t index_;
    Role role_;
    base::Random* random_;
    PathState state_ = PathState::Unknown;
    bool is_active_ = false;
    bool has_answered_ = false;
    bool was_asked_again_ = false;  // node: after its first answer
    bool is_suspect_ = false;       // node: something below says that it may soon carry nothing
    // SNAPT: it was silent when the node announced another one, and has not been heard since.
    bool was_left_silent_ = false;
    bool is_ping_due_ = false;
    Tuples tuples_;
    path::MtuSearch search_;
    path::RttEstimator rtt_;
    base::Duration rtt_at_most_{};
    base::TimePoint heard_at_{};
    base::TimePoint packets_sent_at_{};
    path::Silence silence_;
    path::Announcements announcements_;  // node
    path::KeepaliveSearch keepalive_;    // node
    path::SignOfLife sign_of_life_;      // SNAPT
    path::CopyWish copies_;              // SNAPT: the node wants low-delay classes there, too
    uint64_t room_bytes_ = UINT64_MAX;
    PathCounters counters_;
    Delivered delivered_;
    DeliveryTotals totals_;
    DeliveryTotals totals_before_;  // when the path was measured anew
    std::unique_ptr<path::Delivery> delivery_;
};

}  // namespace continuo::session
