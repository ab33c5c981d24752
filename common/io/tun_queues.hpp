// TunQueues: the queues of a TUN interface, read in turns. The kernel puts a packet into the queue
// of its destination address, so that a flood for one address neither takes the room of another's
// packets nor delays them for longer than some turns.
#pragma once

#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace continuo::io {

class TunQueues {
  public:
    // Frames of one queue until the next one has its turn.
    static constexpr size_t kFramesInTurn = 8;
    // Queues of one round; the others come in the next.
    static constexpr size_t kQueuesInRound = 16;

    // One at least. Errors: System.
    static base::Result<TunQueues> open(std::vector<UniqueFd> queues);

    // Readable while one of the queues is.
    int poll_fd() const { return ready_.is_open() ? ready_.value() : first_fd(); }
    int first_fd() const { return queues_.front().value(); }
    size_t count() const { return queues_.size(); }

    // The queue to be read now; none: all were empty. One of the three follows.
    std::optional<int> next();
    void on_frame();
    void on_empty();
    void on_error();  // no frame will come from it: the interface is gone

  private:
    explicit TunQueues(std::vector<UniqueFd> queues) : queues_(std::move(queues)) {}
    bool begin_round();
    void end_turn();

    std::vector<UniqueFd> queues_;
    UniqueFd ready_;  // epoll(7) of several queues
    // Those that have something, in the order of their turns.
    std::array<int, kQueuesInRound> round_{};
    size_t round_size_ = 0;
    size_t turn_ = 0;
    size_t frames_left_ = kFramesInTurn;
    bool has_more_ = false;  // not all were in the round, or one was not read to its end
};

// Loads the program that chooses the queue by the last bits of the destination, and gives it to the
// interface of `queue`. Needs CAP_BPF. Errors: System.
base::Result<void> steer_by_destination(int queue);

}  // namespace continuo::io
