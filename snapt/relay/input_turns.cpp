#include "snapt/relay/input_turns.hpp"

#include <thread>

namespace continuo::snapt::relay {

using base::DropReason;
using base::Duration;
using base::TimePoint;
using turns::Input;
using turns::Turn;

namespace {

// Most reads from a socket before its datagrams are handled, each of io::kSuperBuffers runs; fewer
// when their time is up.
constexpr size_t kReadsAtOnce = 128;
// Most datagrams handled between two clock readings. The most expensive take some hundred
// microseconds each.
constexpr size_t kMostAtOnce = 8;

// The session in the header, which anybody can read.
std::optional<uint16_t> named_by(base::ByteView datagram) {
    if (datagram.size() < wire::kShortHeaderBytes ||
        wire::kind_of(datagram) != wire::DatagramKind::Sealed) {
        return std::nullopt;
    }
    return base::load_big_endian<uint16_t>(&datagram[2]);
}

}  // namespace

InputTurns::InputTurns(io::EventLoop& loop,
                       const RelaySettings& settings,
                       dataplane::PacketEngine& engine,
                       turns::InputQueues& inputs,
                       const SessionTable& sessions,
                       Listeners& listeners,
                       const flow::FlowTable& flows,
                       base::DropCounters& drops)
    : loop_(loop)
    , settings_(settings)
    , engine_(engine)
    , inputs_(inputs)
    , sessions_(sessions)
    , listeners_(listeners)
    , flows_(flows)
    , drops_(drops)
    , timer_(loop, [this] { go_on(); }) {}

void InputTurns::on_readable(Listener& listener) {
    const TimePoint now = loop_.now();
    const bool is_after_pause = input_pause_.ends(now);
    if (!turns_.is_empty()) {
        return;  // go_on() handles it, and the rest
    }
    begin_round();
    size_t runs = take_in(listener, take_in_time());
    begin_turns();
    for (;;) {
        serve(now);
        const Duration left = round_end_ - settings_.clock();
        if (runs == 0 || (runs == 1 && is_after_pause) || left <= Duration::zero()) {
            break;
        }
        runs = take_in(listener, left);
    }
    end_round(now);
}

// A round does not suffice for the rest.
void InputTurns::go_on() {
    const TimePoint now = loop_.now();
    begin_round();
    const Duration most = take_in_time();
    for (const auto& listener : listeners_.all()) {
        take_in(*listener, most / listeners_.all().size());
    }
    begin_turns();
    serve(now);
    end_round(now);
}

void InputTurns::begin_round() {
    if (turns_.is_empty()) {
        turns_.pass(settings_.clock() - round_over_at_);
    }
}

// To read the processor time is a system call. Where a node sends alone, nobody waits for what it
// owes.
void InputTurns::begin_turns() {
    const TimePoint start = settings_.clock();
    round_end_ = start + round_time();
    is_work_known_ = !senders_.is_sole(loop_.now()) || strangers_.is_waiting();
    if (is_work_known_ && start - worked_at_ >= kRound) {
        worked_at_ = start;
        worked_ = settings_.worked();
    }
}

// Processor time of this thread in this round.
Duration InputTurns::worked_between(TimePoint start, TimePoint end) const {
    const Duration passed = end - start;
    if (passed < kLongTurn) {
        return passed;
    }
    return is_work_known_ ? std::min(passed, settings_.worked() - worked_) : kLongTurn;
}

// A long round is for a node that waits alone, not for strangers, which may include moving nodes.
Duration InputTurns::round_time() {
    if (!senders_.is_sole(loop_.now())) {
        return kSharedRound;
    }
    const auto* lane = static_cast<const Lane*>(turns_.next());  // NOLINT(*-static-cast-downcast)
    const bool is_alone = lane != nullptr && lane->node != nullptr && turns_.is_alone(*lane);
    return is_alone && !lane->stream ? kSoleRound : kRound;
}

void InputTurns::end_round(TimePoint now) {
    flush_frames();
    round_over_at_ = settings_.clock();
    engine_.pump(now);
    if (!turns_.is_empty()) {
        timer_.set(now);
        if (!senders_.is_sole(now)) {
            std::this_thread::yield();  // endless work: logins may have no other processor
        }
    }
}

// Reads for at most `most`, by the clock. Returns the number of runs.
size_t InputTurns::take_in(Listener& listener, Duration most) {
    const TimePoint end = settings_.clock() + most;
    const bool is_sole = senders_.is_sole(loop_.now());
    size_t runs = 0;
    size_t bytes = 0;
    size_t known_bytes = 0;
    for (size_t i = 0; i < kReadsAtOnce; ++i) {
        const size_t read =
            engine_.receiver().read(listener.socket, [&](const io::ReceivedBatch& batch) {
                bytes += batch.bytes.size();
                Lane& lane = lane_of(batch);
                if (lane.node != nullptr) {
                    senders_.note(&lane, loop_.now());
                    // A sender that is read faster than opened waits here, not in the kernel.
                    known_bytes +=
                        lane.queue.bytes() <= kTakenFromSoleUser ? batch.bytes.size() : 0;
                }
                if (lane.node == nullptr) {
                    note_stranger(batch);
                }
                if (engine_.receiver().keep(batch, listener.number, lane.queue)) {
                    turns_.wake(lane);
                }
            });
        runs += read;
        if (read < io::kSuperBuffers || (is_sole && known_bytes >= kTakenFromSoleUser) ||
            settings_.clock() >= end) {
            break;
        }
    }
    loop_.note_moved(bytes);
    return runs;
}

// Anybody on the way can read a session's number: only datagrams from an address where the node was
// heard, with its keys, count as the node's.
Lane& InputTurns::lane_of(const io::ReceivedBatch& batch) {
    const auto id = named_by(batch.bytes);
    NodeSession* node = id ? sessions_.find(*id) : nullptr;
    return node != nullptr && node->session.paths().is_known(batch.from) ? node->lane : strangers_;
}

// Whether or not there is room: a sender waits for its turn even if another has filled the queue. A
// datagram without a session gets no turn.
void InputTurns::note_stranger(const io::ReceivedBatch& batch) {
    const auto id = named_by(batch.bytes);
    const bool is_another = id && sessions_.find(*id) != nullptr && id != named_;
    named_in_row_ = is_another ? 1 : std::min(named_in_row_, strangers_.queue.size()) + 1;
    named_ = is_another ? id : named_;
}

// At least one turn, even if the processor was away.
void InputTurns::serve(TimePoint now) {
    TimePoint start = settings_.clock();
    for (Turn* turn = turns_.next(); turn != nullptr; turn = turns_.next()) {
        // Only lanes take turns here.
        auto& lane = static_cast<Lane&>(*turn);  // NOLINT(*-static-cast-downcast)
        if (&lane != writing_) {
            flush_frames();
            start = settings_.clock();
        }
        serve_turn(lane, start, now);
        const bool has_more = !lane.queue.is_empty() || !lane.backlog.is_empty() || lane.stream;
        const TimePoint end = settings_.clock();
        turns_.finish(lane, worked_between(start, end), has_more);
        start = end;
        if (start >= round_end_) {
            break;
        }
    }
}

void InputTurns::serve_turn(Lane& lane, TimePoint start, TimePoint now) {
    turn_end_ = turns_.is_alone(lane) ? round_end_ : start + turns_.credit(lane);
    frames_wait_from_ = turn_end_ + kTurnOverrun;
    writing_ = &lane;
    while (!lane.backlog.is_empty() && !is_turn_over()) {
        write_held(lane);
    }
    if (lane.stream && lane.backlog.is_empty()) {
        serve_stream(lane, now);
    }
    size_t left = lane.node == nullptr ? 1 : lane.at_once;
    while (Input* input = lane.backlog.is_empty() ? lane.queue.front() : nullptr) {
        if (lane.node == nullptr && goes_home(*input)) {
            continue;
        }
        left -= handle_some(*input, lane, left, now);
        if (input->done_bytes >= input->packet->length) {
            inputs_.pop(lane.queue);
        }
        if (left > 0) {
            continue;
        }
        if (is_turn_over()) {
            lane.at_once = 1;
            break;
        }
        lane.at_once = std::min(lane.at_once * 2, kMostAtOnce);
        left = lane.node == nullptr ? 1 : lane.at_once;
    }
    lane.at_once = lane.backlog.is_empty() ? lane.at_once : 1;
    frames_wait_from_ = {};
}

// A datagram received before its sender's address was known, and still waiting when it is, moves to
// the lane of its session.
bool InputTurns::goes_home(const Input& input) {
    const base::MutableByteView left = input.packet->bytes().subspan(input.done_bytes);
    const size_t step = input.segment_bytes == 0 ? left.size() : input.segment_bytes;
    Lane& lane = lane_of({input.from, input.to, left.first(std::min(step, left.size())), 0});
    if (lane.node == nullptr) {
        return false;
    }
    inputs_.move_front(strangers_.queue, lane.queue);
    if (!lane.queue.is_empty()) {
        turns_.wake(lane);
    }
    return true;
}

// True for another session, or a datagram from an unknown address that is not for this one. If the
// newest of these was displaced, one may be overlooked.
bool InputTurns::is_another_waiting(const NodeSession& node) const {
    const size_t own = (strangers_.is_waiting() ? 1U : 0U) + (node.lane.is_waiting() ? 1U : 0U);
    return turns_.waiting() > own || named_ != node.wire_id ||
           named_in_row_ < strangers_.queue.size();
}

// Returns the number of datagrams handled, at most `most`.
size_t InputTurns::handle_some(Input& input, const Lane& lane, size_t most, TimePoint now) {
    const base::MutableByteView left = input.packet->bytes().subspan(input.done_bytes);
    const size_t step = input.segment_bytes == 0 ? left.size() : input.segment_bytes;
    const size_t count = std::min(most, input.datagrams());
    const io::ReceivedBatch batch{
        input.from, input.to, left.first(std::min(count * step, left.size())), input.segment_bytes};
    // An empty datagram counts, too.
    input.done_bytes += static_cast<uint32_t>(std::max<size_t>(batch.bytes.size(), 1));
    Listener& listener = *listeners_.all()[input.socket];
    const auto find = [this](uint16_t id) { return sessions_.find(id); };
    const auto take = [&](NodeSession& node, std::span<session::ReceivedDatagram> datagrams) {
        hand_over(node, datagrams, lane, now);
    };
    const auto stray = [&](wire::DatagramKind kind, const session::ReceivedDatagram& datagram) {
        if (kind == wire::DatagramKind::Sealed) {
            listeners_.answer_unknown(listener, datagram, now);
        }
        return false;
    };
    engine_.receiver().split(batch, listener.socket.local().port, find, take, stray);
    return count;
}

// Datagrams from an unknown address cost the session time if they turn out to be its own. So a node
// cannot use up the strangers' time while others want it.
void InputTurns::hand_over(NodeSession& node,
                           std::span<session::ReceivedDatagram> datagrams,
                           const Lane& lane,
                           TimePoint now) {
    const bool is_own_lane = &lane == &node.lane;
    if (!is_own_lane && turns_.credit(node.lane) < -turns::kTurn && is_another_waiting(node)) {
        node.refused_inputs += datagrams.size();
        return;
    }
    // TCP's path must not lead to an address that only repeated its datagrams.
    const auto first_other = std::remove_if(
        datagrams.begin(), datagrams.end(), [](const session::ReceivedDatagram& datagram) {
            return wire::path_of(datagram.bytes) == wire::kTcpPath;
        });
    const auto count = static_cast<size_t>(first_other - datagrams.begin());
    drops_.add(DropReason::BadVersion, datagrams.size() - count);
    const uint64_t received = node.session.counters().datagrams_received;
    const TimePoint start = is_own_lane ? TimePoint{} : settings_.clock();
    node.session.on_datagrams(datagrams.first(count), now);
    if (!is_own_lane && node.session.counters().datagrams_received != received) {
        turns_.charge(node.lane, worked_between(start, settings_.clock()));
    }
    engine_.touch(node.session);
}

void InputTurns::on_stream(NodeSession& node,
                           dataplane::DatagramQueue& queue,
                           const base::Endpoint& from) {
    const TimePoint now = loop_.now();
    node.lane.stream = queue.shared_from_this();
    node.lane.stream_from = from;
    senders_.note(&node.lane, now);
    if (!turns_.is_empty()) {
        turns_.wake(node.lane);
        return;  // go_on() handles it
    }
    begin_round();
    turns_.wake(node.lane);
    begin_turns();
    serve(now);
    end_round(now);
}

void InputTurns::serve_stream(Lane& lane, TimePoint now) {
    NodeSession& node = *lane.node;
    const auto is_allowed = [](base::ByteView datagram) {
        return wire::path_of(datagram) == wire::kTcpPath;
    };
    const auto take = [&](std::span<session::ReceivedDatagram> datagrams) {
        node.session.on_datagrams(datagrams, now);
        loop_.note_moved(datagrams.front().bytes.size());
    };
    const auto may_go_on = [&] { return !is_turn_over() && lane.backlog.is_empty(); };
    const bool has_more =
        engine_.receiver().pull(*lane.stream, node.wire_id, lane.stream_from,
                                listeners_.stream_port(), is_allowed, take, may_go_on);
    if (!has_more) {
        lane.stream.reset();
    }
    engine_.touch(node.session);
}

// Frames held for their order are delivered outside turns: at once while nobody waits for a turn.
bool InputTurns::holds_back(base::ByteView frame, const packet::FrameInfo& info) {
    const auto* flow = static_cast<const flow::Flow*>(info.owner);
    if (flow == nullptr) {
        return false;
    }
    NodeSession& node = *flow::details_as<NodeSession>(*flow);
    Lane& lane = node.lane;
    const bool is_in_turn = frames_wait_from_ != TimePoint{};
    const bool has_time = is_in_turn ? settings_.clock() < frames_wait_from_ : turns_.is_empty();
    if (lane.backlog.is_empty() && (is_flushing_ || has_time)) {
        return false;
    }
    if (!lane.backlog.push(frame, info, flow->tuple)) {
        node.refused_inputs += info.packets;
        return true;
    }
    turns_.wake(lane);
    timer_.set(loop_.now());
    return true;
}

// The flow it was made for may have ended: the kernel would track it again, for nobody.
void InputTurns::write_held(Lane& lane) {
    lane.backlog.pop(
        [&](base::ByteView frame, packet::FrameInfo info, const packet::FiveTuple& tuple) {
            flow::Flow* flow = flows_.find(tuple);
            if (flow == nullptr || flow->details != lane.node) {
                drops_.add(DropReason::FlowLimit, info.packets);
                return;
            }
            info.owner = flow;
            engine_.tun().write_held(frame, info);
        });
}

// Before another lane's turn, and at the end: at most a few frames, charged to their sender.
void InputTurns::flush_frames() {
    if (writing_ == nullptr) {
        return;
    }
    const TimePoint start = settings_.clock();
    is_flushing_ = true;
    engine_.flush();
    is_flushing_ = false;
    turns_.charge(*writing_, worked_between(start, settings_.clock()));
    writing_ = nullptr;
}

void InputTurns::forget(NodeSession& node) {
    turns_.remove(node.lane);
    drops_.add(DropReason::UnknownSession, inputs_.clear(node.lane.queue));
    drops_.add(DropReason::NoSession, node.lane.backlog.packets());
    writing_ = writing_ == &node.lane ? nullptr : writing_;
    drops_.add(DropReason::InputFull, node.dropped_inputs());
}

}  // namespace continuo::snapt::relay
