#include "snapt/nat_log.hpp"
#include "snapt/nat_question.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>

namespace continuo::snapt {
namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kDay = 86'400 * kSecond;
constexpr int64_t kMorning = 1'796'083'200 * kSecond;  // 2026-12-01T00:00:00Z

io::TrackedConnection connection(const char* source,
                                 uint16_t translated_port,
                                 const char* destination = "198.51.100.2",
                                 uint8_t protocol = IPPROTO_TCP) {
    io::TrackedConnection made;
    made.source = *base::IpAddress::parse(source);
    made.source_port = 5000;
    made.translated = *base::IpAddress::parse(made.source.is_v4() ? "203.0.113.9" : "2001:db8::9");
    made.translated_port = translated_port;
    made.protocol = protocol;
    made.destination = *base::IpAddress::parse(destination);
    made.destination_port = 443;
    return made;
}

class NatLogTest : public testing::Test {
  protected:
    NatLogTest() {
        std::string name = testing::TempDir() + "nat-log-XXXXXX";
        folder_ = mkdtemp(name.data());
        owners_.set(*base::IpAddress::parse("100.64.0.2"), {"alice", "laptop", 1});
        owners_.set(*base::IpAddress::parse("100.64.0.3"), {"bob", "phone", 2});
        owners_.set(*base::IpAddress::parse("fd93:47::2"), {"alice", "laptop", 1});
    }
    ~NatLogTest() override { std::filesystem::remove_all(folder_); }

    NatLog log() { return NatLog({folder_ + "/nat", 2, has_destinations_}, owners_); }
    base::Result<NatAnswer>
    ask(int64_t at_us, uint16_t port = 40000, const char* address = "203.0.113.9") {
        NatQuestion question;
        question.outer = {*base::IpAddress::parse(address), port};
        question.protocol = protocol_;
        question.from_us = at_us;
        question.to_us = at_us + kSecond - 1;
        return find_nat_uses(folder_ + "/nat", question);
    }
    // "alice bob", with a star where not all of that time was logged.
    std::string users(int64_t at_us, uint16_t port = 40000, const char* address = "203.0.113.9") {
        const auto answer = ask(at_us, port, address);
        if (!answer) {
            return "error";
        }
        std::string names;
        for (const NatUse& use : answer->uses) {
            names += (names.empty() ? "" : " ") + use.user;
        }
        return names + (answer->is_whole ? "" : "*");
    }
    std::vector<std::string> files() const {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/nat")) {
            names.push_back(entry.path().filename());
        }
        std::sort(names.begin(), names.end());
        return names;
    }

    std::string folder_;
    NatOwners owners_;
    bool has_destinations_ = true;
    std::optional<std::string> protocol_;
};

TEST_F(NatLogTest, SaysWhoHadAnAddressAndPortAtATime) {
    NatLog log = this->log();
    const int64_t noon = kMorning + kDay / 2;
    log.start(noon);
    log.begin(connection("100.64.0.2", 40000), noon + 10 * kSecond);
    log.begin(connection("fd93:47::2", 40000, "2001:db8:1::2"), noon + 10 * kSecond);
    log.end(connection("100.64.0.2", 40000), noon + 20 * kSecond);
    log.begin(connection("100.64.0.3", 40000), noon + 30 * kSecond);
    log.flush(noon + 40 * kSecond);
    EXPECT_EQ(users(noon + 9 * kSecond - 1), "");
    EXPECT_EQ(users(noon + 10 * kSecond), "alice");
    EXPECT_EQ(users(noon + 20 * kSecond), "alice");
    EXPECT_EQ(users(noon + 21 * kSecond), "");
    EXPECT_EQ(users(noon + 35 * kSecond), "bob");
    EXPECT_EQ(users(noon + 10 * kSecond, 40001), "");
    EXPECT_EQ(users(noon + 10 * kSecond, 4000), "") << "a part of the number";
    EXPECT_EQ(users(noon + 10 * kSecond, 40000, "2001:db8::9"), "alice");
    const NatAnswer answer = ask(noon + 15 * kSecond).value();
    ASSERT_EQ(answer.uses.size(), 1U);
    EXPECT_EQ(answer.uses[0].node, "laptop");
    EXPECT_EQ(answer.uses[0].account_id, 1);
    EXPECT_EQ(answer.uses[0].inner, "100.64.0.2");
    EXPECT_EQ(answer.uses[0].from_us, noon + 10 * kSecond);
    EXPECT_EQ(answer.uses[0].until_us, noon + 20 * kSecond);
    EXPECT_TRUE(answer.uses[0].is_from_known);
    EXPECT_EQ(answer.uses[0].destination->to_string(), "198.51.100.2:443");
    EXPECT_EQ(log.counters().lines, 5U);
}

