// InputTurns: datagrams from the sockets to their sessions, and packets made of them on to the TUN
// device. The sockets are emptied before anything is opened; then each sender has its turn
// (turns::Turns). Datagrams beyond its turns, and packets made of them, wait in its own lane or are
// dropped there.
#pragma once

#include "common/flow/flow_table.hpp"
#include "common/turns/sole_user.hpp"
#include "snapt/relay/listeners.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace continuo::snapt::relay {

// After a pause of the loop, datagrams are read for as long as it lasted, if there are so many: a
// backlog must not stay in the kernel, where all share one queue. At least for kRound.
inline constexpr base::Duration kTakeInTime = base::milliseconds(2);
// Longest handling of datagrams before timers and the other direction get their turn.
inline constexpr base::Duration kRound = base::microseconds(500);
// The same for a single node sending by UDP: it only delays itself, and each switch between the
// directions costs both their cache contents.
inline constexpr base::Duration kSoleRound = base::microseconds(1500);
// Where several nodes send, rounds are shorter: each may have to wait for one.
inline constexpr base::Duration kSharedRound = base::microseconds(250);
// Most bytes read at a time from a sole sender, while they are opened as fast as they arrive: so
// they are opened in the processor's own cache. One read may add as much again.
inline constexpr size_t kTakenFromSoleUser = size_t{256} * 1024;
// A turn may take this much longer before packets that it delays wait for the next one.
inline constexpr base::Duration kTurnOverrun = base::microseconds(200);

// A turn that took longer by the clock costs the processor time of the thread if that is less: a
// preempted turn owes nothing for the preemption. A turn of a sole sender costs this at most.
inline constexpr base::Duration kLongTurn = base::milliseconds(5);

class InputTurns {
  public:
    // All must outlive it.
    InputTurns(io::EventLoop& loop,
               const RelaySettings& settings,
               dataplane::PacketEngine& engine,
               turns::InputQueues& inputs,
               const SessionTable& sessions,
               Listeners& listeners,
               const flow::FlowTable& flows,
               base::DropCounters& drops);
    InputTurns(const InputTurns&) = delete;
    InputTurns& operator=(const InputTurns&) = delete;
    ~InputTurns() { inputs_.clear(strangers_.queue); }

    void on_readable(Listener& listener);
    // Datagrams from the node's control link, whose other end is `from`.
    void on_stream(NodeSession& node, dataplane::DatagramQueue& queue, const base::Endpoint& from);
    // Whether the frame must wait for its session's next turn, or is dropped.
    bool holds_back(base::ByteView frame, const packet::FrameInfo& info);
    // The session ends: its waiting datagrams belong to nobody.
    void forget(NodeSession& node);

    bool is_idle() const { return turns_.is_empty(); }
    uint64_t dropped_of_strangers() const { return strangers_.queue.dropped(); }

  private:
    void go_on();
    size_t take_in(Listener& listener, base::Duration most);
    base::Duration take_in_time() const {
        return std::clamp(settings_.clock() - round_over_at_, kRound, kTakeInTime);
    }
    Lane& lane_of(const io::ReceivedBatch& batch);
    void note_stranger(const io::ReceivedBatch& batch);
    void begin_round();
    void begin_turns();
    base::Duration round_time();
    void end_round(base::TimePoint now);
    base::Duration worked_between(base::TimePoint start, base::TimePoint end) const;
    void serve(base::TimePoint now);
    void serve_turn(Lane& lane, base::TimePoint start, base::TimePoint now);
    void serve_stream(Lane& lane, base::TimePoint now);
    bool goes_home(const turns::Input& input);
    bool is_another_waiting(const NodeSession& node) const;
    size_t handle_some(turns::Input& input, const Lane& lane, size_t most, base::TimePoint now);
    void hand_over(NodeSession& node,
                   std::span<session::ReceivedDatagram> datagrams,
                   const Lane& lane,
                   base::TimePoint now);
    bool is_turn_over() const { return settings_.clock() >= turn_end_; }
    void write_held(Lane& lane);
    void flush_frames();

    io::EventLoop& loop_;
    const RelaySettings& settings_;
    dataplane::PacketEngine& engine_;
    turns::InputQueues& inputs_;
    const SessionTable& sessions_;
    Listeners& listeners_;
    const flow::FlowTable& flows_;
    base::DropCounters& drops_;
    io::DeadlineTimer timer_;
    turns::Turns turns_;
    Lane strangers_{nullptr, turns::kStrangersQueueBytes, nullptr};
    std::optional<uint16_t> named_;  // by the newest of those datagrams
    size_t named_in_row_ = 0;        // this many in a row
    dataplane::PauseDetector input_pause_;
    turns::SoleUser senders_;
    base::TimePoint round_end_{};
    base::TimePoint round_over_at_ = settings_.clock();  // end of the latest one
    base::TimePoint turn_end_{};
    base::TimePoint frames_wait_from_{};  // in a turn; epoch: outside
    Lane* writing_ = nullptr;             // whose packets the coalescer may hold
    base::TimePoint worked_at_{};         // processor time used, shortly before this round
    base::Duration worked_{};
    bool is_work_known_ = false;  // in this round
    bool is_flushing_ = false;
};

}  // namespace continuo::snapt::relay
