// ReceivePipeline: received datagrams, in the order of trust: length, parse, key, authenticate,
// replay, then state (docs/PROTOCOL.md section 2). Opens them, lets BodyDecoder read, tells paths
// and ledgers, lets Delivery and FrameHandler apply. Pure.
#pragma once

#include "common/session/body_decoder.hpp"
#include "common/session/delivery.hpp"
#include "common/session/frame_handler.hpp"
#include "common/session/opened.hpp"
#include "common/session/session_core.hpp"

#include <optional>
#include <span>

namespace continuo::session {

class ReceivePipeline {
  public:
    // All arguments must outlive this object.
    ReceivePipeline(SessionCore& core, SentDatagrams& sent, AckWriter& acks);

    void on_datagrams(std::span<ReceivedDatagram> datagrams, base::TimePoint now);
    Delivery& delivery() { return delivery_; }
    const Delivery& delivery() const { return delivery_; }
    // SNAPT: the newest datagram received over UDP.
    const std::optional<Latest>& latest() const { return latest_; }

  private:
    size_t
    gather_batch(std::span<ReceivedDatagram> datagrams, std::span<Opened> batch, size_t& taken);
    void on_authentic(const Opened& opened, base::TimePoint now);
    void apply(const Opened& opened, const BodyFacts& facts, bool is_highest, base::TimePoint now);
    void note_gap(const Opened& opened, uint64_t next, base::TimePoint now);
    void
    acknowledge(const Opened& opened, const BodyFacts& facts, AckKind kind, base::TimePoint now);
    void note_arrival(const Opened& opened,
                      const wire::Space& arrival,
                      bool is_highest,
                      base::TimePoint now);
    void spare_repeated(base::TimePoint now);
    void on_epoch_heard(EpochState& epoch, base::TimePoint now);

    SessionCore& core_;
    const SessionSettings& settings_;
    SessionScratch& scratch_;
    base::DropCounters& drops_;
    SessionCounters& counters_;
    PathSet& paths_;
    Epochs& epochs_;
    SentDatagrams& sent_;
    BodyDecoder body_;
    Delivery delivery_;
    FrameHandler frames_;
    std::optional<Latest> latest_;
};

}  // namespace continuo::session
