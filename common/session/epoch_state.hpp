// EpochState: everything that belongs to one (session, epoch): ciphers, counters and replay windows
// of the spaces, the elision state of both directions, acknowledgements. Nothing crosses epochs
// (docs/PROTOCOL.md section 5).
#pragma once

#include "common/crypto/datagram_cipher.hpp"
#include "common/crypto/replay_window.hpp"
#include "common/elision/decoder.hpp"
#include "common/elision/encoder.hpp"
#include "common/session/receive_ledger.hpp"
#include "common/session/receive_report.hpp"
#include "common/wire/space.hpp"

#include <array>
#include <memory>
#include <optional>

namespace continuo::session {

// Spaces of lane 0, which is the only one this implementation seals in.
inline constexpr size_t kSpaceSlots = base::kTrafficClasses * wire::kMaxPaths;
constexpr size_t space_slot(uint16_t space) {
    return space / wire::kMaxLanes;
}

struct SendSpace {
    uint64_t next = 0;
    std::optional<uint64_t> highest_acknowledged;
};

struct EpochState {
    EpochState(uint32_t epoch_number,
               packet::NodeSide sends,
               packet::NodeSide receives,
               elision::DecodeScratch& scratch,
               base::MemoryBudget* memory)
        : number(epoch_number)
        , encoder(sends)
        , decoder(receives, scratch, elision::kMaxFlowIndex + 1, memory) {}

    uint32_t number;
    std::unique_ptr<crypto::DatagramCipher> sealer;
    std::unique_ptr<crypto::DatagramCipher> opener;
    std::array<SendSpace, kSpaceSlots> send_spaces;
    std::array<crypto::ReplayWindow, kSpaceSlots> windows;
    // Identities of the space that copies brought (docs/PROTOCOL.md section 6.2).
    std::array<crypto::ReplayWindow, kSpaceSlots> copied;
    // Numbers that came with a void body: nothing of them was delivered.
    std::array<crypto::ReplayWindow, kSpaceSlots> voided;
    elision::Encoder encoder;
    elision::Decoder decoder;
    ReceiveLedger ledger;
    ReceiveReport report;
    uint64_t sealed_datagrams = 0;
    bool is_heard = false;  // an authenticated datagram of this epoch arrived
    base::TimePoint installed_at{};
    base::TimePoint retire_at = base::kNever;
};

}  // namespace continuo::session
