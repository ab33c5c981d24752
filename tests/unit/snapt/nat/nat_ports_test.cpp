#include "snapt/nat/nat_ports.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace continuo::snapt::nat {
namespace {

using process::ListeningPort;
using Parts = std::vector<PortRange>;
using Ports = std::vector<uint16_t>;

constexpr PortRange kUsual{1024, 65535};
constexpr PortRange kEphemeral{32768, 60999};

bool holds(const Parts& parts, uint16_t port) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const PortRange& p) { return p.first <= port && port <= p.last; });
}

TEST(PortsLeft, NothingTakenLeavesTheRange) {
    EXPECT_EQ(ports_left(kUsual, {}), (Parts{kUsual}));
    EXPECT_EQ(ports_left({5000, 5000}, {}), (Parts{{5000, 5000}}));
}

TEST(PortsLeft, TakenPortsCutTheRangeAndTheLargestPartComesFirst) {
    EXPECT_EQ(ports_left(kUsual, Ports{22, 9347}), (Parts{{9348, 65535}, {1024, 9346}}));
    EXPECT_EQ(ports_left(kUsual, Ports{1024, 51820, 65535}),
              (Parts{{1025, 51819}, {51821, 65534}}));
    EXPECT_EQ(ports_left({1, 65535}, Ports{443, 9347}),
              (Parts{{9348, 65535}, {444, 9346}, {1, 442}}));
}

TEST(PortsLeft, SmallPartsAreNotHandedOutUnlessThereIsNoOther) {
    EXPECT_EQ(ports_left({1024, 3000}, Ports{1500, 1502, 1700}),
              (Parts{{1701, 3000}, {1024, 1499}}));
    EXPECT_EQ(ports_left({5000, 5004}, Ports{5001}), (Parts{{5002, 5004}}));
}

TEST(PortsLeft, NothingIsLeftWhereAllAreTaken) {
    EXPECT_TRUE(ports_left({443, 443}, Ports{443}).empty());
    EXPECT_TRUE(ports_left({65534, 65535}, Ports{65534, 65535}).empty());
}

TEST(PortsLeft, OfManyPartsTheLargestStayAndNoneHoldsATakenPort) {
    std::mt19937 random(9347);
    for (unsigned round = 0; round < 50; ++round) {
        Ports taken;
        for (unsigned i = 0; i < 300; ++i) {
            taken.push_back(static_cast<uint16_t>(kEphemeral.first + random() % 28232));
        }
        std::sort(taken.begin(), taken.end());
        const Parts parts = ports_left(kUsual, taken);
        EXPECT_LE(parts.size(), kMaxPortParts);
        for (const uint16_t port : taken) {
            EXPECT_FALSE(holds(parts, port)) << port;
        }
        EXPECT_TRUE(holds(parts, 1024));
        EXPECT_TRUE(holds(parts, 65535));
    }
}

TEST(TakenPorts, AreOnesOwnAndThoseOfAllListeners) {
    TakenPorts ports({9347, 443, 9347});
    const std::vector<ListeningPort> listeners = {{true, 22}, {false, 51820}, {true, 40000}};
    EXPECT_EQ(ports.look(listeners, kEphemeral, true).ports, (Ports{22, 443, 9347, 40000, 51820}));
    EXPECT_EQ(ports.look({}, kEphemeral, true).ports, (Ports{443, 9347}));
}

TEST(TakenPorts, AnAnswersSocketCountsOnlyWhenItIsSeenTwice) {
    TakenPorts ports({9347});
    const std::vector<ListeningPort> first = {{false, 53}, {false, 40000}, {true, 50000}};
    EXPECT_EQ(ports.look(first, kEphemeral, false).ports, (Ports{53, 9347, 50000}));
    const std::vector<ListeningPort> second = {{false, 40000}, {false, 41000}};
    EXPECT_EQ(ports.look(second, kEphemeral, false).ports, (Ports{9347, 40000}));
    const std::vector<ListeningPort> third = {{false, 41000}};
    EXPECT_EQ(ports.look(third, kEphemeral, false).ports, (Ports{9347, 41000}));
    EXPECT_EQ(ports.look({}, kEphemeral, false).ports, (Ports{9347}));
}

TEST(TakenPorts, AnAnswersSocketEndsNoConnectionsBeforeItIsSeenTwice) {
    TakenPorts ports({9347});
    using Lasting = std::vector<ListeningPort>;
    const std::vector<ListeningPort> listeners = {{false, 53}, {false, 40000}, {true, 50000}};
    const auto first = ports.look(listeners, kEphemeral, true);
    EXPECT_EQ(first.ports, (Ports{53, 9347, 40000, 50000}));
    EXPECT_EQ(first.lasting, (Lasting{{false, 53}, {false, 9347}, {true, 9347}, {true, 50000}}));
    EXPECT_EQ(ports.look(listeners, kEphemeral, true).lasting,
              (Lasting{{false, 53}, {false, 9347}, {false, 40000}, {true, 9347}, {true, 50000}}));
}

}  // namespace
}  // namespace continuo::snapt::nat
