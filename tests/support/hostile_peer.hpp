// Victim: one end of a session, with a peer that has the keys and may send anything. The host
// behind it keeps a bounded number of flows, as the daemons do.
#pragma once

#include "common/tunnel/session.hpp"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace continuo::tests {

class Victim : public session::SessionHost {
  public:
    static constexpr size_t kMaxFlows = 256;
    static constexpr size_t kOwnFlows = 4;  // that a node has from the beginning
    // More than any answer to one body may take.
    static constexpr size_t kMaxAnswers = 512;

    explicit Victim(path::Role role, crypto::Protection protection = crypto::Protection::Aes256Gcm);
    ~Victim() override;

    // Seals `body` as the next datagram of the space, with the right keys, and gives it.
    void receive_body(const wire::Space& space, base::ByteView body);
    // Gives a datagram as it is; it is destroyed.
    void receive(std::vector<uint8_t> datagram, const base::Endpoint& from);
    // A packet of a flow that the victim knows; nothing when it knows none.
    void send_packet(size_t which, size_t payload_bytes);
    // Takes all that is due to be sent, as sealed.
    std::vector<std::vector<uint8_t>> drain();
    void advance(base::Duration span);
    // Installs the keys of the next epoch; what receive_body() seals is of it from then on.
    void install_next_epoch();

    tunnel::Session& session() { return *session_; }
    const std::vector<flow::Flow*>& known() const { return known_; }

    base::TimePoint now{base::seconds(1000)};
    base::MemoryBudget memory{session::kMaxKeptBytes};  // of the session; outlives it
    // The path by which a datagram comes: wire::kTcpPath, or none for UDP.
    std::optional<uint8_t> arrived_on;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
    size_t delivered = 0;
    size_t path_changes = 0;

    flow::Flow* on_flow_opened(tunnel::Session& session,
                               const session::FlowOpening& opening,
                               base::TimePoint now) override;
    flow::Flow* find_flow(tunnel::Session& session, const packet::FiveTuple& tuple) override;
    void deliver(tunnel::Session& session,
                 flow::Flow& flow,
                 const packet::HeaderFields& fields,
                 base::ByteView payload,
                 base::TimePoint now) override;
    flow::Flow* deliver_whole(tunnel::Session& session,
                              base::TrafficClass traffic_class,
                              base::MutableByteView packet,
                              base::TimePoint now) override;
    void on_flows_closed(tunnel::Session&, flow::Flow&, base::TimePoint) override {}
    void on_path_changed(tunnel::Session&, uint8_t, base::TimePoint) override { ++path_changes; }
    void on_path_silent(tunnel::Session&, uint8_t, base::TimePoint) override {}
    void on_peer_closed(tunnel::Session&, base::TimePoint) override {}

  private:
    flow::Flow* make_flow(const packet::FiveTuple& tuple, base::TrafficClass traffic_class);

    path::Role role_;
    crypto::Protection protection_;
    uint32_t epoch_ = 0;
    base::SeededRandom random_{7};
    std::map<std::string, std::unique_ptr<flow::Flow>> flows_;
    std::vector<std::unique_ptr<flow::LiveSlot>> slots_;
    std::vector<flow::Flow*> known_;
    std::unique_ptr<tunnel::Session> session_;
    std::unique_ptr<crypto::DatagramCipher> peer_sealer_;
    std::array<uint64_t, session::kSpaceSlots> next_{};
    base::Endpoint peer_;
};

}  // namespace continuo::tests
