// NodeTest: a Node in a network namespace, with its TUN device and one uplink. Programs of the host
// send; the router beside it is where a SNAPT would be.
#include "cnapt/capture/routes.hpp"
#include "cnapt/node/node.hpp"
#include "cnapt/uplinks/node_addresses.hpp"
#include "common/io/socket_address.hpp"
#include "common/packet/header_fields.hpp"
#include "common/wire/unsealed.hpp"
#include "tests/support/net_namespace.hpp"
#include "tests/support/raw_packet.hpp"

#include <set>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace continuo::cnapt::node {
namespace {

using admission::kMaxResetsPerSecond;
using admission::NodeFlow;
using base::DropReason;
using base::Endpoint;
using base::IpVersion;
using io::SocketAddress;
using io::UniqueFd;
using test::NetNamespace;
using test::RawPacket;

constexpr base::Duration kPatience = base::seconds(10);
constexpr uint16_t kWireId = 4711;
constexpr uint8_t kSyn = packet::tcp_flag::kSyn;
constexpr uint8_t kAck = packet::tcp_flag::kAck;
constexpr uint8_t kRst = packet::tcp_flag::kRst;

Endpoint endpoint(std::string_view text) {
    return Endpoint::parse(text).value();
}

struct Events final : NodeEvents {
    void on_path_moved(SnaptLink& /*link*/) override {}
    void on_link_usable(SnaptLink& /*link*/) override {}
    void on_link_lost(SnaptLink& /*link*/) override {}
    void on_new_app(SnaptLink& /*link*/,
                    uint16_t /*tag*/,
                    const std::string& /*name*/,
                    base::PathMode /*mode*/) override {}
    void on_session_doubted(SnaptLink& link) override { doubted.push_back(link.name); }
    void on_stream_wanted(SnaptLink& /*link*/, uint8_t slot) override { wanted.push_back(slot); }
    void on_streams_unwanted(SnaptLink& /*link*/) override {}
    void on_network_changed() override {}

