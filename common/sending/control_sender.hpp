// ControlSender: datagrams without packets: probes of paths, keepalives, acknowledgements and
// floors that leave alone. Pure.
#pragma once

#include "common/sending/sealer.hpp"
#include "common/session/ack_writer.hpp"
#include "common/session/session_core.hpp"

namespace continuo::sending {

class ControlSender {
  public:
    // All arguments must outlive this object.
    ControlSender(session::SessionCore& core, Sealer& sealer, session::AckWriter& acks);

    // Each sends one if one is due; false: none is.
    bool send_probe(session::TransmitBatch& batch, base::TimePoint now);
    bool send_upkeep(session::TransmitBatch& batch, base::TimePoint now);

  private:
    void write_probe(session::Draft& draft,
                     const path::Probe& probe,
                     const path::Tuple& tuple,
                     base::ByteWriter& body,
                     base::TimePoint now);

    const session::SessionSettings& settings_;
    base::DropCounters& drops_;
    routing::PathSet& paths_;
    session::Epochs& epochs_;
    session::SessionFlows& flows_;
    session::Upkeep& upkeep_;
    session::ExpectedRepeats& expected_repeats_;
    Sealer& sealer_;
    session::AckWriter& acks_;
};

}  // namespace continuo::sending
