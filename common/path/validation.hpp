// Validation: whether the other end is at an address (RFC 9000 section 8.2), and what may be sent
// there before it has answered (section 8.1). A challenge is repeated until it is answered, given
// up, or left to announcements, which carry it too. Pure.
#pragma once

#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/path/probe_interval.hpp"
#include "common/wire/frame.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace continuo::path {

class Validation {
  public:
    // A datagram with nothing but CHALLENGE or RESPONSE is no longer.
    static constexpr uint32_t kShortProbeBytes = 64;
    // Part of the limit that data leaves to repetitions of the challenge.
    static constexpr uint64_t kChallengeRoomBytes = uint64_t{4} * kShortProbeBytes;

    // More than this is the time that the link was away, not a round trip.
    static constexpr base::Duration kMostUsefulRtt = base::seconds(1);

    // --- Limit, in bytes of UDP payload
    // The address is known otherwise: configured, or by TCP.
    void trust() { is_proven_ = true; }
    bool is_proven() const { return is_proven_; }
    // Something authenticated came from there. A challenge that was withheld goes on.
    void on_received(uint64_t bytes, base::TimePoint now);
    void on_sent(uint64_t bytes) { sent_bytes_ += is_proven_ ? 0 : bytes; }
    bool may_send(uint64_t bytes) const {
        return is_proven_ || sent_bytes_ + bytes <= allowed_bytes();
    }
    // For data; UINT64_MAX once it has answered.
    uint64_t room_for_data() const;
    uint64_t received_bytes() const { return received_bytes_; }
    uint64_t sent_bytes() const { return sent_bytes_; }

    // --- Challenge
    void start(base::Random& random, base::TimePoint now);
    void stop();
    // Announcements repeat it.
    void leave_to_announcements() { again_at_ = base::kNever; }
    // It is sent once more, and then by another call only.
    void ask_once(base::TimePoint now);
    // The limit has no room for it; it leaves when more was received.
    void withhold() { is_withheld_ = true; }
    bool is_withheld() const { return is_withheld_; }
    bool is_asked() const { return asked_since_ != base::kNever; }
    base::TimePoint asked_since() const { return asked_since_; }
    base::TimePoint deadline() const { return again_at_; }
    // At deadline(): false when it is given up now.
    bool repeat(base::TimePoint now);
    // The frame that leaves now. Each sending has a token of its own.
    wire::Challenge stamp(base::TimePoint now);
    bool was_sent() const { return was_sent_; }
    uint32_t repetitions() const { return repetitions_; }

    struct Answer {
        base::Duration round_trip{};
        bool is_exact = false;  // else it is that long at most
    };
    // Nothing when it answers no challenge of late. It proves the address and ends the question.
    std::optional<Answer> on_response(const wire::ChallengeToken& token, base::TimePoint now);

    bool operator==(const Validation&) const = default;

  private:
    uint64_t allowed_bytes() const { return received_bytes_ * wire::kAmplificationFactor; }
    // Which sending was answered; nothing: none.
    std::optional<uint32_t> sending_of(const wire::ChallengeToken& token) const;

    bool is_proven_ = false;
    bool was_sent_ = false;
    bool is_withheld_ = false;
    uint64_t received_bytes_ = 0;  // before it was proven
    uint64_t sent_bytes_ = 0;      // the same
    wire::ChallengeToken token_{};
    base::TimePoint asked_since_ = base::kNever;
    base::TimePoint again_at_ = base::kNever;
    base::Duration interval_{};
    base::TimePoint stamped_at_{};  // the newest sending
    uint32_t repetitions_ = 0;
};

}  // namespace continuo::path
