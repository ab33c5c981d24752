// PathTraffic: what came and went on one path and when, and how much may go now. Pure.
#pragma once

#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::path {

// Share of a path's room reserved for the low-delay classes, so that they do not wait behind
// others.
inline constexpr uint64_t kReservedRoomBytes = uint64_t{16} * 1024;

struct PathCounters {
    uint64_t received_datagrams = 0;
    uint64_t received_bytes = 0;       // outer IP packets
    uint64_t sent_bytes = 0;           // the same, of datagrams with packets
    uint64_t duplicate_datagrams = 0;  // arrived twice, in the direction that this end receives
    uint64_t answers = 0;              // to challenges
    base::Duration last_round_trip{};  // the latest answer's
};

class PathTraffic {
  public:
    const PathCounters& counters() const { return counters_; }
    base::TimePoint heard_at() const { return heard_at_; }
    base::TimePoint packets_sent_at() const { return packets_sent_at_; }
    uint64_t room_for(base::TrafficClass traffic_class) const {
        if (room_bytes_ == UINT64_MAX || base::is_low_delay(traffic_class)) {
            return room_bytes_;
        }
        return room_bytes_ - std::min(room_bytes_, kReservedRoomBytes);
    }

    // The path counts as heard now.
    void begin(base::TimePoint now) { heard_at_ = now; }
    void on_authenticated(base::TimePoint now) {
        heard_at_ = now;
        ++counters_.received_datagrams;
    }
    void on_received(uint64_t outer_bytes) { counters_.received_bytes += outer_bytes; }
    void on_duplicate() { ++counters_.duplicate_datagrams; }
    void on_answer(base::Duration round_trip) {
        ++counters_.answers;
        counters_.last_round_trip = round_trip;
    }
    void on_sent(uint64_t bytes) {
        if (room_bytes_ != UINT64_MAX) {
            room_bytes_ -= std::min(room_bytes_, bytes);
        }
    }
    void on_packets_sent(uint64_t outer_bytes, base::TimePoint now) {
        packets_sent_at_ = now;
        counters_.sent_bytes += outer_bytes;
    }
    void set_room(uint64_t bytes) { room_bytes_ = bytes; }

  private:
    PathCounters counters_;
    uint64_t room_bytes_ = UINT64_MAX;
    base::TimePoint heard_at_{};
    base::TimePoint packets_sent_at_{};
};

}  // namespace continuo::path
