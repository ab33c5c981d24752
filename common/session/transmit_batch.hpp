// TransmitBatch: sealed datagrams on their way to the sockets, in one arena, so that many leave in
// one system call. An item is one sendmsg: a datagram, or a run of equal ones for UDP_SEGMENT. The
// attributions of an item to flows are stored beside it and counted when the kernel has accepted
// the item.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/ip_address.hpp"
#include "common/base/traffic_class.hpp"
#include "common/flow/flow.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace continuo::tunnel {
class Session;
}  // namespace continuo::tunnel

namespace continuo::session {

inline constexpr size_t kBatchArenaBytes = size_t{512} * 1024;
inline constexpr size_t kBatchItems = 256;
inline constexpr size_t kBatchAttributions = 4096;
// UDP_SEGMENT takes 64 segments on every kernel; one send is at most 65507 bytes of UDP payload.
inline constexpr size_t kMaxSegmentsPerSend = 64;
inline constexpr size_t kMaxUdpPayloadBytes = 65507;
// Most items that a session adds in one turn: a super-packet in runs of eight, or a datagram and
// its copy.
inline constexpr size_t kMaxItemsPerTurn = 2 * kMaxSegmentsPerSend / 8;

// Share of one flow in a datagram or a run of datagrams.
struct Attribution {
    flow::Flow* flow = nullptr;
    uint32_t packets = 0;
    uint64_t inner_bytes = 0;
    uint64_t payload_bytes = 0;
    uint64_t outer_bytes = 0;  // its share of the outer IP bytes
    uint64_t waited_us = 0;    // its packets together, until they were put into a datagram
};

struct TransmitItem {
    tunnel::Session* session = nullptr;
    uint8_t path = 0;
    base::TrafficClass traffic_class =
        base::TrafficClass::LtLd;  // class of the tuple: selects socket and address
    base::TrafficClass marked_class = base::TrafficClass::LtLd;  // class of the content: outer DSCP
    bool is_unmarked = false;                                    // outer DSCP 0 instead
    base::Endpoint to;
    base::Endpoint from;  // address that the peer knows; unspecified: the socket's own
    uint32_t offset = 0;
    uint32_t length = 0;
    uint16_t segment_bytes = 0;  // 0: one datagram
    uint16_t datagrams = 1;
    uint32_t first_attribution = 0;
    uint32_t attributions = 0;
};

class TransmitBatch {
  public:
    TransmitBatch() : arena_(std::make_unique<uint8_t[]>(kBatchArenaBytes)) {
        items_.reserve(kBatchItems);
        attributions_.reserve(kBatchAttributions);
    }

    void clear() {
        used_ = 0;
        inner_bytes_ = 0;
        items_.clear();
        attributions_.clear();
        attributed_ = 0;
    }
    bool empty() const { return items_.empty(); }
    // Room for the largest super-packet, which is two items, or more when it is striped. False:
    // send the batch first.
    bool has_room() const {
        return std::max(used_, inner_bytes_) < limit_bytes_ &&
               kBatchArenaBytes - used_ >= 2 * kMaxUdpPayloadBytes &&
               items_.size() + kMaxItemsPerTurn <= kBatchItems &&
               attributions_.size() + kMaxSegmentsPerSend * 2 < kBatchAttributions;
    }
    // Lowers the limit, in inner or sealed bytes, so that other sessions get their turn sooner.
    void set_limit(size_t bytes) { limit_bytes_ = bytes; }
    base::MutableByteView free_space() { return {arena_.get() + used_, kBatchArenaBytes - used_}; }
    // Commits the first `item.length` bytes of free_space() and the attributions added since the
    // last commit.
    void commit(TransmitItem item) {
        item.offset = static_cast<uint32_t>(used_);
        item.first_attribution = attributed_;
        item.attributions = static_cast<uint32_t>(attributions_.size()) - attributed_;
        for (const Attribution& part : open_attributions()) {
            inner_bytes_ += part.inner_bytes;
        }
        attributed_ += item.attributions;
        used_ += item.length;
        items_.push_back(item);
    }
    // Drops the attributions added since the last commit: the datagram must not leave.
    void discard() { attributions_.resize(attributed_); }
    bool fits(const TransmitItem& item) const {
        return kBatchArenaBytes - used_ >= item.length && items_.size() < kBatchItems &&
               kBatchAttributions - attributions_.size() >= item.attributions;
    }
    // Copies an item of another batch, which must fit, with its attributions.
    void take(const TransmitBatch& from, const TransmitItem& item) {
        const base::ByteView bytes = from.bytes(item);
        std::copy(bytes.begin(), bytes.end(), free_space().begin());
        for (const Attribution& part : from.attributions(item)) {
            attribute(part);
        }
        commit(item);
    }
    void attribute(const Attribution& attribution) { attributions_.push_back(attribution); }
    // Attributions added since the last commit.
    std::span<Attribution> open_attributions() {
        return std::span(attributions_).subspan(attributed_);
    }

    // Items of a session that ends are sent but counted for no session.
    void forget(const tunnel::Session& session) {
        for (TransmitItem& item : items_) {
            item.session = item.session == &session ? nullptr : item.session;
        }
    }
    // A flow ends while its packets are in the batch.
    void forget(const flow::Flow& flow) {
        for (Attribution& part : attributions_) {
            part.flow = part.flow == &flow ? nullptr : part.flow;
        }
    }

    std::span<const TransmitItem> items() const { return items_; }
    base::ByteView bytes(const TransmitItem& item) const {
        return {arena_.get() + item.offset, item.length};
    }
    std::span<const Attribution> attributions(const TransmitItem& item) const {
        return std::span(attributions_).subspan(item.first_attribution, item.attributions);
    }

  private:
    std::unique_ptr<uint8_t[]> arena_;
    size_t used_ = 0;
    size_t inner_bytes_ = 0;
    size_t limit_bytes_ = SIZE_MAX;
    std::vector<TransmitItem> items_;
    std::vector<Attribution> attributions_;
    uint32_t attributed_ = 0;
};

}  // namespace continuo::session
