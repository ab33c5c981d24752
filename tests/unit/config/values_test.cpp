#include "common/config/diagnostic.hpp"
#include "common/config/values.hpp"

#include <gtest/gtest.h>

namespace continuo::config {
namespace {

TEST(HostPort, TakesAddressesNamesAndTheDefaultPort) {
    EXPECT_EQ(HostPort::parse("203.0.113.9:9400"), (HostPort{"203.0.113.9", 9400}));
    EXPECT_EQ(HostPort::parse("[2001:db8:9::9]:9347"), (HostPort{"2001:db8:9::9", 9347}));
    EXPECT_EQ(HostPort::parse("2001:db8::1"), (HostPort{"2001:db8::1", kDefaultPort}));
    EXPECT_EQ(HostPort::parse("2001:DB8:0::1")->host, "2001:db8::1");
    EXPECT_EQ(HostPort::parse("[2001:db8::1]"), (HostPort{"2001:db8::1", kDefaultPort}));
    EXPECT_EQ(HostPort::parse("snapt.example.org:1"), (HostPort{"snapt.example.org", 1}));
    EXPECT_EQ(HostPort::parse("snapt.example.org"), (HostPort{"snapt.example.org", kDefaultPort}));
}

TEST(HostPort, KnowsWhetherItIsAnAddress) {
    EXPECT_EQ(HostPort::parse("[2001:db8::1]:5")->endpoint(),
              base::Endpoint::parse("[2001:db8::1]:5"));
    EXPECT_FALSE(HostPort::parse("a.example:5")->endpoint());
    EXPECT_EQ(HostPort::parse("2001:db8::1")->to_string(), "[2001:db8::1]:9347");
    EXPECT_EQ(HostPort::parse("a.example:5")->to_string(), "a.example:5");
}

TEST(HostPort, RefusesEverythingElse) {
    for (const std::string_view wrong :
         {"", ":5", "a:", "a:0", "a:65536", "a:5x", "a b:5", "[a]:5", "[192.0.2.1]:5",
          "[2001:db8::1", "[2001:db8::1]5", "2001:db8::1:99999", "300.1.2.3:5", "1.2.3:5", "-a:5",
          "a..b:5", "*:5"}) {
        EXPECT_FALSE(HostPort::parse(wrong)) << wrong;
    }
}

TEST(PortRange, TakesOnePortOrTwo) {
    EXPECT_EQ(PortRange::parse("1024-65535"), (PortRange{1024, 65535}));
    EXPECT_EQ(PortRange::parse("53"), (PortRange{53, 53}));
    EXPECT_EQ(PortRange::parse("53")->to_string(), "53");
    for (const std::string_view wrong :
         {"", "-", "5-", "-5", "6-5", "1-65536", "1-2-3", "a", "0", "0-5"}) {
        EXPECT_FALSE(PortRange::parse(wrong)) << wrong;
    }
}

TEST(Names, AreWhatReportsAndIdentitiesCanCarry) {
    EXPECT_FALSE(check_name("alice@example.org"));
    EXPECT_TRUE(check_name(""));
    EXPECT_TRUE(check_name("a/b"));
    EXPECT_TRUE(check_name("a>b"));
    EXPECT_TRUE(check_name(std::string(65, 'a')));
    EXPECT_FALSE(check_interface("br-lan.7"));
    EXPECT_TRUE(check_interface("wlan*"));
    EXPECT_FALSE(check_interface_glob("wlan*"));
    EXPECT_TRUE(check_interface("a/b"));
    EXPECT_TRUE(check_interface("sixteen-letters-"));
}

TEST(Printable, ShowsForeignTextSafely) {
    EXPECT_EQ(printable("a\x1b[31m"), "a\\x1b[31m");
    EXPECT_EQ(printable(std::string(200, 'a')).size(), 83U);
    EXPECT_EQ(printable("a\xC2\x9B"), "a\\xc2\\x9b");
    EXPECT_EQ(quote("a\xC2\x9B"), "\"a\\u009b\"");
    EXPECT_EQ(printable("a\xE2\x80\xAE\x9B"), "a\\xe2\\x80\\xae\\x9b");
    EXPECT_EQ(quote("a\xE2\x80\xAE"), "\"a\\u202e\"");
    // No character is cut in two.
    EXPECT_EQ(printable(std::string(79, 'a') + "\xC3\xA4"), std::string(79, 'a') + "...");
    EXPECT_EQ(quoted_value("\x07"), "\"\\u0007\"");
    EXPECT_EQ(quote("a\"\\\n"), "\"a\\\"\\\\\\u000a\"");
}

}  // namespace
}  // namespace continuo::config
