// RelayTest: a relay without devices, and sessions and flows in it.
#pragma once

#include "common/flow/slot_source.hpp"
#include "snapt/relay/relay.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::relay {

class NoEvents final : public RelayEvents {
  public:
    void on_session_closed(const NodeSession& /*session*/) override {}
    void on_session_moved(const NodeSession& /*session*/) override {}
    void on_session_silent(const NodeSession& /*session*/) override {}
    bool on_flows_gone(std::vector<packet::FiveTuple> flows) override {
        gone = std::move(flows);
        return true;
    }
    void on_credit_used() override { ++credits_used; }
    std::vector<packet::FiveTuple> gone;
    int credits_used = 0;
};

class RelayTest : public ::testing::Test {
  protected:
    static constexpr size_t kMaxFlows = 1000;

    NodeSession& add_session(uint8_t number) {
        SessionGrant grant;
        grant.user = "user" + std::to_string(number);
        grant.node = "node";
        grant.lease_ipv4 = *base::IpAddress::parse("100.64.0." + std::to_string(number));
        const auto reservation = relay.reserve(grant);
        EXPECT_TRUE(reservation);
        return *relay.table().find(reservation->wire_id);
    }
    // Null: it is refused.
    flow::Flow* open_flow(NodeSession& node, uint16_t app = 0) {
        session::FlowOpening opening;
        opening.index = next_index_++;
        opening.tuple.local = *node.grant.lease_ipv4;
        opening.tuple.remote = *base::IpAddress::parse("198.51.100.2");
        opening.tuple.local_port = static_cast<uint16_t>(opening.index);
        opening.tuple.remote_port = 80;
        opening.tuple.protocol = packet::Protocol::Tcp;
        opening.open.app = app;
        return relay.flows().on_flow_opened(node.session, opening, loop.now());
    }
    flow::Flow& add_flow(NodeSession& node, uint16_t app) { return *open_flow(node, app); }
    void run_for(base::Duration span) {
        io::DeadlineTimer end(loop, [this] { loop.stop(); });
        end.set(loop.refresh_now() + span);
        loop.run();
    }

    io::EventLoop loop;
    flow::HeapSlots slots{kMaxFlows};
    base::SeededRandom random{1};
    NoEvents events;
    packet::PacketPool pool{100, 4};
    Relay relay{loop, patient_with_nobody(), slots, random, events};

  private:
    static RelaySettings patient_with_nobody() {
        RelaySettings settings;
        settings.sign_of_life_wait = {};
        return settings;
    }

    uint32_t next_index_ = 1;
};

}  // namespace continuo::snapt::relay
