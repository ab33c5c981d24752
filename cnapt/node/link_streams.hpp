// LinkStreams: datagrams over TCP, inside the control links, while UDP does not get through. Data
// loop only.
#pragma once

#include "cnapt/node/link_choice.hpp"

namespace continuo::cnapt::node {

class LinkStreams {
  public:
    // All must outlive this.
    LinkStreams(const ChoiceParts& parts, LinkChoice& choice) : parts_(parts), choice_(choice) {}

    // The queue into a connection, which was made by the uplink in `slot`, if that is known.
    void open(SnaptLink& link,
              dataplane::StreamPort port,
              const base::Endpoint& address,
              std::optional<uint8_t> slot);
    void close(SnaptLink& link);
    // Received ones.
    void on_datagrams(SnaptLink& link, dataplane::DatagramQueue& queue);
    // The connection has free room; it has lost datagrams and goes on; it gets nothing through.
    void on_room(SnaptLink& link);
    void on_lost(SnaptLink& link);
    void on_stuck(SnaptLink& link, bool is_stuck);
    bool send(const SnaptLink& link, const session::TransmitItem& item, base::ByteView bytes) const;

  private:
    ChoiceParts parts_;
    LinkChoice& choice_;
};

}  // namespace continuo::cnapt::node
