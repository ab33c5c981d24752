// NodeEvents: notifications from a Node to its owner.
#pragma once

#include "common/base/path_mode.hpp"

#include <cstdint>
#include <string>

namespace continuo::cnapt::node {

struct SnaptLink;

// Told on the data loop.
class NodeEvents {
  public:
    virtual ~NodeEvents() = default;
    // The way to this SNAPT changed: its control connection may be dead.
    virtual void on_path_moved(SnaptLink& link) = 0;
    // A path of the link answered: it carries traffic.
    virtual void on_link_usable(SnaptLink& link) = 0;
    // Nothing comes back from this SNAPT on any uplink.
    virtual void on_link_lost(SnaptLink& link) = 0;
    // Path mode of flows with that tag. Tag 0: flows without a rule name.
    virtual void
    on_new_app(SnaptLink& link, uint16_t tag, const std::string& name, base::PathMode mode) = 0;
    // SNAPT does not know the session; ask over control.
    virtual void on_session_doubted(SnaptLink& link) = 0;
    // A connection by the uplink in that slot is wanted, beside the one that is open.
    virtual void on_stream_wanted(SnaptLink& link, uint8_t slot) = 0;
    // Those that are being made beside one that is open are wanted no more.
    virtual void on_streams_unwanted(SnaptLink& link) = 0;
    // Addresses, routes or interfaces have changed.
    virtual void on_network_changed() = 0;
};

}  // namespace continuo::cnapt::node
