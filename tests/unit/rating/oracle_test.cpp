// rate() against tests/support/price_oracle.py, which has the formulas a second time.
#include "rating/rate.hpp"
#include "tests/unit/rating/plans.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace continuo::rating {
namespace {

constexpr size_t kRecords = 100'000;
constexpr size_t kRecordsOfRandomPlans = 2'000;
constexpr int kRandomPlans = 12;
// A double does not hold every digit of larger charges through five multiplications.
constexpr int64_t kExactUd = int64_t{1} << 49U;

std::string said_by_oracle(const std::string& arguments) {
    const std::string command = CONTINUO_SOURCE_DIR "/tests/support/price_oracle.py " + arguments;
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string text;
    std::array<char, 4096> part{};
    for (size_t got = 1; pipe && got > 0;) {
        got = fread(part.data(), 1, part.size(), pipe.get());
        text.append(part.data(), got);
    }
    return text;
}

// A file that goes with it.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& text) : path_(testing::TempDir() + "planXXXXXX") {
        const int fd = mkstemp(path_.data());
        EXPECT_GE(fd, 0);
        EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        close(fd);
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() { unlink(path_.c_str()); }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

bool are_near(int64_t one, int64_t other) {
    const int64_t tolerance = std::max<int64_t>(1, one / kExactUd);
    return std::abs(one - other) <= tolerance;
}

// Rates the record of a line and compares.
void check_line(const Plan& plan, const std::string& line) {
    std::istringstream words(line);
    std::string token;
    std::string delay_us;
    Usage usage;
    double multiplier = 0;
    std::array<int64_t, 4> wanted{};
    words >> token >> usage.payload_bytes >> usage.active_us >> delay_us >> usage.pre_bytes >>
        usage.post_bytes >> usage.has_sharer >> multiplier;
    for (int64_t& number : wanted) {
        words >> number;
    }
    const auto traffic_class = base::parse_traffic_class(token);
    ASSERT_TRUE(words && traffic_class) << line;
    usage.traffic_class = *traffic_class;
    if (delay_us != "-") {
        usage.delay_us = std::stoll(delay_us);
    }
    const Charge charge = rate(plan, usage, multiplier);
    const std::array<int64_t, 4> given = {charge.gross_ud, charge.discount_ud, charge.net_ud,
                                          charge.reward_ud};
    for (size_t i = 0; i < given.size(); ++i) {
        ASSERT_TRUE(are_near(given[i], wanted[i])) << line << ": " << i << " is " << given[i];
    }
}

size_t check_records(const Plan& plan, const std::string& path, size_t count) {
    std::istringstream lines(said_by_oracle("records " + path + " 1 " + std::to_string(count)));
    size_t checked = 0;
    for (std::string line; std::getline(lines, line); ++checked) {
        check_line(plan, line);
        if (testing::Test::HasFatalFailure()) {
            break;
        }
    }
    return checked;
}

TEST(Oracle, ChargesAHundredThousandRecordsTheSame) {
    const auto plan = tests::shipped_plan();
    ASSERT_TRUE(plan);
    EXPECT_EQ(check_records(*plan, tests::kShippedPlan, kRecords), kRecords);
}

TEST(Oracle, ChargesTheSameUnderAnyPlan) {
    for (int seed = 1; seed <= kRandomPlans && !HasFailure(); ++seed) {
        const std::string text = said_by_oracle("plan " + std::to_string(seed));
        const ParsedPlan parsed = parse_plan(text, "plan.toml", PlanUse::Stored);
        ASSERT_TRUE(parsed.plan) << tests::joined(parsed.diagnostics);
        const TemporaryFile file(text);
        EXPECT_EQ(check_records(*parsed.plan, file.path(), kRecordsOfRandomPlans),
                  kRecordsOfRandomPlans)
            << "plan " << seed;
    }
}

TEST(Oracle, MadeTheShippedPlan) {
    EXPECT_EQ(tests::text_of_file(tests::kShippedPlan), said_by_oracle("shipped"));
}

}  // namespace
}  // namespace continuo::rating
