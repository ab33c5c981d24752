// A SNAPT that its operator empties.
#include "common/control/no_forwarding.hpp"
#include "tests/unit/snapt/users/admission_fixture.hpp"

namespace continuo::snapt::users {
namespace {

class DrainTest : public AdmissionTest {
  protected:
    void SetUp() override {
        config.public_addresses = {{"192.0.2.2", 9347}};  // without one there is nothing to tell
        AdmissionTest::SetUp();
    }
    uint32_t told_price() const {
        return node.directory.entries.empty() ? 0 : node.directory.entries[0].price_permille;
    }
    // Whether a new flow of alice's session was taken.
    bool opens(packet::Protocol protocol,
               uint8_t tcp_flags,
               base::Duration later = {},
               bool has_packet = true) {
        relay::NodeSession& session = *relay->sessions()[0];
        packet::HeaderFields fields;
        fields.flags = tcp_flags;
        session::FlowOpening opening;
        opening.index = ++flows_;
        opening.tuple.local = *session.grant.lease_ipv4;
        opening.tuple.remote = *base::IpAddress::parse("198.51.100.2");
        opening.tuple.local_port = static_cast<uint16_t>(opening.index);
        opening.tuple.remote_port = 80;
        opening.tuple.protocol = protocol;
        opening.fields = &fields;
        opening.has_packet = has_packet;
        last_ = relay->flows().on_flow_opened(session.session, opening, loop.now() + later);
        return last_ != nullptr;
    }
    // A packet down of the flow that was opened last.
    void answer(uint8_t tcp_flags = 0) {
        packet::PacketSummary summary;
        summary.tuple = last_->tuple;
        summary.tcp_flags = tcp_flags;
        relay->flows().table().on_packet(*last_, flow::Direction::Down, summary, loop.now());
    }
    flow::Flow* last_ = nullptr;
    uint32_t flows_ = 0;
};

TEST_F(DrainTest, TheNodeIsToldAndThenItsNewFlowsAreRefused) {
    log_in("alice");
    ASSERT_TRUE(wait([this] { return told_price() == 1000; }));
    EXPECT_TRUE(opens(packet::Protocol::Udp, 0));
    EXPECT_TRUE(admission->begin_drain(std::nullopt));
    EXPECT_FALSE(admission->begin_drain(std::nullopt)) << "it has begun";
    ASSERT_TRUE(wait([this] { return told_price() == control::kNoForwardingPrice; }));
    EXPECT_TRUE(opens(packet::Protocol::Udp, 0)) << "what it began before it knew";
    EXPECT_FALSE(opens(packet::Protocol::Udp, 0, kDrainNotice));
    EXPECT_FALSE(opens(packet::Protocol::Tcp, packet::tcp_flag::kSyn, kDrainNotice));
    EXPECT_TRUE(opens(packet::Protocol::Tcp, packet::tcp_flag::kAck, kDrainNotice))
        << "a connection that began before";
    EXPECT_FALSE(opens(packet::Protocol::Tcp, packet::tcp_flag::kAck, kDrainNotice, false))
        << "the context of a SYN";
    EXPECT_EQ(relay->drops().count(base::DropReason::Draining), 2U) << "which is counted itself";
    EXPECT_TRUE(admission->end_drain());
    EXPECT_FALSE(admission->end_drain());
    EXPECT_TRUE(opens(packet::Protocol::Udp, 0, kDrainNotice));
    ASSERT_TRUE(wait([this] { return told_price() == 1000; }));
}

TEST_F(DrainTest, FlowsThatWereAnsweredAndAreNotClosedAreLeft) {
    log_in("alice");
    EXPECT_TRUE(opens(packet::Protocol::Udp, 0));
    EXPECT_EQ(relay->flows().shares().running_flows(), 0U) << "nobody answered";
    answer();
    EXPECT_EQ(relay->flows().shares().running_flows(), 1U);
    EXPECT_TRUE(opens(packet::Protocol::Tcp, packet::tcp_flag::kSyn));
    answer(packet::tcp_flag::kSyn | packet::tcp_flag::kAck);
    EXPECT_EQ(relay->flows().shares().running_flows(), 2U);
    answer(packet::tcp_flag::kRst);
    EXPECT_EQ(relay->flows().shares().running_flows(), 1U) << "a closed connection lingers";
    EXPECT_EQ(relay->flows().table().size(), 2U);
}

// A node whose control link comes and goes gains no time.
TEST_F(DrainTest, TheTimeOfANodeBeginsOnce) {
    log_in("alice");
    ASSERT_TRUE(wait([this] { return told_price() == 1000; }));
    admission->begin_drain(std::nullopt);
    relay::NodeSession& session = *relay->sessions()[0];
    const base::TimePoint from = session.drains_from;
    ASSERT_NE(from, base::kNever);
    relay->drain(session.wire_id, from + base::seconds(10));
    EXPECT_EQ(session.drains_from, from);
}

// Nodes are told some at a time, and each refuses new flows only after it was told.
TEST_F(DrainTest, MoreNodesThanAreToldAtOnceAreAllDrained) {
    constexpr int kNodes = 300;
    config.limits.user_sessions = 0;
    relay->set_limits(2 * kNodes, 0, 0);
    for (int i = 1; i <= kNodes; ++i) {
        control::Hello hello = hello_of("n" + std::to_string(i));
        hello.session_id[0] = static_cast<uint8_t>(i);
        hello.session_id[1] = static_cast<uint8_t>(i >> 8);
        admission->on_hello(static_cast<links::LinkId>(i), {}, {{"alice", "k1"}, hello});
        ASSERT_TRUE(wait([&] { return relay->sessions().size() == static_cast<size_t>(i); }))
            << i << " " << logged().back();
    }
    for (int i = 1; i <= kNodes; ++i) {
        control::EpochKeys epoch;
        epoch.epoch = 1;
        admission->on_keys(static_cast<links::LinkId>(i), epoch);
    }
    const auto draining = [this] {
        const auto& all = relay->sessions();
        return std::count_if(all.begin(), all.end(), [](const auto& session) {
            return session->drains_from != base::kNever;
        });
    };
    admission->begin_drain(std::nullopt);
    EXPECT_GT(draining(), 0);
    EXPECT_LT(draining(), kNodes) << "not all in one go";
    admission->on_tick();
    EXPECT_EQ(draining(), kNodes);
    admission->end_drain();
    EXPECT_EQ(draining(), 0);
    admission->begin_drain(base::Duration{});
    admission->on_tick();
    EXPECT_TRUE(relay->sessions().empty()) << "the time is over for who was not told, too";
}

TEST_F(DrainTest, NobodyNewIsLetInAndWhoIsHereMayContinue) {
    hello_of_alice(1, "laptop", 1);
    ASSERT_TRUE(wait([this] { return let_in().size() == 1; }));
    ASSERT_EQ(relay->sessions()[0]->drains_from, base::kNever);
    admission->begin_drain(std::nullopt);
    hello(2, "bob");
    EXPECT_TRUE(was_logged("login_refused", "reason=\"" + std::string(kDrainingText) + "\""))
        << logged().back();
    EXPECT_EQ(let_in(), Names{"alice"});
    EXPECT_EQ(number("SELECT count(*) FROM lease"), 1) << "it took nothing";
    admission->end_drain();
    hello(3, "bob");
    EXPECT_TRUE(wait([this] { return let_in().size() == 2; }));
}

TEST_F(DrainTest, WhatIsLeftEndsWithTheTime) {
    log_in("alice");
    EXPECT_TRUE(opens(packet::Protocol::Udp, 0));
    answer();
    admission->begin_drain(base::Duration{});
    admission->on_tick();
    EXPECT_TRUE(let_in().empty());
    EXPECT_EQ(relay->flows().shares().running_flows(), 0U);
    EXPECT_TRUE(was_logged("session_end", "reason=drained"));
    ASSERT_TRUE(wait([this] { return !node.closed.empty(); }));
    EXPECT_EQ(node.closed[0].peer.reason, control::CloseReason::Draining);
    EXPECT_EQ(node.closed[0].peer.text, kDrainingText);
    EXPECT_TRUE(admission->drain()) << "it goes on";
}

TEST_F(DrainTest, WithoutATimeNothingEnds) {
    log_in("alice");
    EXPECT_TRUE(opens(packet::Protocol::Udp, 0));
    answer();
    admission->begin_drain(std::nullopt);
    admission->on_tick();
    EXPECT_EQ(let_in(), Names{"alice"});
    EXPECT_EQ(relay->flows().shares().running_flows(), 1U);
}

}  // namespace
}  // namespace continuo::snapt::users
