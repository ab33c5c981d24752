// SplitPacket: a packet that does not fit one datagram, as a raw entry that is sent in pieces
// (docs/PROTOCOL.md section 3.4, FRAGMENT). Pure.
#pragma once

#include "common/base/bytes.hpp"
#include "common/session/transmit_batch.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace continuo::session {

class SplitPacket {
  public:
    // No packet is being split.
    bool is_empty() const { return entry_.empty(); }
    // The packet's; null: it has ended, or no packet is being split.
    const flow::Flow* flow() const { return share_.flow; }

    // Begins a packet. `entry_bytes`: the most that `write(ByteWriter&)` needs, which writes its
    // entry. `share`: its flow's.
    template <typename Write>
    void start(size_t entry_bytes, uint16_t id, const Attribution& share, const Write& write) {
        entry_.resize(entry_bytes);
        base::ByteWriter writer(entry_);
        write(writer);
        entry_.resize(writer.size());
        sent_ = 0;
        index_ = 0;
        id_ = id;
        share_ = share;
    }
    // The next piece, of at most that many bytes. It points into this object until clear().
    wire::Fragment take(size_t most_bytes) {
        wire::Fragment fragment;
        const size_t left = entry_.size() - sent_;
        const size_t bytes = std::min(left, most_bytes);
        fragment.id = id_;
        fragment.index = index_++;
        fragment.last = bytes == left;
        fragment.piece = base::ByteView(entry_).subspan(sent_, bytes);
        sent_ += bytes;
        return fragment;
    }
    // The flow pays for every piece; the packet counts with its last one.
    Attribution share_of(const wire::Fragment& fragment) {
        if (!fragment.last) {
            return Attribution{share_.flow};
        }
        return std::exchange(share_, {});
    }
    void clear() {
        entry_.clear();
        share_ = {};
    }
    // The flow ends: the rest of its packet is not sent.
    void forget(const flow::Flow& flow) {
        if (share_.flow == &flow) {
            clear();
        }
    }

  private:
    std::vector<uint8_t> entry_;
    size_t sent_ = 0;
    uint16_t id_ = 0;
    uint8_t index_ = 0;
    Attribution share_;
};

}  // namespace continuo::session
