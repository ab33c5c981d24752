// PlainStream: datagrams as records over a plain TCP connection, for sessions that only
// authenticate (docs/PROTOCOL.md section 3.7). The node's first record is HELLO. One thread.
#pragma once

#include "common/control/epoch_keys.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/io/tcp_stream.hpp"
#include "common/wire/tcp_record.hpp"

#include <array>
#include <optional>

namespace continuo::dataplane {

// HELLO number `number` of the session `wire_session` with the keys of its epoch.
wire::Hello make_hello(uint16_t wire_session,
                       uint32_t number,
                       const control::EpochKeys& keys,
                       uint8_t tag_bytes);

// SNAPT: which HELLOs of one session are accepted. A recorded one that is sent again is not: its
// number was used.
class HelloCheck {
  public:
    // Keys of a new epoch; those of the previous one stay valid.
    void add(const control::EpochKeys& keys);
    // Whether a node with the keys made it, and it is new. Takes the same time for any tag.
    bool accepts(const wire::Hello& hello, uint8_t tag_bytes);

  private:
    struct Epoch {
        control::EpochKeys keys;
        std::optional<uint32_t> highest;
    };
    std::array<std::optional<Epoch>, 2> epochs_;  // latest first
};

class PlainStream {
  public:
    explicit PlainStream(io::TcpStream stream) : stream_(std::move(stream)) {}

    int fd() const { return stream_.fd(); }
    // Sent before any datagram.
    void set_hello(const wire::Hello& hello) { hello_ = hello; }

    struct Flushed {
        bool is_done = false;     // false: the rest when the socket is writable
        bool tells_room = false;  // as DatagramQueue::Pulled
    };
    // Sends all it can. Errors: System.
    base::Result<Flushed> flush(DatagramQueue& queue);

    // Passes received records to `each(base::ByteView) -> bool` while it returns true; the rest
    // waits for the next call. False: the connection has ended or is faulty.
    template <typename Each>
    bool receive(const Each& each) {
        if (!take_records(each)) {
            return !is_broken_;
        }
        const base::Result<bool> more = stream_.drain([&](base::ByteView bytes) {
            input_.insert(input_.end(), bytes.begin(), bytes.end());
            return take_records(each);
        });
        return more && *more && !is_broken_;
    }

  private:
    // Returns false when stopped or broken.
    template <typename Each>
    bool take_records(const Each& each) {
        size_t done = 0;
        bool goes_on = true;
        while (goes_on) {
            const auto record = wire::parse_record(base::ByteView(input_).subspan(done));
            if (!record) {
                is_broken_ = record.error().code != base::Errc::Truncated;
                break;
            }
            done += wire::kRecordLengthBytes + record->size();
            goes_on = each(*record);
        }
        input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(done));
        return goes_on && !is_broken_;
    }
    size_t fill(base::MutableByteView to, DatagramQueue& queue, bool& tells_room);

    io::TcpStream stream_;
    std::optional<wire::Hello> hello_;
    std::vector<uint8_t> input_;  // less than a record and a read
    bool is_broken_ = false;
};

}  // namespace continuo::dataplane
