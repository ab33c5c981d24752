// ControlSender: datagrams without packets: probes of paths, keepalives, acknowledgements and
// floors that leave alone. Pure.
#pragma once

#include "common/session/ack_writer.hpp"
#include "common/session/sealer.hpp"
#include "common/session/session_core.hpp"

namespace continuo::session {

class ControlSender {
  public:
    // All arguments must outlive this object.
    ControlSender(SessionCore& core, Sealer& sealer, AckWriter& acks);

    // Each sends one if one is due; false: none is.
    bool send_probe(TransmitBatch& batch, base::TimePoint now);
    bool send_upkeep(TransmitBatch& batch, base::TimePoint now);

  private:
    void write_probe(Draft& draft,
                     const Probe& probe,
                     const Tuple& tuple,
                     base::ByteWriter& body,
                     base::TimePoint now);

    const SessionSettings& settings_;
    base::DropCounters& drops_;
    PathSet& paths_;
    Epochs& epochs_;
    SessionFlows& flows_;
    Upkeep& upkeep_;
    ExpectedRepeats& expected_repeats_;
    Sealer& sealer_;
    AckWriter& acks_;
};

}  // namespace continuo::session
