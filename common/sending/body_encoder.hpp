// BodyEncoder: turns pending packets (SessionScratch::packets) into the sections of a body:
// headers elided, sections compressed, one for each trust group (docs/PROTOCOL.md sections 6 and
// 7). Pure.
#pragma once

#include "common/routing/router.hpp"
#include "common/sending/send_queues.hpp"
#include "common/session/draft.hpp"
#include "common/session/session_core.hpp"

namespace continuo::sending {

class BodyEncoder {
  public:
    // `core` must outlive this object.
    explicit BodyEncoder(session::SessionCore& core) : scratch_(core.scratch) {}

    // Writes ORDER for the first `count` pending packets, with the next numbers of their flows, if
    // the way is striped. It stays in SessionScratch::order.
    void write_order(const routing::Way& way, size_t count, base::ByteWriter& body);
    // Writes the first `count` pending packets. False: they do not fit.
    bool
    write_packets(session::Draft& draft, SendClass& state, size_t count, base::ByteWriter& body);

  private:
    bool write_group(session::Draft& draft,
                     SendClass& state,
                     size_t count,
                     uint8_t group,
                     bool last,
                     base::ByteWriter& body);
    bool
    write_entries(session::Draft& draft, size_t count, uint8_t group, base::ByteWriter& writer);

    session::SessionScratch& scratch_;
};

}  // namespace continuo::sending