    std::vector<std::string> doubted;
    std::vector<uint8_t> wanted;  // TCP connections, by uplink
};

class NodeTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        router_ = NetNamespace::create();
        ASSERT_TRUE(router_);
        ASSERT_TRUE(net().shell(
            "ip link add up0 index 100 type veth peer name peer netns " + router_->path() +
            " && ip addr add 192.0.2.2/24 dev up0 && ip link set up0 up && "
            "for i in all default; do echo 0 > /proc/sys/net/ipv4/conf/$i/rp_filter; "
            "done"));
        ASSERT_TRUE(router_->shell("ip addr add 192.0.2.1/24 dev peer && ip link set peer up"));
        ASSERT_TRUE(net().shell("ip route add default via 192.0.2.1"));
        NodeSettings settings;
        settings.ipv4 = uplinks::default_node_ipv4();
        settings.ipv6 = uplinks::default_node_ipv6();
        node_ = std::make_unique<Node>(loop_, settings, random_, events_);
        std::string failure;
        ASSERT_TRUE(node_->start(failure)) << failure;
        ASSERT_TRUE(net().shell("ip addr add 192.0.0.5/32 dev cnapt0 && ip link set cnapt0 up && "
                                "ip route add 198.51.100.0/24 dev cnapt0 src 192.0.0.5"));
        set_policy("[default]\ntcp = \"lt-hd\"\n");
    }
    void TearDown() override {
        node_.reset();
        router_.reset();
        NetNamespaceTest::TearDown();
    }

    void set_policy(std::string_view rules) {
        auto parsed = classifier::parse_policy("version = 1\n" + std::string(rules), "policy.toml");
        ASSERT_TRUE(parsed.ruleset);
        node_->admission().set_ruleset(parsed.ruleset);
    }
    bool wait(const std::function<bool()>& done) { return loop_.run_until(done, kPatience); }
    uint64_t drops(DropReason reason) const { return node_->engine().all_drops().count(reason); }

    static UniqueFd open_socket(int type, const char* local = "192.0.0.5:0") {
        UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const SocketAddress name(endpoint(local));
        EXPECT_EQ(::bind(fd.value(), name.data(), name.size()), 0);
        return fd;
    }
    static void connect_to(const UniqueFd& fd, const char* remote) {
        const SocketAddress name(endpoint(remote));
        const int result = ::connect(fd.value(), name.data(), name.size());
        EXPECT_TRUE(result == 0 || errno == EINPROGRESS);
    }
    static void say_hello(const UniqueFd& fd) { EXPECT_EQ(::send(fd.value(), "hello", 5, 0), 5); }
    // The error that the kernel has for the socket by now.
    static int error_of(const UniqueFd& fd) {
        int error = 0;
        socklen_t length = sizeof error;
        ::getsockopt(fd.value(), SOL_SOCKET, SO_ERROR, &error, &length);
        return error;
    }
    // As it stands, past the kernel's own TCP.
    static void send_packet(const RawPacket& packet) {
        const UniqueFd raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
        const auto frame = test::build_frame(packet);
        const SocketAddress name(Endpoint{packet.destination, 0});
        EXPECT_GT(::sendto(raw.value(), frame.data() + test::kVnetBytes,
                           frame.size() - test::kVnetBytes, 0, name.data(), name.size()),
                  0);
    }
    static std::vector<uint8_t> tcp_packet(std::string_view source,
                                           const base::IpAddress& destination,
                                           uint16_t source_port,
                                           uint16_t destination_port,
                                           uint8_t flags) {
        const auto frame = test::build_frame(
            {*base::IpAddress::parse(source), destination, 6, source_port, destination_port, {}});
        std::vector<uint8_t> packet(frame.begin() + test::kVnetBytes, frame.end());
        // In place of the SYN: the flags are at 13 of the TCP header, its checksum at 16.
        uint8_t* tcp = packet.data() + 20;
        tcp[13] = flags;
        const auto sum = static_cast<uint16_t>((tcp[16] << 8 | tcp[17]) - (flags - kSyn));
        base::store_big_endian(tcp + 16, sum);
        return packet;
    }
    // As the link's session gives it over; false: nothing of it went to the host.
    bool comes_down(const SnaptLink& link, std::vector<uint8_t> packet) {
        session::SessionHost& host = *node_;
        return host.deliver_whole(*link.session, base::TrafficClass::LtHd, packet, loop_.now()) !=
               nullptr;
    }
    std::string refused_reason() {
        std::string reason = "no flow";
        node_->admission().flows().for_each([&](const flow::Flow& flow) {
            reason = static_cast<const NodeFlow*>(flow.details)->refused_reason;
        });
        return reason;
    }

    // A SNAPT that control has reached; it does not answer.
    SnaptLink& establish(std::string_view address,
                         const char* name = "zrh-1",
                         IpVersion version = IpVersion::V4) {
        SnaptLink& link = node_->add_link(name, endpoint(address));
        control::Accept accept;
        accept.wire_session_up = kWireId;
        accept.protection = {control::ProtectionKind::ChaCha20Poly1305, 16};
        (version == IpVersion::V4 ? accept.lease_ipv4 : accept.lease_ipv6) =
            base::IpAddress::parse(version == IpVersion::V4 ? "100.64.0.2" : "fd93:47::2");
        accept.epoch = 1;
        control::EpochKeys keys;
        keys.epoch = 1;
        node_->on_reached(link, endpoint(address), accept);
        EXPECT_TRUE(node_->establish(link, accept, keys));
        // No connection follows: the next tick chooses a way.
        loop_.run_until([&] { return link.active_slot().has_value(); }, base::seconds(1));
        return link;
    }

    // As when a path answers.
    void bring_up(const SnaptLink& link) {
        ASSERT_TRUE(link.session->paths().active());
        session::SessionHost& host = *node_;
        host.on_path_changed(*link.session, *link.session->paths().active(), loop_.now());
        ASSERT_TRUE(link.is_up);
    }
    // The SNAPT of the only flow; empty while there is none, or not one only.
    std::string flow_snapt() {
        std::string name;
        node_->admission().flows().for_each([&](const flow::Flow& flow) {
            const SnaptLink* link = static_cast<const NodeFlow*>(flow.details)->link;
            name += link == nullptr ? "none" : link->name;
        });
        return name;
    }

    io::EventLoop loop_;
    base::SeededRandom random_{1};
    Events events_;
    std::optional<NetNamespace> router_;
    std::unique_ptr<Node> node_;
};

