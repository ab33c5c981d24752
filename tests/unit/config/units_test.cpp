#include "common/config/units.hpp"

#include <gtest/gtest.h>

namespace continuo::config {
namespace {

using base::milliseconds;
using base::seconds;

TEST(Units, ReadsDurations) {
    EXPECT_EQ(parse_duration("50ms"), milliseconds(50));
    EXPECT_EQ(parse_duration("0.5 s"), milliseconds(500));
    EXPECT_EQ(parse_duration(" 2h "), seconds(7200));
    EXPECT_EQ(parse_duration("1.000000001s"), base::Duration(1'000'000'001));
    EXPECT_EQ(parse_duration("3d"), seconds(3 * 86'400));
    for (const std::string_view wrong :
         {"", "50", "ms", "-5ms", "5.ms", "5 parsecs", "300000000000s", "99999999999999999999s",
          "5msx", "1e3s"}) {
        EXPECT_FALSE(parse_duration(wrong)) << wrong;
    }
}

TEST(Units, ReadsSizesInBothPowers) {
    EXPECT_EQ(parse_size_bytes("50GiB"), 53'687'091'200U);
    EXPECT_EQ(parse_size_bytes("50GB"), 50'000'000'000U);
    EXPECT_EQ(parse_size_bytes("1.5KiB"), 1536U);
    EXPECT_EQ(parse_size_bytes("4096"), 4096U);
    EXPECT_EQ(parse_size_bytes("18446744073709551615"), UINT64_MAX);
    EXPECT_EQ(parse_size_bytes("16777215.999999TiB"),
              std::optional<uint64_t>(18446744073708452104U));
    for (const std::string_view wrong : {"", "GiB", "16777216TiB", "5Gib", "-1", "1,5MB"}) {
        EXPECT_FALSE(parse_size_bytes(wrong)) << wrong;
    }
}

TEST(Units, ReadsRates) {
    EXPECT_EQ(parse_rate_bits_per_s("2mbit"), 2'000'000U);
    EXPECT_EQ(parse_rate_bits_per_s("2 Mbit/s"), 2'000'000U);
    EXPECT_EQ(parse_rate_bits_per_s("0.5gbit"), 500'000'000U);
    EXPECT_EQ(parse_rate_bits_per_s("64000"), 64'000U);
    EXPECT_FALSE(parse_rate_bits_per_s("2mb"));
    EXPECT_FALSE(parse_rate_bits_per_s("2/s"));
}

TEST(Units, ReadsQuotas) {
    EXPECT_EQ(parse_quota("50GiB/month"), (Quota{53'687'091'200, QuotaPeriod::Month}));
    EXPECT_EQ(parse_quota("1MB"), (Quota{1'000'000, QuotaPeriod::Total}));
    EXPECT_EQ(to_string(QuotaPeriod::Week), "week");
    EXPECT_FALSE(parse_quota("50GiB/"));
    EXPECT_FALSE(parse_quota("50GiB/total"));
    EXPECT_FALSE(parse_quota("50GiB/fortnight"));
}

TEST(Units, ReadsPercentagesFromOneToHundred) {
    EXPECT_EQ(parse_percent("70%"), 70);
    EXPECT_EQ(parse_percent("100%"), 100);
    for (const std::string_view wrong : {"0%", "101%", "70", "%", "7.5%", "-1%"}) {
        EXPECT_FALSE(parse_percent(wrong)) << wrong;
    }
}

TEST(Units, KnowsTheCodePointsOfTheRfcs) {
    EXPECT_EQ(parse_dscp("ef"), 46);
    EXPECT_EQ(parse_dscp("AF41"), 34);
    EXPECT_EQ(parse_dscp("af13"), 14);
    EXPECT_EQ(parse_dscp("cs1"), 8);
    EXPECT_EQ(parse_dscp("cs7"), 56);
    EXPECT_EQ(parse_dscp("le"), 1);
    EXPECT_EQ(parse_dscp("63"), 63);
    for (const std::string_view wrong : {"", "af44", "af51", "af40", "cs8", "64", "-1", "ef1"}) {
        EXPECT_FALSE(parse_dscp(wrong)) << wrong;
    }
}

}  // namespace
}  // namespace continuo::config
