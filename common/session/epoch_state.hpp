// EpochState: everything that belongs to one (session, epoch): ciphers, counters and replay windows
// of the spaces, elision state of both directions, acknowledgements. Nothing is shared between
// epochs (docs/PROTOCOL.md section 5).
#pragma once

#include "common/crypto/datagram_cipher.hpp"
#include "common/crypto/replay_window.hpp"
#include "common/crypto/sequence_bitmap.hpp"
#include "common/elision/decoder.hpp"
#include "common/elision/encoder.hpp"
#include "common/reception/ack_ledger.hpp"
#include "common/session/named_numbers.hpp"
#include "common/wire/space.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>

namespace continuo::session {

using reception::AckBlock;
using reception::AckKind;
using reception::AckLedger;

// Spaces of lane 0, the only lane this implementation seals in.
inline constexpr size_t kSpaceSlots = base::kTrafficClasses * wire::kMaxPaths;
constexpr size_t space_slot(uint16_t space) {
    return space / wire::kMaxLanes;
}

struct SendSpace {
    uint64_t next = 0;
    std::optional<uint64_t> highest_acknowledged;
    std::unique_ptr<NamedNumbers> named;  // allocated by the first ACK
    // Numbers of datagrams that carried ACKs; allocated with the first of them.
    std::unique_ptr<crypto::SequenceBitmap> with_acks;

    void note_acks() {
        if (with_acks == nullptr) {
            with_acks = std::make_unique<crypto::SequenceBitmap>();
        }
        with_acks->set(next);
    }
    // Calls visit(number) for the stored numbers in [first, last].
    template <typename Visit>
    void each_with_acks(uint64_t first, uint64_t last, const Visit& visit) const {
        if (with_acks == nullptr) {
            return;
        }
        const uint64_t floor = std::max(first, with_acks->low());
        uint64_t end = std::min(last + 1, with_acks->next());
        while ((end = with_acks->find_down(end, floor, true)) > floor) {
            visit(--end);
        }
    }
};

struct EpochState {
    EpochState(uint32_t epoch_number,
               packet::NodeSide sends,
               packet::NodeSide receives,
               elision::DecodeScratch& scratch,
               base::MemoryBudget* memory)
        : number(epoch_number)
        , encoder(sends, elision::kMinimumSkew, memory)
        , decoder(receives, scratch, elision::kMaxFlowIndex + 1, memory) {}

    uint32_t number;
    std::unique_ptr<crypto::DatagramCipher> sealer;
    std::unique_ptr<crypto::DatagramCipher> opener;
    std::array<SendSpace, kSpaceSlots> send_spaces;
    std::array<crypto::ReplayWindow, kSpaceSlots> windows;
    // Numbers of the space that arrived as copies (docs/PROTOCOL.md section 6.2).
    std::array<crypto::ReplayWindow, kSpaceSlots> copied;
    // Numbers that arrived with a void body: nothing of them was delivered.
    std::array<crypto::ReplayWindow, kSpaceSlots> voided;
    elision::Encoder encoder;
    elision::Decoder decoder;
    // One for each path on which a datagram arrived; null for the others.
    std::array<std::unique_ptr<AckLedger>, wire::kMaxPaths> ledgers;
    uint16_t ledger_mask = 0;
    // Missing numbers below this one count as lost, by space.
    std::array<uint32_t, kSpaceSlots> judged{};
    uint64_t sealed_datagrams = 0;
    bool is_heard = false;  // an authenticated datagram of this epoch arrived
    base::TimePoint installed_at{};
    base::TimePoint retire_at = base::kNever;

    AckLedger& ledger(uint8_t path) {
        if (ledgers[path] == nullptr) {
            ledgers[path] = std::make_unique<AckLedger>();
            ledger_mask |= static_cast<uint16_t>(1U << path);
        }
        return *ledgers[path];
    }
    // Calls visit(path, ledger).
    template <typename Visit>
    void each_ledger(const Visit& visit) const {
        for (unsigned left = ledger_mask; left != 0; left &= left - 1) {
            const auto path = static_cast<uint8_t>(std::countr_zero(left));
            visit(path, *ledgers[path]);
        }
    }
    // Missing numbers that were below the highest one when losses were last judged.
    uint64_t lost() const {
        uint64_t lost = 0;
        for (size_t slot = 0; slot < windows.size(); ++slot) {
            if (const uint64_t below = std::max<uint64_t>(judged[slot], windows[slot].low())) {
                lost += windows[slot].missing_below(below);
            }
        }
        return lost;
    }
    void judge() {
        for (size_t slot = 0; slot < windows.size(); ++slot) {
            judged[slot] = static_cast<uint32_t>(windows[slot].next());
        }
    }
    // lost(), plus numbers that may still arrive.
    uint64_t missing() const {
        uint64_t missing = 0;
        for (const crypto::ReplayWindow& window : windows) {
            missing += window.missing();
        }
        return missing;
    }
};

}  // namespace continuo::session
