// Rates and quotas of users at a relay without devices.
#include "common/packet/reply.hpp"
#include "tests/unit/snapt/relay/relay_fixture.hpp"

namespace continuo::snapt::relay {
namespace {

using accounting::MeterTerms;
using accounting::UserMeter;
using store::OnExhausted;

MeterTerms used_up(OnExhausted action, uint64_t bits_per_s = 0) {
    MeterTerms terms;
    terms.quota = store::Quota{1000, "day"};
    terms.used_bytes = 1000;
    terms.then = {action, bits_per_s};
    return terms;
}

// With the headers of its first packet, as a session gives them.
flow::Flow* open_tcp(Relay& relay, NodeSession& node, uint16_t port, base::TimePoint now) {
    packet::HeaderFields fields;
    fields.flags = packet::tcp_flag::kSyn;
    session::FlowOpening opening;
    opening.index = port;
    opening.tuple.local = *node.grant.lease_ipv4;
    opening.tuple.remote = *base::IpAddress::parse("198.51.100.2");
    opening.tuple.local_port = port;
    opening.tuple.remote_port = 80;
    opening.tuple.protocol = packet::Protocol::Tcp;
    opening.fields = &fields;
    return relay.flows().on_flow_opened(node.session, opening, now);
}

// A segment of that connection, from the kernel.
void come_down(Relay& relay,
               packet::PacketPtr packet,
               const packet::FiveTuple& tuple,
               base::TimePoint now) {
    packet::HeaderFields fields;
    fields.source = tuple.remote;
    fields.destination = tuple.local;
    fields.source_port = tuple.remote_port;
    fields.destination_port = tuple.local_port;
    fields.flags = packet::tcp_flag::kAck;
    fields.ttl = 60;
    const size_t length = packet::write_headers(fields, {}, false, packet->buffer());
    packet->length = static_cast<uint32_t>(length);
    relay.flows().on_tun_packet(std::move(packet), now);
}

TEST_F(RelayTest, NothingOfAStoppedUserBeginsOrGoesOn) {
    NodeSession& alice = add_session(2);
    NodeSession& bob = add_session(3);
    flow::Flow& flow = add_flow(alice, 0);
    alice.share->meter->set(used_up(OnExhausted::Stop));
    EXPECT_EQ(open_tcp(relay, alice, 1000, loop.now()), nullptr);
    EXPECT_NE(open_flow(bob), nullptr);
    EXPECT_EQ(relay.drops().count(base::DropReason::UsedUp), 1U);
    packet::HeaderFields fields;
    fields.flags = packet::tcp_flag::kAck;
    relay.flows().deliver(alice.session, flow, fields, {}, loop.now());
    EXPECT_EQ(relay.drops().count(base::DropReason::UsedUp), 2U);
    EXPECT_EQ(flow.state, flow::FlowState::Closing) << "it was reset";
    EXPECT_EQ(alice.session.queues().packets(), 2U) << "both are answered";
    relay.look_at_meters();
    EXPECT_EQ(alice.flows, 0U) << "nor does what waits";
    alice.share->meter->set({});
    EXPECT_NE(open_flow(alice), nullptr);
}

// Flows of the user end with its first packet, but not the one that carries the answer.
TEST_F(RelayTest, ThePacketThatFindsAQuotaUsedUpIsAnswered) {
    NodeSession& alice = add_session(2);
    const packet::FiveTuple tuple = add_flow(alice, 0).tuple;
    alice.share->meter->set(used_up(OnExhausted::Stop));
    come_down(relay, pool.take(packet::kMaxReplyBytes), tuple, loop.now());
    EXPECT_EQ(relay.flows().table().find(tuple), nullptr);
    EXPECT_EQ(alice.session.queues().packets(), 1U) << "its program waits for this packet";
}

// As after a restart of the SNAPT.
TEST_F(RelayTest, ASessionBeginsWithTheTermsOfItsGrant) {
    SessionGrant grant;
    grant.user = "alice";
    grant.account_id = 7;
    grant.node = "laptop";
    grant.lease_ipv4 = *base::IpAddress::parse("100.64.0.2");
    grant.meter = std::make_shared<UserMeter>(store::Account{7, "alice"});
    grant.meter->set(used_up(OnExhausted::Throttle, 128'000));
    NodeSession& first = *relay.table().find(relay.reserve(grant)->wire_id);
    EXPECT_EQ(first.share->meter, grant.meter);
    EXPECT_EQ(first.share->down_rate.bits_per_s(), 128'000U) << "before any look";
    EXPECT_EQ(first.grant.meter, nullptr) << "the share has it";
    grant.meter = std::make_shared<UserMeter>(store::Account{7, "alice"});
    grant.node = "phone";
    grant.lease_ipv4 = *base::IpAddress::parse("100.64.0.3");
    NodeSession& second = *relay.table().find(relay.reserve(grant)->wire_id);
    EXPECT_EQ(second.share->meter, first.share->meter) << "which counts the first one, too";
}

TEST_F(RelayTest, AUserMakesSoManyAnswersAtMost) {
    NodeSession& alice = add_session(2);
    NodeSession& bob = add_session(3);
    alice.share->meter->set(used_up(OnExhausted::Stop));
    bob.share->meter->set(used_up(OnExhausted::Stop));
    for (uint16_t i = 0; i < 3 * kMaxRefusalsPerSecond; ++i) {
        open_tcp(relay, alice, 1000 + i, loop.now());
    }
    EXPECT_EQ(alice.session.queues().packets(), kMaxRefusalsPerSecond);
    open_tcp(relay, bob, 1000, loop.now());
    EXPECT_EQ(bob.session.queues().packets(), 1U) << "at nobody else's cost";
}

TEST_F(RelayTest, PayloadOfAUsersFlowsIsCounted) {
    NodeSession& alice = add_session(2);
    flow::Flow& flow = add_flow(alice, 0);
    flow.share->count_payload(700);
    EXPECT_EQ(alice.share->meter->counted(), 700U);
    MeterTerms terms = used_up(OnExhausted::Stop);
    terms.used_bytes = 0;
    terms.counted = 600;
    alice.share->meter->set(terms);
    EXPECT_EQ(alice.share->meter->allowance().used_bytes, 100);
    flow.share->count_payload(900);
    EXPECT_EQ(open_flow(alice), nullptr) << "at once";
}

// Else each login would begin with nothing used, until its records are read.
TEST_F(RelayTest, AnotherLoginDoesNotForgetThatAQuotaIsUsedUp) {
    const std::shared_ptr<UserMeter> meter = add_session(2).share->meter;
    const std::shared_ptr<UserMeter> idle = add_session(3).share->meter;
    meter->set(used_up(OnExhausted::Throttle, 8000));
    relay.close(relay.sessions()[0]->wire_id);
    relay.close(relay.sessions()[0]->wire_id);
    EXPECT_EQ(idle.use_count(), 1) << "its share is gone";
    EXPECT_EQ(add_session(2).share->meter, meter);
    relay.close(relay.sessions()[0]->wire_id);
    meter->set({});
    relay.look_at_meters();
    EXPECT_EQ(meter.use_count(), 1);
}

// Not at the next look of the loop: a second of a fast user's packets would pass.
TEST_F(RelayTest, PacketsWaitFromTheEndOfAGrantOn) {
    NodeSession& alice = add_session(2);
    flow::Flow& flow = add_flow(alice, 0);
    const auto comes = [&] {
        come_down(relay, pool.take(packet::kMaxReplyBytes), flow.tuple, loop.now());
    };
    MeterTerms terms;
    terms.then.action = OnExhausted::Stop;
    alice.share->meter->set(terms);
    alice.share->meter->set_credit({false, 1000});
    flow.share->count_payload(999);
    comes();
    EXPECT_FALSE(alice.share->down_rate.is_limited());
    flow.share->count_payload(1);
    comes();
    EXPECT_EQ(alice.share->down_rate.bits_per_s(), accounting::kHeldBitsPerS);
    EXPECT_EQ(alice.share->up_rate.bits_per_s(), accounting::kHeldBitsPerS);
    EXPECT_EQ(events.credits_used, 1);
    comes();
    EXPECT_EQ(events.credits_used, 1) << "asked for once";
    EXPECT_EQ(alice.session.queues().packets(), 3U) << "nobody is refused";
    EXPECT_TRUE(alice.share->meter->set_credit({false, 2000}));
    relay.look_at_meters();
    EXPECT_FALSE(alice.share->down_rate.is_limited());
    flow.share->count_payload(1000);
    comes();
    EXPECT_EQ(events.credits_used, 2);
    alice.share->meter->set_credit({true});
    relay.look_at_meters();
    EXPECT_FALSE(alice.share->down_rate.is_limited()) << "refusals are sent at once";
    EXPECT_EQ(alice.flows, 0U);
}

TEST_F(RelayTest, TheLowerOfTwoRatesHolds) {
    NodeSession& alice = add_session(2);
    const auto rate = [&] { return alice.share->down_rate.bits_per_s(); };
    const auto queue = [&] { return alice.session.settings().classes[0].queue_bytes; };
    const uint64_t whole = queue();
    EXPECT_EQ(rate(), 0U);
    relay.set_user_rate(8'000'000);
    EXPECT_EQ(rate(), 8'000'000U);
    EXPECT_EQ(queue(), 250'000U) << "a quarter of a second";
    alice.share->meter->set(used_up(OnExhausted::Throttle, 128'000));
    relay.look_at_meters();
    EXPECT_EQ(rate(), 128'000U);
    EXPECT_EQ(queue(), kLeastRateQueue);
    relay.set_user_rate(64'000);
    EXPECT_EQ(alice.share->up_rate.bits_per_s(), 64'000U);
    EXPECT_EQ(add_session(3).share->down_rate.bits_per_s(), 64'000U);
    relay.set_user_rate(0);
    alice.share->meter->set({});
    relay.look_at_meters();
    EXPECT_EQ(rate(), 0U);
    EXPECT_EQ(queue(), whole);
}

}  // namespace
}  // namespace continuo::snapt::relay
