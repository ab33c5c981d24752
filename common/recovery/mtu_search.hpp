// MtuSearch: the largest outer IP packet that a path takes in the direction this end sends, by RFC
// 8899 (docs/PROTOCOL.md section 5.7). Probes are CHALLENGEs padded to the size they ask for; they
// carry no packets, so losing one costs nothing.
//
//   Base --probe of the size answered--> SearchComplete or, below the limit, Searching
//    |                                        ^                          |
//    | black hole: what passes now            | all sizes tried          | PMTU_RAISE_TIMER,
//    `--------> Searching or Error -----------'<-------------------------' with data only
//
// A path starts with the size of its uplink and asks when the first large datagram leaves. It asks
// again when a large datagram was lost and none of that size that left later has arrived (RFC 8899
// section 4.3): random loss and a full queue affect both. A question is a probe of the size in use,
// then smaller ones. If the smaller ones are answered repeatedly and the large one is not, the size
// is too large. No probes are sent while nothing large is sent.
#pragma once

#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace continuo::recovery {

// Error: like SearchComplete, but below the minimum that IPv6 asks of every link (RFC 8200 section
// 5).
enum class MtuState : uint8_t { Base, Searching, SearchComplete, Error };
std::string_view to_string(MtuState state);

struct MtuProbe {
    uint16_t outer_bytes = 0;
    wire::ChallengeToken token{};
};

class MtuSearch {
  public:
    // Ethernet, what PPPoE, GTP and WireGuard leave of it, then minima. All sizes here are of the
    // outer IP packet.
    static constexpr std::array<uint16_t, 15> kUsualSizes = {
        1500, 1492, 1480, 1472, 1452, 1440, 1420, 1400, 1360, 1320, 1280, 1200, 1000, 800, 576};
    static constexpr uint16_t kSmallest = 576;
    static constexpr uint16_t kLargest = 1500;
    static constexpr uint16_t kBase = 1280;
    static constexpr base::Duration kRaiseAfter = base::seconds(600);  // PMTU_RAISE_TIMER

    uint16_t size() const { return size_; }
    uint16_t limit() const { return limit_; }
    MtuState state() const { return state_; }
    // A datagram of that size has come through; otherwise the size is the uplink's, untested.
    bool is_confirmed() const { return state_ != MtuState::Base; }
    uint64_t black_holes() const { return black_holes_; }

    // `limit`: the uplink's size. It is used at once, unconfirmed.
    void begin(uint16_t limit);
    // Changes the limit; does nothing if it is the same.
    void set_limit(uint16_t limit);
    // The route may have changed (a new mapping): keeps the size, but tests and searches again.
    void distrust();

    // A datagram with packets left. `outer_bytes`: of its outer IP packet.
    void on_sent(uint32_t outer_bytes, base::TimePoint now) {
        const bool may_search = state_ == MtuState::Base ? !awaits_arrival_ : raise_at_ <= now;
        if (outer_bytes > large_above_ && may_search && !is_asking_ && !is_suspicious_) {
            ask_at_ = std::min(ask_at_, now);
        }
    }
    // A datagram of that size, sent at `sent_at`, arrived.
    void on_acknowledged(uint32_t outer_bytes, base::TimePoint sent_at) {
        awaits_arrival_ = false;
        if (outer_bytes > large_above_) {
            on_large_acknowledged(outer_bytes, sent_at);
        }
    }
    // A datagram of that size, sent at `sent_at`, was lost.
    void on_lost(uint32_t outer_bytes, base::TimePoint sent_at, base::TimePoint now);
    // True if the token was one of this search's.
    bool on_response(const wire::ChallengeToken& token, base::TimePoint now);

    // The probe to send now; call until it gives none. `rtt` is the smoothed round trip; it and
    // `variation` are zero while unknown.
    std::optional<MtuProbe>
    next(base::Duration rtt, base::Duration variation, base::Random& random, base::TimePoint now);
    // The path cannot be probed now: drops the open question until large datagrams leave again.
    void give_up();
    base::TimePoint deadline() const { return std::min(ask_at_, step_at_); }

  private:
    struct Outstanding {
        MtuProbe probe;
        base::TimePoint sent_at{};
        bool is_open = false;
    };
    static constexpr size_t kMaxOutstanding = 24;  // the oldest gives way

    void take_size(uint16_t size);
    void on_large_acknowledged(uint32_t outer_bytes, base::TimePoint sent_at);
    bool has_passed(uint32_t outer_bytes, base::TimePoint from) const;
    void ask_or_search(base::TimePoint now);
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

    // --- What arrived
    // The newest `sent_at` of datagrams that arrived, by the largest usual size not above theirs.
    std::array<base::TimePoint, kUsualSizes.size()> passed_{};
    bool is_suspicious_ = false;  // a loss is noted, and no question was asked yet
    uint32_t suspect_bytes_ = 0;  // size of the lost datagram
    base::TimePoint suspect_sent_at_{};
    bool awaits_arrival_ = false;  // the last question got no answer at all
    base::TimePoint ask_at_ = base::kNever;
    base::TimePoint asked_at_{};

    // --- The question whether the size in use passes, or the search for a larger one
    base::TimePoint step_at_ = base::kNever;
    bool is_asking_ = false;
    bool has_passed_ = false;  // a datagram of the size in use arrived since the question began
    bool owes_smaller_ = false;
    uint32_t sent_probes_ = 0;  // in this question, or of this size in a search
    uint32_t smaller_answered_ = 0;
    uint16_t largest_answered_ = 0;
    uint16_t wanted_ = 0;           // the size searched for
    uint16_t too_large_ = 0;        // failed in this search; 0: none
    base::Duration expected_{};     // expected time to an answer; zero: unknown
    base::Duration answer_time_{};  // time to the last answer

    std::array<Outstanding, kMaxOutstanding> outstanding_{};
    size_t next_outstanding_ = 0;
};

}  // namespace continuo::recovery