TEST_F(NodeTest, WhatThePolicyDeniesIsRefusedAtOnce) {
    set_policy("[[rule]]\napp = \"no\"\nmatch = { dport = [81] }\naction = \"deny\"\n");
    const UniqueFd stream = open_socket(SOCK_STREAM);
    connect_to(stream, "198.51.100.1:81");
    int error = 0;
    EXPECT_TRUE(wait([&] { return (error = error_of(stream)) != 0; }));
    EXPECT_EQ(error, ECONNREFUSED);
    EXPECT_EQ(refused_reason(), "denied by policy");
    const UniqueFd datagrams = open_socket(SOCK_DGRAM);
    connect_to(datagrams, "198.51.100.1:81");
    say_hello(datagrams);
    EXPECT_TRUE(wait([&] { return (error = error_of(datagrams)) != 0; }));
    EXPECT_EQ(error, EHOSTUNREACH) << "administratively prohibited";
    EXPECT_EQ(drops(DropReason::PolicyDenied), 2U);
}

TEST_F(NodeTest, WithoutASnaptAFlowWaitsAndIsNotRefused) {
    const UniqueFd datagrams = open_socket(SOCK_DGRAM);
    connect_to(datagrams, "198.51.100.1:53");
    say_hello(datagrams);
    ASSERT_TRUE(wait([&] { return drops(DropReason::NoSession) == 1; }));
    EXPECT_EQ(error_of(datagrams), 0);
    EXPECT_EQ(refused_reason(), "");
    say_hello(datagrams);
    EXPECT_TRUE(wait([&] { return drops(DropReason::NoSession) == 2; }));
    EXPECT_EQ(node_->admission().flows().size(), 1U);
    EXPECT_FALSE(has_listed_link(node_->links()));
}

TEST_F(NodeTest, AFlowThatWaitedForASnaptIsRefusedByTheFirstPacketAfterwards) {
    const UniqueFd datagrams = open_socket(SOCK_DGRAM);
    connect_to(datagrams, "198.51.100.1:53");
    say_hello(datagrams);
    ASSERT_TRUE(wait([&] { return drops(DropReason::NoSession) == 1; }));
    bring_up(establish("192.0.2.1:9347", "zrh-6", IpVersion::V6));
    say_hello(datagrams);
    int error = 0;
    EXPECT_TRUE(wait([&] { return (error = error_of(datagrams)) != 0; }));
    EXPECT_EQ(error, EHOSTUNREACH);
    EXPECT_EQ(refused_reason(), "no SNAPT carries this IP version");
}

TEST_F(NodeTest, AVersionWithoutAWayOutGoesToAnotherSnaptOrIsRefused) {
    SnaptLink& lost = establish("192.0.2.1:9347");
    bring_up(lost);
    lost.no_way_out.ipv4 = true;
    const UniqueFd refused = open_socket(SOCK_STREAM);
    connect_to(refused, "198.51.100.1:80");
    int error = 0;
    EXPECT_TRUE(wait([&] { return (error = error_of(refused)) != 0; }));
    EXPECT_EQ(error, ECONNREFUSED);
    EXPECT_EQ(drops(DropReason::VersionNotCarried), 1U);
    bring_up(establish("192.0.2.1:9348", "zrh-2"));
    const UniqueFd stream = open_socket(SOCK_STREAM);
    connect_to(stream, "198.51.100.1:81");
    EXPECT_TRUE(wait([&] { return flow_snapt() == "zrh-2"; }));
}

// The kernel repeats the SYN after a second.
TEST_F(NodeTest, AConnectionThatALostSnaptHasNotAnsweredBeginsAtAnother) {
    SnaptLink& lost = establish("192.0.2.1:9347");
    bring_up(lost);
    const UniqueFd stream = open_socket(SOCK_STREAM);
    connect_to(stream, "198.51.100.1:80");
    ASSERT_TRUE(wait([&] { return flow_snapt() == "zrh-1"; }));
    SnaptLink& other = establish("192.0.2.1:9348", "zrh-2");
    bring_up(other);
    lost.is_up = false;
    EXPECT_TRUE(wait([&] { return flow_snapt() == "zrh-2"; }));
    EXPECT_EQ(error_of(stream), 0);
    EXPECT_FALSE(node_->admission().has_flows(lost));
}

