#include "cnapt/uplinks/borrowed_addresses.hpp"

#include <map>

#include <gtest/gtest.h>

namespace continuo::cnapt::uplinks {
namespace {

using base::IpAddress;
using base::IpPrefix;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}

// lo, cnapt0, ppp0 (without an address, with both default routes), br-lan, cable; numbers 1 to 5.
class BorrowedAddressesTest : public testing::Test {
  protected:
    BorrowedAddressesTest() {
        uint32_t index = 0;
        for (const char* name : {"lo", "cnapt0", "ppp0", "br-lan", "cable"}) {
            netlink::LinkEntry link;
            link.index = ++index;
            link.name = name;
            link.is_up = true;
            link.is_loopback = link.name == "lo";
            net_.links.push_back(link);
        }
        add_address(2, "192.0.0.5");
        add_address(2, "64:ff9b:1::c000:5");
        add_route(3, "0.0.0.0/0");
        add_route(3, "::/0");
        add_route(4, "2001:db8:11::/64");
    }
    void add_address(uint32_t index, std::string_view text, bool is_deprecated = false) {
        net_.addresses.push_back({index, address(text), 64, is_deprecated});
    }
    netlink::RouteEntry& add_route(uint32_t index, std::string_view destination) {
        netlink::RouteEntry route;
        route.destination = IpPrefix::parse(destination).value();
        route.interface_index = index;
        net_.routes.push_back(route);
        return net_.routes.back();
    }
    // The address that ppp0 borrows towards a SNAPT there; empty: none.
    std::string borrowed(const char* snapt = "2001:db8:1::2") {
        asked_ = 0;
        const auto links =
            bare_links(net_, {address("203.0.113.1"), address(snapt)}, "cnapt0", in_use_,
                       [&](uint32_t index, const IpAddress& to) -> std::optional<IpAddress> {
                           asked_ += index == 3 ? 1 : 100;
                           const auto& answer = to.is_v4() ? kernel4_ : kernel6_;
                           return answer.empty() ? std::nullopt : std::optional(address(answer));
                       });
        for (const BareLink& link : links) {
            if (link.snapt == address(snapt) && link.source) {
                EXPECT_EQ(link.interface_index, 3U);
                EXPECT_EQ(link.borrowed().address, *link.source);
                return link.source->to_string();
            }
        }
        return {};
    }

