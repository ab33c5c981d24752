// ReceivePipeline: received datagrams, in the order of trust: length, parse, key, authenticate,
// replay, then state (docs/PROTOCOL.md section 2). Opens them, lets BodyDecoder read, tells paths
// and ledgers, lets Delivery and FrameHandler apply. Pure.
#pragma once

#include "common/receiving/body_decoder.hpp"
#include "common/receiving/delivery.hpp"
#include "common/receiving/frame_handler.hpp"
#include "common/receiving/opened.hpp"
#include "common/session/session_core.hpp"

#include <optional>
#include <span>

namespace continuo::receiving {

class ReceivePipeline {
  public:
    // All arguments must outlive this object.
    ReceivePipeline(session::SessionCore& core,
                    session::SentDatagrams& sent,
                    session::AckWriter& acks);

    void on_datagrams(std::span<session::ReceivedDatagram> datagrams, base::TimePoint now);
    Delivery& delivery() { return delivery_; }
    const Delivery& delivery() const { return delivery_; }
    // SNAPT: the newest datagram received over UDP.
    const std::optional<session::Latest>& latest() const { return latest_; }

  private:
    size_t gather_batch(std::span<session::ReceivedDatagram> datagrams,
                        std::span<Opened> batch,
                        size_t& taken);
    void on_authentic(const Opened& opened, base::TimePoint now);
    void apply(const Opened& opened, const BodyFacts& facts, bool is_highest, base::TimePoint now);
    void note_gap(const Opened& opened, uint64_t next, base::TimePoint now);
    void acknowledge(const Opened& opened,
                     const BodyFacts& facts,
                     reception::AckKind kind,
                     base::TimePoint now);
    void note_arrival(const Opened& opened,
                      const wire::Space& arrival,
                      bool is_highest,
                      base::TimePoint now);
    void spare_repeated(base::TimePoint now);
    void on_epoch_heard(session::EpochState& epoch, base::TimePoint now);

    session::SessionCore& core_;
    const session::SessionSettings& settings_;
    session::SessionScratch& scratch_;
    base::DropCounters& drops_;
    session::SessionCounters& counters_;
    routing::PathSet& paths_;
    session::Epochs& epochs_;
    session::SentDatagrams& sent_;
    BodyDecoder body_;
    Delivery delivery_;
    FrameHandler frames_;
    std::optional<session::Latest> latest_;
};

}  // namespace continuo::receiving