TEST_F(NodeTest, AConnectionThatALostSnaptHasNotAnsweredIsRefusedWhereNoneCarriesIt) {
    SnaptLink& lost = establish("192.0.2.1:9347");
    bring_up(lost);
    const UniqueFd stream = open_socket(SOCK_STREAM);
    connect_to(stream, "198.51.100.1:80");
    ASSERT_TRUE(wait([&] { return flow_snapt() == "zrh-1"; }));
    bring_up(establish("192.0.2.1:9348", "zrh-6", IpVersion::V6));
    lost.is_up = false;
    int error = 0;
    EXPECT_TRUE(wait([&] { return (error = error_of(stream)) != 0; }));
    EXPECT_EQ(error, ECONNREFUSED);
}

TEST_F(NodeTest, AConnectionWaitsForItsSnaptWhileNoneAnswersAndOnceItWasAnswered) {
    SnaptLink& lost = establish("192.0.2.1:9347");
    bring_up(lost);
    const UniqueFd stream = open_socket(SOCK_STREAM);
    connect_to(stream, "198.51.100.1:80");
    ASSERT_TRUE(wait([&] { return flow_snapt() == "zrh-1"; }));
    const auto repeated = [&] {
        uint64_t packets = 0;
        node_->admission().flows().for_each([&](const flow::Flow& flow) {
            packets = flow.queue.packets + flow.counters->counters.packets_up.load();
        });
        return packets;
    };
    lost.is_up = false;
    const uint64_t before = repeated();
    ASSERT_TRUE(wait([&] { return repeated() > before; }));
    EXPECT_EQ(flow_snapt(), "zrh-1") << "nobody else answers";
    bring_up(establish("192.0.2.1:9348", "zrh-2"));
    node_->admission().flows().for_each([](flow::Flow& flow) { flow.was_answered = true; });
    const uint64_t again = repeated();
    ASSERT_TRUE(wait([&] { return repeated() > again; }));
    EXPECT_EQ(flow_snapt(), "zrh-1") << "its connection is there";
}

