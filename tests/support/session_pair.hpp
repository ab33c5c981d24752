// SessionPair: a node's session and a SNAPT's, joined by two LinkModels, in virtual time. Packets
// go in at either end and are collected at the other.
#pragma once

#include "common/tunnel/session.hpp"
#include "tests/support/link/link_model.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace continuo::tests {

class SessionPair;

// The default link between the two ends: 10 ms each way; jitter reorders.
struct SimLink : LinkSettings {
    SimLink() {
        delay = base::milliseconds(10);
        keeps_order = false;
    }
};

// One end with its flows.
class SessionEnd final : public session::SessionHost {
  public:
    SessionEnd(SessionPair& pair, path::Role role, base::Random& random);
    ~SessionEnd() override;

    flow::Flow& flow(const packet::FiveTuple& tuple, base::TrafficClass traffic_class);
    flow::Flow* find(const packet::FiveTuple& tuple);
    // It ends at this end, as by a timeout.
    void end_flow(const packet::FiveTuple& tuple, base::TimePoint now);
    // The association is lost: a new one with the same flows, without keys and paths.
    void begin_anew(base::TimePoint now);
    // Takes a whole IP packet as the kernel would give it.
    void send(flow::Flow& flow,
              base::ByteView packet,
              const packet::Offload& offload,
              base::TimePoint now);

    flow::Flow* on_flow_opened(tunnel::Session& session,
                               const session::FlowOpening& opening,
                               base::TimePoint now) override;
    flow::Flow* find_flow(tunnel::Session& /*session*/, const packet::FiveTuple& tuple) override {
        return find(tuple);
    }
    void deliver(tunnel::Session& session,
                 flow::Flow& flow,
                 const packet::HeaderFields& fields,
                 base::ByteView payload,
                 base::TimePoint now) override;
    flow::Flow* deliver_whole(tunnel::Session& session,
                              base::TrafficClass traffic_class,
                              base::MutableByteView packet,
                              base::TimePoint now) override;
    void on_flows_closed(tunnel::Session&, flow::Flow&, base::TimePoint) override {
        ++closed_flows;
        delivered_when_closed = delivered.size();
    }
    void on_path_changed(tunnel::Session&, uint8_t path, base::TimePoint) override {
        paths_changed.push_back(path);
        if (when_changed) {
            when_changed(path);
        }
    }
    void on_path_challenged(tunnel::Session&, uint8_t, base::TimePoint) override { ++challenges; }
    void on_path_silent(tunnel::Session& silent, uint8_t path, base::TimePoint now) override;
    void on_peer_closed(tunnel::Session&, base::TimePoint) override {}
    void on_held_delivered(tunnel::Session&) override { ++held_deliveries; }

    SessionPair& pair;
    path::Role role;
    packet::PacketPool pool{4096, 64};
    session::SessionScratch scratch;
    base::TokenBucket rate{base::milliseconds(50)};  // of what it sends; none at first
    std::map<std::string, std::unique_ptr<flow::Flow>> flows;
    std::map<std::string, std::unique_ptr<flow::LiveSlot>> slots;
    std::vector<std::vector<uint8_t>> delivered;  // whole packets, checksums complete
    std::vector<uint8_t> paths_changed;
    std::vector<path::PathState> silent_paths;
    // Reactions of a daemon; may be empty.
    std::function<void(uint8_t path)> when_changed;
    std::function<void(uint8_t path)> when_silent;
    uint16_t last_app = 0;
    uint64_t closed_flows = 0;
    size_t delivered_when_closed = 0;  // packets until it heard of one last
    uint64_t challenges = 0;           // that told of another address
    uint64_t held_deliveries = 0;
    // How flows that the other end opens use the paths, as control would tell.
    base::PathMode mode_of_opened = base::PathMode::Handover;
    // When each of `delivered` came.
    std::vector<base::TimePoint> delivered_at;
    base::Random& random;
    std::unique_ptr<tunnel::Session> session;
};

