#include "common/io/cpu_pressure.hpp"

#include <gtest/gtest.h>

namespace continuo::io {
namespace {

TEST(CpuPressure, ReadsTheTimeForWhichAtLeastOneHasWaited) {
    EXPECT_EQ(CpuPressure::parse("some avg10=1.53 avg60=0.40 avg300=0.10 total=1844674\n"
                                 "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
              base::microseconds(1'844'674));
    EXPECT_EQ(CpuPressure::parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=0"),
              base::microseconds(0));
}

TEST(CpuPressure, OtherTextIsNoValue) {
    for (const char* text :
         {"", "some", "full avg10=0.00 total=7\n", "some avg10=0.00\nfull total=7\n",
          "some total=\n", "some total=7x\n", "some total=-7\n", "some total=1e3\n",
          "some total=18446744073709551615\n", "some total=99999999999999999999999\n"}) {
        EXPECT_FALSE(CpuPressure::parse(text)) << text;
    }
}

TEST(CpuPressure, NeverShrinks) {
    const CpuPressure pressure;
    const auto before = pressure.waited();
    if (!before) {
        GTEST_SKIP() << "this kernel has no /proc/pressure/cpu";
    }
    EXPECT_GE(*pressure.waited(), *before);
}

}  // namespace
}  // namespace continuo::io
