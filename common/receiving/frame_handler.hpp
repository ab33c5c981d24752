// FrameHandler: applies the frames of a received datagram whose body was valid as a whole. Pure.
#pragma once

#include "common/receiving/opened.hpp"
#include "common/session/ack_writer.hpp"
#include "common/session/sent_datagrams.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::receiving {

class FrameHandler {
  public:
    // All arguments must outlive this object.
    FrameHandler(session::SessionCore& core,
                 session::SentDatagrams& sent,
                 session::AckWriter& acks);

    // CLOSED: before the datagram's packets, which may need the places of those flows.
    void end_closed_flows(base::TimePoint now);
    // All other frames in SessionScratch::frames. `may_repeat`: the datagram ends a silence in
    // which datagrams may have been lost.
    void apply(const Opened& opened, bool may_repeat, base::TimePoint now);

  private:
    // Facts about the frames of one datagram.
    struct Frames {
        wire::Space space;
        bool is_announcement = false;
        bool is_long_announcement = false;
        bool is_mere_question = false;  // for an MTU or the way of a class
        bool may_repeat = false;
        bool is_repeating = false;
        bool has_moved = false;
        bool has_ack = false;
        path::ClassMask remapped = 0;
    };
    void
    apply_challenge(const Frames& frames, const wire::Challenge& challenge, base::TimePoint now);
    void apply_response(Frames& frames, const wire::Response& response, base::TimePoint now);
    void apply_announce(Frames& frames, const wire::Announce& announce, base::TimePoint now);
    void apply_ack(const Opened& opened, const wire::Ack& ack, base::TimePoint now);
    void on_ack_range(const Opened& opened,
                      session::EpochState& epoch,
                      const wire::Ack& ack,
                      const wire::AckRange& range,
                      base::TimePoint now);
    void let_lt_ld_be_heard(const wire::Space& challenged, base::TimePoint now);
    void follow(const Frames& frames, std::optional<uint8_t> former, base::TimePoint now);

    session::SessionCore& core_;
    const session::SessionSettings& settings_;
    session::SessionHost& host_;
    session::SessionScratch& scratch_;
    routing::PathSet& paths_;
    session::Epochs& epochs_;
    session::SentDatagrams& sent_;
    session::AckWriter& acks_;
};

}  // namespace continuo::receiving
