// SessionScratch: working memory shared by all sessions of a loop. Nothing in it outlives a call,
// except the measured cost of compression.
#pragma once

#include "common/compress/zstd_codec.hpp"
#include "common/crypto/datagram_cipher.hpp"
#include "common/elision/decoder.hpp"
#include "common/flow/attribution.hpp"
#include "common/packet/header_fields.hpp"
#include "common/queueing/class_queue.hpp"
#include "common/queueing/compression_governor.hpp"
#include "common/reception/ack_ledger.hpp"
#include "common/reception/received_members.hpp"
#include "common/wire/body.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace continuo::session {

using queueing::ClassQueue;
using queueing::CompressionLoad;
using reception::ReceivedMembers;

inline constexpr size_t kMaxPacketsPerDatagram = 128;
inline constexpr size_t kMaxGroups = 8;  // trust groups in a datagram, beside the raw one
inline constexpr size_t kOpenBatch = 64;
inline constexpr size_t kDecompressArenaBytes = size_t{256} * 1024;

// One packet on its way into an aggregate.
struct PendingPacket {
    ClassQueue::Item item;
    std::optional<packet::RegularPacket> regular;  // views into item.packet
    uint8_t group = 0;                             // 0: raw
    bool is_announced = false;                     // needs a context entry first
    uint32_t payload_bytes = 0;
};

struct SessionScratch {
    elision::DecodeScratch decode;
    compress::ZstdCodec codec;
    CompressionLoad load;
    std::array<PendingPacket, kMaxPacketsPerDatagram> packets;
    std::array<base::IpAddress, kMaxGroups> group_remotes;
    wire::Order order;  // the current datagram's, when its packets are striped
    std::unique_ptr<uint8_t[]> section =
        std::make_unique<uint8_t[]>(wire::kDefaultSectionOutputBytes);
    std::unique_ptr<uint8_t[]> compressed =
        std::make_unique<uint8_t[]>(wire::kDefaultSectionOutputBytes);
    std::unique_ptr<uint8_t[]> decompressed = std::make_unique<uint8_t[]>(kDecompressArenaBytes);
    std::unique_ptr<uint8_t[]> whole = std::make_unique<uint8_t[]>(packet::kLargeBufferBytes);
    std::array<crypto::SealedUnit, kOpenBatch> units;
    std::vector<wire::BodyItem> frames;
    std::array<AckBlock, base::kTrafficClasses> acks;  // being written
    ReceivedMembers members;                           // the current datagram's
    std::vector<flow::AttributionMember> shares;

    SessionScratch() {
        frames.reserve(wire::kMaxFrames);
        shares.reserve(flow::kMaxAttributionMembers);
    }
    // True when the current body has such a frame.
    template <typename Frame>
    bool has_frame() const {
        return std::any_of(frames.begin(), frames.end(), [](const wire::BodyItem& item) {
            return std::holds_alternative<Frame>(item);
        });
    }
    bool announces_active_path() const {
        return std::any_of(frames.begin(), frames.end(), [](const wire::BodyItem& item) {
            const auto* announce = std::get_if<wire::Announce>(&item);
            return announce != nullptr && announce->active;
        });
    }
    // IP lengths of the first `count` pending packets.
    size_t inner_bytes(size_t count) const {
        size_t bytes = 0;
        for (size_t i = 0; i < count; ++i) {
            bytes += packets[i].item.packet->length;
        }
        return bytes;
    }
};

}  // namespace continuo::session
