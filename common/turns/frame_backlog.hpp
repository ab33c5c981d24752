// FrameBacklog: frames that a session's datagrams made beyond its turn, waiting for the TUN device.
// Memory is taken as needed, in doubling steps, as far as the budget allows. Pure.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/memory_budget.hpp"
#include "common/packet/coalescer.hpp"
#include "common/packet/five_tuple.hpp"
#include "common/reception/resequencer.hpp"

#include <cstring>
#include <type_traits>
#include <vector>

namespace continuo::turns {

class FrameBacklog {
    struct Record {
        packet::FiveTuple tuple;
        uint64_t inner_bytes = 0;
        uint64_t payload_bytes = 0;
        uint32_t packets = 0;
        uint32_t bytes = 0;
    };
    static_assert(std::is_trivially_copyable_v<Record>);
    // Around a frame's payload: the record, virtio_net_hdr, IP and TCP headers with all options.
    static constexpr size_t kFrameExtraBytes = sizeof(Record) + packet::kVnetHeaderBytes + 120;

  public:
    // The most that a resequencer can release at once.
    static constexpr size_t kLimitBytes = reception::Resequencer::kPackets *
                                          (reception::Resequencer::kPacketBytes + kFrameExtraBytes);
    static constexpr size_t kFirstBytes = size_t{16} << 10;

    // `budget`: null for no limit.
    explicit FrameBacklog(base::MemoryBudget* budget = nullptr) : memory_(budget) {}

    bool is_empty() const { return next_ == bytes_.size(); }
    // Total of all frames.
    uint64_t packets() const { return packets_; }
    // Returns false if there is no room.
    bool push(base::ByteView frame, const packet::FrameInfo& info, const packet::FiveTuple& tuple);
    // Passes the first one to `each(base::ByteView frame, packet::FrameInfo, const FiveTuple&)`.
    // Find its owner by the tuple: the former owner may have ended and is not given.
    template <typename Each>
    void pop(const Each& each) {
        Record record;
        std::memcpy(&record, &bytes_[next_], sizeof record);
        const base::ByteView frame(&bytes_[next_ + sizeof record], record.bytes);
        each(frame,
             packet::FrameInfo{nullptr, record.packets, record.inner_bytes, record.payload_bytes},
             record.tuple);
        next_ += sizeof record + record.bytes;
        packets_ -= record.packets;
        if (is_empty()) {
            clear();
        }
    }
    void clear();

  private:
    bool grow(size_t wanted);

    base::MemoryShare memory_;
    std::vector<uint8_t> bytes_;
    size_t next_ = 0;
    uint64_t packets_ = 0;
};

}  // namespace continuo::turns