TEST_F(NodeTest, TcpInMidstreamThatNobodyKnowsIsReset) {
    const UniqueFd listener(
        ::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    const auto remote = *base::IpAddress::parse("198.51.100.1");
    const auto packet = tcp_packet("192.0.0.5", remote, 4000, 80, kAck);
    const UniqueFd raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
    const SocketAddress name(Endpoint{remote, 0});
    ASSERT_GT(::sendto(raw.value(), packet.data(), packet.size(), 0, name.data(), name.size()), 0);
    ASSERT_TRUE(wait([&] { return drops(DropReason::NoBinding) == 1; }));
    EXPECT_EQ(node_->admission().flows().size(), 0U);
    std::array<uint8_t, 100> reply{};
    ASSERT_TRUE(
        wait([&] { return ::recv(listener.value(), reply.data(), reply.size(), 0) >= 40; }));
    EXPECT_EQ(reply[20 + 13] & 0x04, 0x04) << "RST";
    EXPECT_EQ(reply[20 + 2] << 8 | reply[20 + 3], 4000);
}

TEST_F(NodeTest, WhatComesForAConnectionThatNobodyKnowsIsResetAndNeverReachesTheHost) {
    SnaptLink& link = establish("192.0.2.1:9347");
    const UniqueFd listener = open_socket(SOCK_STREAM, "192.0.0.5:4000");
    ASSERT_EQ(::listen(listener.value(), 1), 0);
    const auto from_snapt = [&](uint8_t flags) {
        return comes_down(
            link, tcp_packet("198.51.100.1", uplinks::default_node_ipv4(), 80, 4000, flags));
    };
    const auto queued = [&] { return link.session->queues().bytes(); };
    EXPECT_FALSE(from_snapt(kSyn));
    EXPECT_EQ(node_->admission().flows().size(), 0U)
        << "a SYN begins nothing here, and is not answered";
    EXPECT_FALSE(from_snapt(kAck));
    ASSERT_EQ(node_->admission().flows().size(), 1U) << "that of the reset";
    const uint64_t one = queued();
    EXPECT_GT(one, 0U);
    EXPECT_FALSE(from_snapt(kSyn)) << "the flow of a reset opens no way to the host";
    EXPECT_EQ(queued(), one);
    EXPECT_FALSE(from_snapt(kAck));
    EXPECT_EQ(queued(), 2 * one) << "the first reset may have been lost";
    EXPECT_FALSE(from_snapt(kRst | kAck));
    EXPECT_EQ(queued(), 2 * one);
    EXPECT_EQ(drops(DropReason::NoBinding), 5U);
    for (size_t i = 0; i < 2 * size_t{kMaxResetsPerSecond}; ++i) {
        (void)from_snapt(kAck);
    }
    EXPECT_EQ(queued(), kMaxResetsPerSecond * one) << "in one second";
    EXPECT_EQ(node_->admission().flows().size(), 1U);
}

TEST_F(NodeTest, WhatHasNotItsOwnSourceIsNotCarried) {
    send_packet({*base::IpAddress::parse("192.0.2.2"),
                 *base::IpAddress::parse("198.51.100.1"),
                 17,
                 4000,
                 53,
                 {1, 2, 3}});
    EXPECT_TRUE(wait([&] { return drops(DropReason::NotOurSource) == 1; }));
    EXPECT_EQ(node_->admission().flows().size(), 0U);
}

TEST_F(NodeTest, SessionNumbersOfItsOwnAreDifferent) {
    std::set<uint16_t> ids;
    for (int i = 0; i < 300; ++i) {
        ids.insert(node_->add_link("n" + std::to_string(i), endpoint("192.0.2.1:9347")).local_id);
    }
    EXPECT_EQ(ids.size(), 300U);
    EXPECT_FALSE(ids.contains(0));
}

TEST_F(NodeTest, OfEachIpVersionTheFirstAddressIsTakenAndKept) {
    SnaptLink& link = node_->add_link("zrh-1", endpoint("192.0.2.7:9347"));
    node_->offer_addresses(link, {endpoint("[2001:db8::1]:9347"), endpoint("192.0.2.8:9347"),
                                  endpoint("192.0.2.9:9347"), endpoint("[2001:db8::2]:9347")});
    EXPECT_EQ(link.addresses.v4, endpoint("192.0.2.8:9347"));
    EXPECT_EQ(link.addresses.v6, endpoint("[2001:db8::1]:9347"));
    EXPECT_EQ(link.addresses.in_use, IpVersion::V6) << "the first that is offered";
    node_->offer_addresses(link, {endpoint("192.0.2.9:9347"), endpoint("192.0.2.8:9347")});
    EXPECT_EQ(link.addresses.v4, endpoint("192.0.2.8:9347")) << "it is among them";
}

TEST_F(NodeTest, AnAddressThatDataUsesIsNotGivenUpForAName) {
    SnaptLink& link = establish("192.0.2.1:9347");
    node_->offer_addresses(link, {endpoint("192.0.2.8:9347")});
    EXPECT_EQ(link.addresses.v4, endpoint("192.0.2.1:9347"));
}

TEST_F(NodeTest, DatagramsGoToThePortsThatTheSnaptTells) {
    SnaptLink& link = node_->add_link("zrh-1", endpoint("192.0.2.1:443"));
    control::Accept accept;
    accept.udp_ports = {9347, 53};
    node_->on_reached(link, endpoint("192.0.2.1:443"), accept);
    EXPECT_EQ(link.addresses.v4, endpoint("192.0.2.1:9347"));
    accept.udp_ports = {53, 443};
    SnaptLink& other = node_->add_link("zrh-2", endpoint("192.0.2.1:443"));
    node_->on_reached(other, endpoint("192.0.2.1:443"), accept);
    EXPECT_EQ(other.addresses.v4, endpoint("192.0.2.1:443")) << "it has that one, too";
    accept.udp_ports.clear();
    SnaptLink& third = node_->add_link("zrh-3", endpoint("192.0.2.1:444"));
    node_->on_reached(third, endpoint("192.0.2.1:444"), accept);
    EXPECT_EQ(third.udp_ports, std::vector<uint16_t>{444});
}

// Whoever cannot quote what was sent is not believed, and who can is believed once a second.
TEST_F(NodeTest, ASessionIsDoubtedOnlyForADatagramThatWasSent) {
    const UniqueFd snapt = router_->run([] { return open_socket(SOCK_DGRAM, "192.0.2.1:9347"); });
    establish("192.0.2.1:9347");
    std::array<uint8_t, 2048> datagram{};
    SocketAddress from;
    socklen_t from_bytes = SocketAddress::capacity();
    ssize_t got = 0;
    ASSERT_TRUE(wait([&] {
        got = ::recvfrom(snapt.value(), datagram.data(), datagram.size(), 0, from.data(),
                         &from_bytes);
        return got > 0;
    })) << "the node announces itself";
    const auto answer = [&](wire::Quote quote) {
        wire::Unknown unknown;
        unknown.quote = quote;
        std::array<uint8_t, wire::Unknown::kBytes> bytes{};
        base::ByteWriter writer(bytes);
        unknown.serialize(writer);
        EXPECT_EQ(::sendto(snapt.value(), bytes.data(), bytes.size(), 0, from.data(), from_bytes),
                  static_cast<ssize_t>(bytes.size()));
    };
    const auto pass = [this] {
        const base::TimePoint end = loop_.refresh_now() + base::milliseconds(100);
        loop_.run_until([&] { return loop_.refresh_now() >= end; }, kPatience);
    };
    const auto quote =
        wire::Quote::of(base::ByteView(datagram).first(static_cast<size_t>(got))).value();
    wire::Quote other = quote;
    other.first[2] ^= 1U;  // another session's
    answer(other);
    pass();
    EXPECT_TRUE(events_.doubted.empty());
    answer(quote);
    EXPECT_TRUE(wait([this] { return events_.doubted.size() == 1; }));
    answer(quote);
    answer(quote);
    pass();
    EXPECT_EQ(events_.doubted, std::vector<std::string>{"zrh-1"});
}

TEST_F(NodeTest, ALinkThatControlReachedIsNotUpBeforeAPathAnswers) {
    SnaptLink& link = establish("192.0.2.1:9347");
    EXPECT_FALSE(has_listed_link(node_->links()));
    EXPECT_FALSE(node_->admission().has_flows(link));
    const UniqueFd datagrams = open_socket(SOCK_DGRAM);
    connect_to(datagrams, "198.51.100.1:53");
    say_hello(datagrams);
    EXPECT_TRUE(wait([&] { return drops(DropReason::NoSession) == 1; }));
    node_->remove_link(link);
    EXPECT_TRUE(node_->links().empty());
}

TEST_F(NodeTest, AFlowThatTheSnaptClosesEnds) {
    SnaptLink& link = establish("192.0.2.1:9347");
    const UniqueFd datagrams = open_socket(SOCK_DGRAM);
    connect_to(datagrams, "198.51.100.1:53");
    say_hello(datagrams);
    ASSERT_TRUE(wait([&] { return node_->admission().flows().size() == 1; }));
    node_->admission().flows().for_each([&](flow::Flow& flow) {
        session::SessionHost& host = *node_;
        host.on_flows_closed(*link.session, flow, loop_.now());
        EXPECT_EQ(flow.expires_at, loop_.now() + flow::timeout::kEndedThere);
    });
    EXPECT_TRUE(wait([&] { return node_->admission().flows().size() == 0; }));
}

// Nobody answers there by UDP.
TEST_F(NodeTest, TcpThatHasAnsweredCarriesAfterTheHeadStartOfUdpAndIsMadeAnewWhenItEnds) {
    SnaptLink& link = establish("192.0.2.1:9347");
    ASSERT_TRUE(link.active_slot());
    const uint8_t slot = *link.active_slot();
    const auto queue = std::make_shared<dataplane::DatagramQueue>();
    node_->streams().open(link, {queue, [] { return true; }}, endpoint("192.0.2.1:9347"), slot);
    EXPECT_TRUE(wait([&] { return link.is_on_stream(); }));
    EXPECT_EQ(link.active_slot(), slot);
    EXPECT_EQ(link.session->paths().active(), uint8_t{wire::kTcpPath});
    events_.wanted.clear();
    node_->streams().close(link);
    EXPECT_TRUE(link.is_on_stream());
    EXPECT_EQ(events_.wanted, std::vector<uint8_t>{slot});
    node_->streams().open(link, {queue, [] { return true; }}, endpoint("192.0.2.1:9347"), slot);
    EXPECT_EQ(link.session->paths().active(), uint8_t{wire::kTcpPath});
    // The connection has lost its address: UDP by another one begins anew.
    ASSERT_TRUE(
        net().shell("ip addr del 192.0.2.2/24 dev up0 && ip addr add 192.0.2.3/24 dev up0 && "
                    "ip route add default via 192.0.2.1"));
    EXPECT_TRUE(wait([&] { return link.active_slot() && !link.is_on_stream(); }));
}

}  // namespace
}  // namespace continuo::cnapt::node
