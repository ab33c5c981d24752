// MtuSearch: the largest outer IP packet that one path takes in the direction this end sends,
// found as RFC 8899 has it (docs/PROTOCOL.md section 5.7). Probes are CHALLENGEs padded to the size
// they ask for; none carries packets, so a lost one costs nobody anything.
//
//   Base --probe of the size answered--> SearchComplete or, below the limit, Searching
//    |                                        ^                          |
//    | black hole: what passes now            | all sizes tried          | PMTU_RAISE_TIMER,
//    `--------> Searching or Error -----------'<-------------------------' with data only
//
// A path begins with the size of its uplink, and is asked when the first full-size datagram leaves.
// Later it is asked again now and then, and at once when it looks as if full-size datagrams vanish:
// nothing is heard, or there are suddenly few of them. A question is a probe of the size in use and
// smaller ones behind it: when the smaller are answered and the other is not, again and again, then
// it is the size and not loss. Nothing is asked while nothing large is sent.
#pragma once

#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace continuo::session {

// Error is SearchComplete below what IPv6 asks of every link (RFC 8200 section 5).
enum class MtuState : uint8_t { Base, Searching, SearchComplete, Error };
std::string_view to_string(MtuState state);

struct MtuProbe {
    uint16_t outer_bytes = 0;
    wire::ChallengeToken token{};
};

class MtuSearch {
  public:
    // Ethernet and what tunnels, PPPoE, GTP and WireGuard leave of it, then minima. All sizes here
    // are of the outer IP packet.
    static constexpr std::array<uint16_t, 15> kUsualSizes = {
        1500, 1492, 1480, 1472, 1452, 1440, 1420, 1400, 1360, 1320, 1280, 1200, 1000, 800, 576};
    static constexpr uint16_t kSmallest = 576;
    static constexpr uint16_t kLargest = 1500;
    static constexpr uint16_t kBase = 1280;
    static constexpr base::Duration kShortestWindow = base::milliseconds(300);
    static constexpr base::Duration kRaiseAfter = base::seconds(600);  // PMTU_RAISE_TIMER

    uint16_t size() const { return size_; }
    uint16_t limit() const { return limit_; }
    MtuState state() const { return state_; }
    // Whether a datagram of that size has come through; else it is what the uplink would take.
    bool is_confirmed() const { return state_ != MtuState::Base; }
    uint64_t black_holes() const { return black_holes_; }

    // Of the uplink; takes that size at once, unconfirmed.
    void begin(uint16_t limit);
    // The limit is another now; the same one changes nothing.
    void set_limit(uint16_t limit);
    // The way may be another (a new mapping): the size is kept, asked for and searched anew.
    void distrust();

    // Datagrams of `outer_bytes` each left, `total_bytes` together. For what carries packets.
    void on_sent(uint32_t outer_bytes, uint64_t total_bytes, base::TimePoint now) {
        if (outer_bytes > large_above_) {
            window_bytes_ += total_bytes;
            if (window_ends_at_ == base::kNever) {
                open_window(now);
            }
        }
    }
    void on_heard() { ++heard_; }
    // Whether the token was one of ours.
    bool on_response(const wire::ChallengeToken& token, base::TimePoint now);

    // What is to be sent now, to be called until it gives nothing. `rtt`: smoothed, and what it
    // varies by; zero: unknown.
    std::optional<MtuProbe>
    next(base::Duration rtt, base::Duration variation, base::Random& random, base::TimePoint now);
    // The path cannot be asked now: what is open is given up until large datagrams leave again.
    void give_up();
    base::TimePoint deadline() const { return std::min(window_ends_at_, step_at_); }

  private:
    struct Outstanding {
        MtuProbe probe;
        base::TimePoint sent_at{};
        bool is_open = false;
    };
    static constexpr size_t kMaxOutstanding = 24;  // the oldest gives way

    void take_size(uint16_t size);
    void open_window(base::TimePoint now);
    void close_window(base::TimePoint now);
    void ask_or_search(base::TimePoint now);
    bool looks_like_a_hole() const;
    bool may_be_curious(base::TimePoint now) const;
    void start_question(base::TimePoint now);
    std::optional<uint16_t> question_step(base::TimePoint now);
    void judge(base::TimePoint now);
    void confirm(base::TimePoint now);
    void start_search(base::TimePoint now);
    std::optional<uint16_t> search_step(base::TimePoint now);
    void narrow_search(base::TimePoint now);
    void complete();
    base::Duration patience() const;

    MtuState state_ = MtuState::Base;
    uint16_t size_ = 1500;
    uint16_t limit_ = 1500;
    uint32_t large_above_ = 1000;
    uint64_t black_holes_ = 0;
    base::TimePoint raise_at_ = base::kNever;

    // --- What is sent, by windows
    base::TimePoint window_ends_at_ = base::kNever;
    base::Duration window_ = kShortestWindow;
    uint64_t window_bytes_ = 0;
    uint64_t former_bytes_ = 0;
    uint32_t heard_ = 0;
    bool is_suspicious_ = false;   // and has not asked yet
    bool may_be_silent_ = true;    // something was heard since silence was asked about last
    bool awaits_hearing_ = false;  // the last question had no answer at all
    uint64_t credit_bytes_ = 0;
    uint64_t unasked_bytes_ = 0;  // large datagrams since the last question
    base::TimePoint asked_at_{};

    // --- The question whether the size passes, or the search for a larger one
    base::TimePoint step_at_ = base::kNever;
    bool is_asking_ = false;
    bool owes_smaller_ = false;
    uint32_t sent_probes_ = 0;  // of this question; of this size, when searching
    uint32_t smaller_answered_ = 0;
    uint16_t largest_answered_ = 0;
    uint16_t wanted_ = 0;           // the size searched for
    uint16_t too_large_ = 0;        // did not pass in this search; 0: none
    base::Duration expected_{};     // time to an answer, as the path knows it; zero: unknown
    base::Duration answer_time_{};  // of the last one

    std::array<Outstanding, kMaxOutstanding> outstanding_{};
    size_t next_outstanding_ = 0;
};

}  // namespace continuo::session
