// DatagramReceiver: reads datagrams from the sockets of one loop, cuts received runs into single
// datagrams and passes consecutive ones of a session on together. Allocates nothing per datagram.
// One thread.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/dataplane/pause_detector.hpp"
#include "common/io/udp_socket.hpp"
#include "common/record/packet_recorder.hpp"
#include "common/session/session_types.hpp"
#include "common/turns/input_queues.hpp"
#include "common/wire/tunnel_header.hpp"

#include <algorithm>
#include <vector>

namespace continuo::dataplane {

// Most reads from a socket per wake-up before others get their turn.
inline constexpr size_t kReceiveRounds = 8;

class DatagramReceiver {
  public:
    // `drops` must outlive this.
    explicit DatagramReceiver(base::DropCounters& drops) : drops_(drops) {}
    // For read() and keep(). `queues` must outlive this too.
    DatagramReceiver(base::DropCounters& drops, turns::InputQueues& queues)
        : drops_(drops), arena_(queues.take_many(io::kSuperBuffers)), queues_(&queues) {}

    // Records received datagrams; null: no recording. Must outlive this.
    void record_to(record::PacketRecorder* recorder) { recorder_ = recorder; }

    // Calls `each(const io::ReceivedBatch&)` for the socket's data, up to kReceiveRounds reads; a
    // single datagram after a pause is taken as all for now. Returns the bytes.
    template <typename Each>
    size_t receive(io::UdpSocket& socket, base::TimePoint now, const Each& each) {
        const bool is_after_pause = pause_.ends(now);
        size_t bytes = 0;
        for (size_t round = 0; round < kReceiveRounds; ++round) {
            const auto batches = socket.receive(arena_);
            if (!batches) {
                break;
            }
            for (const io::ReceivedBatch& batch : *batches) {
                if (recorder_ != nullptr) {
                    recorder_->received(socket, batch);
                }
                bytes += batch.bytes.size();
                each(batch);
            }
            if (is_after_pause && batches->size() <= 1) {
                break;
            }
        }
        return bytes;
    }

    // One read: calls `each(const io::ReceivedBatch&)` for each batch and returns their number;
    // below io::kSuperBuffers the socket is empty.
    template <typename Each>
    size_t read(io::UdpSocket& socket, const Each& each) {
        const auto batches = socket.receive(arena_);
        if (!batches) {
            return 0;
        }
        for (const io::ReceivedBatch& batch : *batches) {
            if (recorder_ != nullptr) {
                recorder_->received(socket, batch);
            }
            each(batch);
        }
        return batches->size();
    }

    // For read(): puts `batch` of the caller's socket number `socket` into `queue`. False: no room,
    // so it is dropped and counted there.
    bool keep(const io::ReceivedBatch& batch, uint16_t socket, turns::InputQueue& queue);

    struct Always {
        bool operator()() const { return true; }
    };
    // Passes datagrams that came over TCP for session `id`, one by one, to
    // `hand_over(std::span<session::ReceivedDatagram>)`, while `may_go_on()`. Drops datagrams of
    // other sessions, and those that `is_allowed(base::ByteView)` refuses. `local_port` is for the
    // capture, since the connection's is not known here. True: there are more.
    template <typename IsAllowed, typename HandOver, typename MayGoOn = Always>
    bool pull(DatagramQueue& queue,
              uint16_t id,
              const base::Endpoint& from,
              uint16_t local_port,
              const IsAllowed& is_allowed,
              const HandOver& hand_over,
              const MayGoOn& may_go_on = {}) {
        session::ReceivedDatagram datagram{
            {}, from, {base::IpAddress::any(from.address.version), 0}, wire::kTcpPath};
        const packet::DatagramHeader header{
            from, {base::IpAddress::any(from.address.version), local_port}};
        const DatagramQueue::Pulled pulled = queue.pull([&](base::MutableByteView bytes) {
            if (!may_go_on()) {
                return false;
            }
            if (recorder_ != nullptr) {
                recorder_->streamed(header, bytes, 0, record::PacketRecorder::Direction::Inbound);
            }
            const bool is_whole = bytes.size() >= wire::kShortHeaderBytes;
            const bool is_own = is_whole && wire::kind_of(bytes) == wire::DatagramKind::Sealed &&
                                base::load_big_endian<uint16_t>(&bytes[2]) == id;
            if (is_own && is_allowed(bytes)) {
                datagram.bytes = bytes;
                hand_over(std::span(&datagram, 1));
            } else {
                drops_.add(is_whole ? base::DropReason::BadVersion : base::DropReason::TooShort);
            }
            return true;
        });
        drops_.add(base::DropReason::QueueFull, pulled.refused);
        return pulled.has_more;
    }

    // `batch` came to `local_port`. `find(uint16_t id)` returns a pointer to the owner of that
    // session id, or null; `hand_over(owner, std::span<session::ReceivedDatagram>)` takes a run.
    // Others go to `stray(wire::DatagramKind, datagram)`: a Sealed one has a whole header and no
    // owner. It returns whether the datagram was of use; otherwise it counts as dropped.
    template <typename Find, typename HandOver, typename Stray>
    void split(const io::ReceivedBatch& batch,
               uint16_t local_port,
               const Find& find,
               const HandOver& hand_over,
               const Stray& stray) {
        const size_t step = batch.segment_bytes == 0 ? batch.bytes.size() : batch.segment_bytes;
        decltype(find(uint16_t{})) current = nullptr;
        const auto hand_over_run = [&] {
            if (!run_.empty()) {
                hand_over(*current, std::span(run_));
                run_.clear();
            }
        };
        for (size_t offset = 0; offset < batch.bytes.size(); offset += step) {
            const base::MutableByteView bytes =
                batch.bytes.subspan(offset, std::min(step, batch.bytes.size() - offset));
            const session::ReceivedDatagram datagram{bytes, batch.from, {batch.to, local_port}};
            const wire::DatagramKind kind = wire::kind_of(bytes);
            const bool is_whole = bytes.size() >= wire::kShortHeaderBytes;
            if (kind != wire::DatagramKind::Sealed || !is_whole) {
                if (kind == wire::DatagramKind::Sealed || !stray(kind, datagram)) {
                    drops_.add(is_whole ? base::DropReason::BadVersion
                                        : base::DropReason::TooShort);
                }
                continue;
            }
            const auto owner = find(base::load_big_endian<uint16_t>(&bytes[2]));
            if (owner == nullptr) {
                if (!stray(kind, datagram)) {
                    drops_.add(base::DropReason::UnknownSession);
                }
                continue;
            }
            if (owner != current) {
                hand_over_run();
                current = owner;
            }
            run_.push_back(datagram);
        }
        hand_over_run();
    }

  private:
    base::DropCounters& drops_;
    record::PacketRecorder* recorder_ = nullptr;
    io::UdpReceiveArena arena_;
    turns::InputQueues* queues_ = nullptr;
    std::vector<session::ReceivedDatagram> run_;
    PauseDetector pause_;
};

}  // namespace continuo::dataplane