class SessionPair {
  public:
    explicit SessionPair(const SimLink& link,
                         uint64_t seed = 1,
                         crypto::Protection protection = crypto::Protection::Aes256Gcm);

    // Runs until nothing is under way or `limit` of virtual time has passed.
    void run_for(base::Duration span);
    void install_epoch(uint32_t epoch);
    // At one end only. Keys of another `generation` are others for the same epoch.
    void install_epoch_at(SessionEnd& end, uint32_t epoch, uint8_t generation = 0);
    // Both ends lost what they knew of each other; flows go on with new keys on path 0.
    void restart(uint8_t generation);
    // `direction` is up or down: it loses so many from now on.
    void lose(LinkModel& direction, uint32_t loss_ppm) const;
    // The node's datagrams leave from this address from now on.
    void move_node(const base::Endpoint& address, uint8_t path);
    // Another uplink of the node, with links of its own, that is not active.
    void add_path(uint8_t path, const base::Endpoint& address, const SimLink& link);
    // The links of a path: its own, or those that all share.
    LinkModel& up_link(uint8_t path);
    LinkModel& down_link(uint8_t path);
    // A datagram to or from the node. `from`: its source; `path`: the path it arrived on (the
    // node's active path by default). Handles it as if from the network.
    void inject(SessionEnd& to,
                std::vector<uint8_t> datagram,
                const base::Endpoint& from,
                std::optional<uint8_t> path = std::nullopt);

    base::SeededRandom random;
    base::TimePoint now{base::seconds(1000)};
    LinkModel up;
    LinkModel down;
    SessionEnd node;
    SessionEnd snapt;
    base::Endpoint node_address;
    base::Endpoint snapt_address;
    // Addresses of paths other than node_address: a node with two uplinks at once.
    std::map<uint8_t, base::Endpoint> path_addresses;
    // Drops a datagram between this address of the node and SNAPT; may be empty.
    std::function<bool(bool is_up, const base::Endpoint& node_side)> is_swallowed;
    // The same by how it leaves: class of the tuple and of the mark.
    std::function<bool(bool is_up, const session::TransmitItem& item)> is_item_swallowed;
    // The node has a socket for each class; their ports follow that of lt-ld. Otherwise one.
    bool has_class_sockets = false;
    struct PathLinks {
        LinkModel up;
        LinkModel down;
    };
    std::map<uint8_t, PathLinks> path_links;
    // SNAPT asks for a sign of life, as over control.
    bool has_control = false;
    uint64_t misdirected = 0;  // datagrams to an address where the node is not
    // Given every sealer that is made; for a test that looks at what is sealed.
    std::function<std::unique_ptr<crypto::DatagramCipher>(std::unique_ptr<crypto::DatagramCipher>,
                                                          const crypto::KeyMaterial& keys)>
        wrap_sealer;
    // Datagrams put on a link while `record` was set.
    std::vector<std::vector<uint8_t>> recorded_up;
    std::vector<std::vector<uint8_t>> recorded_down;
    bool record = false;

  private:
    void pump(SessionEnd& end);
    void
    put_on_link(const SessionEnd& end, const session::TransmitItem& item, base::ByteView datagram);
    void take_from_link(SessionEnd& end, base::ByteView carried);
    void take_all(LinkModel& link, SessionEnd& end);
    base::Endpoint address_of(uint8_t path) const;
    base::Endpoint source_of(const session::TransmitItem& item) const;
    bool is_at(const base::Endpoint& own, const base::Endpoint& address) const;
    std::optional<uint8_t> path_at(const base::Endpoint& address) const;
    crypto::Protection protection_;
    session::TransmitBatch batch_;
};

// A TCP or UDP packet with complete checksums.
std::vector<uint8_t> make_packet(const packet::HeaderFields& fields, base::ByteView payload);

}  // namespace continuo::tests
