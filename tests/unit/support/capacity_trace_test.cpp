#include "tests/support/link/capacity_trace.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;

std::string fault_of(std::string_view text) {
    std::string fault;
    EXPECT_FALSE(CapacityTrace::parse(text, "car.down", fault).has_value()) << text;
    return fault;
}

CapacityTrace trace_of(std::string_view text) {
    std::string fault;
    auto trace = CapacityTrace::parse(text, "test", fault);
    EXPECT_EQ(fault, "");
    return *trace;
}

TEST(CapacityTrace, RepeatsAfterItsLastLine) {
    const CapacityTrace trace = trace_of("0\n5\n5\n10\n");
    EXPECT_EQ(trace.period(), milliseconds(10));
    EXPECT_EQ(trace.opportunities(), 4U);
    const int expected[] = {0, 5, 5, 10, 10, 15, 15, 20, 20, 25};
    for (uint64_t i = 0; i < std::size(expected); ++i) {
        EXPECT_EQ(trace.time_of(i), milliseconds(expected[i])) << i;
    }
}

TEST(CapacityTrace, FindsTheFirstOpportunityLaterThanAnyTime) {
    const CapacityTrace trace = trace_of("3\n7\n7\n10");
    for (int us = -2000; us < 45000; us += 250) {
        const base::Duration at = base::microseconds(us);
        const uint64_t found = trace.first_after(at);
        EXPECT_GT(trace.time_of(found), at);
        EXPECT_TRUE(found == 0 || trace.time_of(found - 1) <= at) << us << " us";
    }
}

TEST(CapacityTrace, BadFilesAreRefusedWithFileAndLine) {
    EXPECT_EQ(fault_of(""), "car.down:1: no opportunity in it");
    EXPECT_EQ(fault_of("1\n2\nthree\n"),
              "car.down:3: not a whole number of milliseconds: \"three\"");
    EXPECT_EQ(fault_of("1\n\n2\n"), "car.down:2: not a whole number of milliseconds: \"\"");
    EXPECT_EQ(fault_of("1\n2.5\n"), "car.down:2: not a whole number of milliseconds: \"2.5\"");
    EXPECT_EQ(fault_of("-1\n"), "car.down:1: not a whole number of milliseconds: \"-1\"");
    EXPECT_EQ(fault_of("99999999999\n"),
              "car.down:1: not a whole number of milliseconds: \"99999999999\"");
    EXPECT_EQ(fault_of("1\r\n"), "car.down:1: not a whole number of milliseconds: \"1\r\"");
    EXPECT_EQ(fault_of("4\n9\n8\n"), "car.down:3: 8 is before 9 of the line above");
    EXPECT_EQ(fault_of("0\n0\n"), "car.down:2: the last line is the period and must be above 0");
}

TEST(CapacityTrace, AFileThatIsNotThereOrNoFileIsAFault) {
    std::string fault;
    EXPECT_FALSE(CapacityTrace::load("/nonexistent/trace", fault).has_value());
    EXPECT_EQ(fault, "/nonexistent/trace: cannot be read");
    fault.clear();
    EXPECT_FALSE(CapacityTrace::load("/", fault).has_value());
    EXPECT_NE(fault, "");
}

TEST(CapacityTrace, RecordedTracesAreRead) {
    const std::filesystem::path folder(CONTINUO_SOURCE_DIR "/../shared/data/traces");
    if (!std::filesystem::is_directory(folder)) {
        GTEST_SKIP() << "no " << folder;
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        std::string fault;
        const auto trace = CapacityTrace::load(entry.path(), fault);
        ASSERT_TRUE(trace.has_value()) << fault;
        std::ifstream file(entry.path());
        std::string line;
        uint64_t number = 0;
        while (std::getline(file, line)) {
            ASSERT_EQ(trace->time_of(number++), milliseconds(std::stoi(line))) << entry.path();
        }
        EXPECT_EQ(trace->opportunities(), number);
    }
}

}  // namespace
}  // namespace continuo::tests