    netlink::NetSnapshot net_;
    std::vector<netlink::UsableAddress> in_use_;
    std::string kernel4_;
    std::string kernel6_;
    int asked_ = 0;
};

TEST_F(BorrowedAddressesTest, AreTheSourcesThatTheKernelWouldUse) {
    add_address(4, "2001:db8:11::1");
    add_address(4, "2001:db8:12::1");
    kernel6_ = "2001:db8:12::1";
    EXPECT_EQ(borrowed(), "2001:db8:12::1");
    EXPECT_EQ(asked_, 2) << "once for each version, of ppp0 alone";
    kernel6_.clear();
    EXPECT_EQ(borrowed(), "");
    kernel6_ = "2001:db8:99::1";
    EXPECT_EQ(borrowed(), "") << "not usable yet";
}

TEST_F(BorrowedAddressesTest, AreNotNeededByWhatHasAnAddressOrLeadsNowhere) {
    add_address(4, "2001:db8:11::1");
    kernel6_ = "2001:db8:11::1";
    add_address(3, "192.0.2.3");
    EXPECT_EQ(borrowed(), "2001:db8:11::1") << "the other version has one";
    EXPECT_EQ(asked_, 1);
    add_address(3, "2001:db8:13::3");
    EXPECT_EQ(borrowed(), "");
    EXPECT_EQ(asked_, 0);
    net_.addresses.pop_back();
    net_.routes.erase(net_.routes.begin() + 1);
    EXPECT_EQ(borrowed(), "");
    EXPECT_EQ(asked_, 0);
}

TEST_F(BorrowedAddressesTest, AreNeverThoseOfTheTunnel) {
    kernel4_ = "192.0.0.5";
    kernel6_ = "64:ff9b:1::c000:5";
    EXPECT_EQ(borrowed(), "");
    EXPECT_EQ(borrowed("203.0.113.1"), "");
    add_address(4, "2001:db8:11::9", true);
    add_address(4, "2001:db8:11::1");
    add_address(1, "192.0.2.77");
    EXPECT_EQ(borrowed(), "2001:db8:11::1") << "a fresh one before a deprecated one";
    EXPECT_EQ(borrowed("203.0.113.1"), "192.0.2.77");
    net_.addresses.insert(net_.addresses.begin(), {4, address("172.17.0.1"), 16});
    EXPECT_EQ(borrowed("203.0.113.1"), "192.0.2.77") << "a public one for a public SNAPT";
}

TEST_F(BorrowedAddressesTest, AreNoneOfAnotherNetwork) {
    add_address(5, "2001:db8:5::5");
    add_route(5, "::/0");
    kernel6_ = "2001:db8:5::5";
    EXPECT_EQ(borrowed(), "");
    net_.routes[1].preferred_source = address("2001:db8:5::5");
    EXPECT_EQ(borrowed(), "2001:db8:5::5") << "its route says so";
    net_.routes[1].preferred_source.reset();
    add_address(4, "2001:db8:11::1");
    EXPECT_EQ(borrowed(), "") << "what the kernel would not use is not guessed";
}

TEST_F(BorrowedAddressesTest, AreNoneOfATunnel) {
    net_.links[3].kind = "wireguard";
    add_address(4, "2001:db8:11::1");
    kernel6_ = "2001:db8:11::1";
    EXPECT_EQ(borrowed(), "");
    net_.routes[1].preferred_source = address("2001:db8:11::1");
    EXPECT_EQ(borrowed(), "2001:db8:11::1") << "its route says so";
}

TEST_F(BorrowedAddressesTest, AreKeptWhileTheyMayBeLent) {
    add_address(4, "2001:db8:11::1");
    add_address(4, "2001:db8:11::7");
    in_use_ = {{3, address("2001:db8:11::1"), 128}};
    kernel6_ = "2001:db8:11::7";
    EXPECT_EQ(borrowed(), "2001:db8:11::1");
    const netlink::RouteEntry route = net_.routes[1];
    net_.routes.erase(net_.routes.begin() + 1);
    EXPECT_EQ(borrowed(), "2001:db8:11::1") << "routes may be replaced in two steps";
    net_.routes.push_back(route);
    net_.addresses[2].deprecated = true;
    EXPECT_EQ(borrowed(), "2001:db8:11::7") << "the prefix ends";
    net_.addresses[2].deprecated = false;
    net_.routes.back().preferred_source = address("2001:db8:11::7");
    EXPECT_EQ(borrowed(), "2001:db8:11::7") << "the route names another";
    net_.routes.back().preferred_source.reset();
    net_.addresses.erase(net_.addresses.begin() + 2);
    EXPECT_EQ(borrowed(), "2001:db8:11::7") << "it is gone";
    add_address(3, "2001:db8:13::3");
    EXPECT_EQ(borrowed(), "") << "it has one of its own";
}

TEST_F(BorrowedAddressesTest, AreNotPrivateForAPublicSnaptOverIpv6) {
    add_address(4, "fd00::1");
    add_address(4, "192.168.1.1");
    kernel6_ = "fd00::1";
    kernel4_ = "192.168.1.1";
    EXPECT_EQ(borrowed(), "");
    EXPECT_EQ(borrowed("fd09::9"), "fd00::1");
    EXPECT_EQ(borrowed("203.0.113.1"), "192.168.1.1") << "a NAT is usual there";
}

}  // namespace
}  // namespace continuo::cnapt::uplinks
