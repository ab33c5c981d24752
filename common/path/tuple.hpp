// Tuple: address and port of the other end as one class of a path sees it: a NAT may map each
// socket differently. Bounds what leaves to an address that has not answered (docs/PROTOCOL.md
// section 5.4). Pure.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/path/open_challenge.hpp"

#include <algorithm>
#include <utility>

namespace continuo::path {

// Age at which a NAT mapping may have expired (RFC 4787 REQ-5 requires two minutes; many boxes take
// 30 s).
inline constexpr base::Duration kMappingLifetime = base::seconds(25);
// Largest size of a datagram with nothing but CHALLENGE or RESPONSE.
inline constexpr uint32_t kShortProbeBytes = 64;
// Part of an unproven tuple's limit kept free for repetitions of the challenge.
inline constexpr uint64_t kChallengeRoomBytes = uint64_t{4} * kShortProbeBytes;

class Tuple {
  public:
    // Not known yet.
    Tuple() = default;
    // Node: configured, so there is no amplification limit towards the SNAPT.
    static Tuple of_snapt(const base::Endpoint& remote, base::TimePoint now) {
        Tuple tuple(remote, {});
        tuple.is_proven_ = true;
        tuple.heard_at_ = now;
        return tuple;
    }
    // SNAPT: the node is there now. `was_proven`: it was proven elsewhere.
    static Tuple
    of_node(const base::Endpoint& remote, const base::Endpoint& local, bool was_proven) {
        Tuple tuple(remote, local);
        tuple.is_remapped_ = was_proven;
        return tuple;
    }

    const base::Endpoint& remote() const { return remote_; }
    // Own address and port that the peer uses; unspecified on the node.
    const base::Endpoint& local() const { return local_; }
    bool is_known() const { return is_known_; }
    // Answered a challenge, or configured.
    bool is_proven() const { return is_proven_; }
    // SNAPT: replaced a proven tuple, and has not answered yet.
    bool is_remapped() const { return is_remapped_; }
    base::TimePoint heard_at() const { return heard_at_; }
    bool is_heard_from(const base::Endpoint& remote, const base::Endpoint& local) const {
        return is_known_ && remote_ == remote && local_ == local;
    }
    OpenChallenge& challenge() { return challenge_; }
    const OpenChallenge& challenge() const { return challenge_; }

    // Another address or port of the SNAPT.
    void redirect(const base::Endpoint& remote) { remote_ = remote; }
    void on_heard(base::TimePoint now) { heard_at_ = now; }
    void on_received_unproven(uint64_t bytes) { unproven_received_bytes_ += bytes; }
    void on_sent(uint64_t bytes) { unproven_sent_bytes_ += is_proven_ ? 0 : bytes; }
    // Proven by other means.
    void trust() { is_proven_ = true; }
    // It has answered. True if it had replaced a proven one.
    bool prove() {
        is_proven_ = true;
        challenge_.stop();
        return std::exchange(is_remapped_, false);
    }
    // Datagrams lost with the proven one are already being repeated.
    void forget_remapping() { is_remapped_ = false; }
    // A RESPONSE leaves. True if one left shortly before.
    bool note_response(base::TimePoint now) {
        const base::TimePoint former = std::exchange(answered_at_, now);
        return former != base::kNever && now - former <= kLongestProbeInterval;
    }

    // Bytes of packets that may be sent.
    uint64_t budget_bytes() const {
        const uint64_t taken = unproven_sent_bytes_ + kChallengeRoomBytes;
        return is_proven_ ? UINT64_MAX : limit_bytes() - std::min(limit_bytes(), taken);
    }
    // Whether a datagram without packets may be sent.
    bool may_take(uint64_t bytes) const {
        return is_proven_ || unproven_sent_bytes_ + bytes <= limit_bytes();
    }
    uint64_t unproven_received_bytes() const { return unproven_received_bytes_; }
    uint64_t unproven_sent_bytes() const { return unproven_sent_bytes_; }

  private:
    Tuple(const base::Endpoint& remote, const base::Endpoint& local)
        : remote_(remote), local_(local), is_known_(true) {}
    uint64_t limit_bytes() const { return unproven_received_bytes_ * wire::kAmplificationFactor; }

    base::Endpoint remote_;
    base::Endpoint local_;
    bool is_known_ = false;
    bool is_proven_ = false;
    bool is_remapped_ = false;
    base::TimePoint heard_at_{};
    base::TimePoint answered_at_ = base::kNever;  // when the latest RESPONSE left
    uint64_t unproven_received_bytes_ = 0;
    uint64_t unproven_sent_bytes_ = 0;
    OpenChallenge challenge_;
};

}  // namespace continuo::path