TEST_F(NatLogTest, APortMayBeOfSeveralToDifferentDestinations) {
    NatLog log = this->log();
    log.start(kMorning);
    log.begin(connection("100.64.0.2", 40000, "198.51.100.2"), kMorning);
    log.begin(connection("100.64.0.3", 40000, "198.51.100.3"), kMorning);
    log.begin(connection("100.64.0.3", 40000, "198.51.100.3", IPPROTO_UDP), kMorning);
    log.flush(kMorning + kSecond);
    EXPECT_EQ(users(kMorning), "alice bob bob");
    protocol_ = "udp";
    EXPECT_EQ(users(kMorning), "bob");
}

TEST_F(NatLogTest, DestinationsAreLoggedOnRequestOnly) {
    has_destinations_ = false;
    NatLog log = this->log();
    log.start(kMorning);
    log.begin(connection("100.64.0.2", 40000), kMorning);
    log.stop(kMorning + kSecond);
    EXPECT_FALSE(ask(kMorning).value().uses.at(0).destination);
    std::ifstream file(nat_file(folder_ + "/nat", kMorning));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(text.find("198.51"), std::string::npos) << text;
}

// The kernel tells no end of connections from before, nor of those that it could not tell.
TEST_F(NatLogTest, WhatIsNotThereAnyMoreHasEndedAndWhatIsThereIsFound) {
    NatLog log = this->log();
    log.start(kMorning);
    const std::vector<io::TrackedConnection> first = {connection("100.64.0.2", 40000)};
    log.all_there(first, kMorning);
    log.begin(connection("100.64.0.2", 40000), kMorning + kSecond / 2);  // told late
    log.begin(connection("100.64.0.3", 40001), kMorning + kSecond);
    const std::vector<io::TrackedConnection> second = {connection("100.64.0.3", 40001),
                                                       connection("100.64.0.3", 40002)};
    log.all_there(second, kMorning + 600 * kSecond);
    log.flush(kMorning + 700 * kSecond);
    EXPECT_EQ(users(kMorning + 599 * kSecond), "alice");
    EXPECT_EQ(users(kMorning + 601 * kSecond), "");
    EXPECT_EQ(users(kMorning + 300 * kSecond, 40002), "");
    EXPECT_EQ(users(kMorning + 650 * kSecond, 40002), "bob");
    EXPECT_FALSE(ask(kMorning + 650 * kSecond, 40002).value().uses[0].is_from_known);
    EXPECT_EQ(ask(kMorning).value().uses.size(), 1U);
    EXPECT_EQ(log.counters().open, 2U);
}

TEST_F(NatLogTest, ADayHasAllThatGoesOnFromTheDayBeforeAndOldFilesGo) {
    NatLog log = this->log();
    log.start(kMorning - kSecond);
    log.begin(connection("100.64.0.2", 40000), kMorning - kSecond);
    for (int day = 0; day < 4; ++day) {
        log.flush(kMorning + day * kDay);
    }
    EXPECT_EQ(files(), (std::vector<std::string>{"nat-2026-12-02.csv", "nat-2026-12-03.csv",
                                                 "nat-2026-12-04.csv"}))
        << "of two days beside today's";
    log.end(connection("100.64.0.2", 40000), kMorning + 3 * kDay + 100 * kSecond);
    log.flush(kMorning + 3 * kDay + 101 * kSecond);
    const NatAnswer answer = ask(kMorning + 3 * kDay + 50 * kSecond).value();
    ASSERT_EQ(answer.uses.size(), 1U);
    EXPECT_EQ(answer.uses[0].from_us, kMorning - kSecond);
    EXPECT_EQ(answer.uses[0].until_us, kMorning + 3 * kDay + 100 * kSecond);
    EXPECT_EQ(ask(kMorning).error().code, base::Errc::NotFound);
}

