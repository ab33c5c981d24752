#include "common/config/prefixes.hpp"

#include <gtest/gtest.h>

namespace continuo::config {
namespace {

// The diagnostics of reading `list` as the prefixes of "p".
std::vector<std::string> said_of(const std::string& list) {
    DiagnosticSink sink("f");
    const auto tree = parse_toml("p = " + list + "\n", sink);
    EXPECT_TRUE(tree) << list;
    Section root(*tree, "", sink);
    read_prefixes(root, "p");
    std::vector<std::string> lines;
    for (const Diagnostic& diagnostic : sink.take()) {
        lines.push_back(to_text(diagnostic));
    }
    return lines;
}

TEST(Prefixes, DisjointOnesAreTakenAsTheyAre) {
    EXPECT_TRUE(said_of("[]").empty());
    EXPECT_TRUE(said_of(R"("192.0.2.0/24")").empty());
    EXPECT_TRUE(
        said_of(R"(["192.0.2.128/25", "192.0.2.0/25", "2001:db8::/32", "8000::/1"])").empty());
}

TEST(Prefixes, EveryPrefixInsideAnotherIsNamedOnce) {
    EXPECT_EQ(
        said_of(R"(["10.1.0.0/16", "10.1.2.0/24", "10.0.0.0/8", "11.0.0.0/8"])"),
        (std::vector<std::string>{
            "f:1:6: warning: \"p\" holds \"10.1.0.0/16\", a part of \"10.0.0.0/8\"; expected "
            "prefixes that do not overlap",
            "f:1:21: warning: \"p\" holds \"10.1.2.0/24\", a part of \"10.0.0.0/8\"; expected "
            "prefixes that do not overlap"}));
}

TEST(Unicast, IsWhatOneHostMayHave) {
    for (const char* good : {"192.0.2.1", "127.0.0.1", "2001:db8::1", "fe80::1", "::1"}) {
        EXPECT_TRUE(is_unicast(*base::IpAddress::parse(good))) << good;
    }
    for (const char* bad :
         {"0.0.0.0", "::", "224.0.0.1", "239.1.2.3", "255.255.255.255", "ff02::1"}) {
        EXPECT_FALSE(is_unicast(*base::IpAddress::parse(bad))) << bad;
    }
}

}  // namespace
}  // namespace continuo::config
