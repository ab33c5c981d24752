// NodeEvents: what a Node tells its owner.
#pragma once

#include "common/base/path_mode.hpp"

#include <cstdint>
#include <string>

namespace continuo::cnapt {

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
    // Flows with that tag use the paths so. Tag 0 is of flows without a name.
    virtual void
    on_new_app(SnaptLink& link, uint16_t tag, const std::string& name, base::PathMode mode) = 0;
    // SNAPT says that it does not know the session; ask over control.
    virtual void on_session_doubted(SnaptLink& link) = 0;
    // Data goes over TCP and nothing comes back: the connection may be dead.
    virtual void on_stream_stuck(SnaptLink& link) = 0;
    // Addresses, routes or interfaces are others now.
    virtual void on_network_changed() = 0;
};

}  // namespace continuo::cnapt