TEST_F(NatLogTest, SaysWhenNobodyWasLogging) {
    {
        NatLog log = this->log();
        log.start(kMorning + 100 * kSecond);
        log.begin(connection("100.64.0.2", 40000), kMorning + 110 * kSecond);
        log.flush(kMorning + 120 * kSecond);  // and a crash
    }
    EXPECT_EQ(users(kMorning + 50 * kSecond), "*");
    EXPECT_EQ(users(kMorning + 115 * kSecond), "alice");
    EXPECT_EQ(users(kMorning + 119 * kSecond), "alice");
    std::ofstream(nat_file(folder_ + "/nat", kMorning), std::ios::app) << "17960832";  // cut
    NatLog log = this->log();
    log.start(kMorning + 900 * kSecond);
    const std::vector<io::TrackedConnection> there = {connection("100.64.0.2", 40000)};
    log.all_there(there, kMorning + 900 * kSecond);
    log.note_overrun(kMorning + 1000 * kSecond);
    log.flush(kMorning + 1001 * kSecond);
    EXPECT_EQ(users(kMorning + 105 * kSecond), "");
    EXPECT_EQ(users(kMorning + 500 * kSecond), "alice*") << "had it when the log broke off";
    EXPECT_EQ(users(kMorning + 901 * kSecond), "alice*") << "some were not told then";
    EXPECT_EQ(users(kMorning + 1001 * kSecond), "alice");
    EXPECT_EQ(users(kMorning + 1500 * kSecond), "alice*") << "the log ends before";
}

TEST_F(NatLogTest, WhatTheDiskDoesNotTakeIsCountedAndSaid) {
    std::ofstream(folder_ + "/nat");  // no folder can be made there
    NatLog log = this->log();
    log.start(kMorning);
    for (uint32_t i = 0; log.counters().lost_lines == 0 && i < 400'000; ++i) {
        const auto one = connection("100.64.0.2", static_cast<uint16_t>(i % 60'000 + 1));
        log.begin(one, kMorning + i * 2);
        log.end(one, kMorning + i * 2 + 1);
    }
    EXPECT_GT(log.counters().lost_lines, 10'000U);
    log.flush(kMorning + kSecond);
    EXPECT_TRUE(log.counters().has_write_error);
    std::filesystem::remove(folder_ + "/nat");
    log.flush(kMorning + 2 * kSecond);
    EXPECT_FALSE(log.counters().has_write_error);
    EXPECT_TRUE(users(kMorning).ends_with('*'));
}

TEST(NatQuestionText, IsReadOrSaysWhatIsExpected) {
    std::string failure;
    NatQuestionText text;
    text.outer = "203.0.113.9:40001";
    text.at = "2026-12-01T12:00:00";
    text.zone = "Europe/Zurich";
    text.within = "5";
    const auto question = parse_nat_question(text, failure);
    ASSERT_TRUE(question) << failure;
    EXPECT_EQ(question->from_us, kMorning + (11 * 3600 - 5) * kSecond);
    EXPECT_EQ(question->to_us, kMorning + (11 * 3600 + 6) * kSecond - 1);
    text.at = "1796083200";
    EXPECT_EQ(parse_nat_question(text, failure)->from_us, kMorning - 5 * kSecond);
    for (const char* wrong : {"", "203.0.113.9", "203.0.113.9:0", "host:1", "1.2.3.4:70000"}) {
        NatQuestionText other = text;
        other.outer = wrong;
        EXPECT_FALSE(parse_nat_question(other, failure)) << wrong;
    }
    for (const char* wrong : {"-1", "3601", "x"}) {
        NatQuestionText other = text;
        other.within = wrong;
        EXPECT_FALSE(parse_nat_question(other, failure)) << wrong;
    }
    text.protocol = "icmp";
    EXPECT_FALSE(parse_nat_question(text, failure));
    text.protocol.reset();
    text.at = "yesterday";
    EXPECT_FALSE(parse_nat_question(text, failure));
}

}  // namespace
}  // namespace continuo::snapt
