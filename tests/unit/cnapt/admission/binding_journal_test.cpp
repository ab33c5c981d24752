#include "cnapt/admission/binding_journal.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace continuo::cnapt::admission {
namespace {

packet::FiveTuple flow(uint16_t port) {
    packet::FiveTuple tuple;
    tuple.local = *base::IpAddress::parse("192.0.0.5");
    tuple.remote = *base::IpAddress::parse("203.0.113.10");
    tuple.local_port = port;
    tuple.remote_port = 443;
    tuple.protocol = packet::Protocol::Tcp;
    return tuple;
}

class BindingJournalTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = std::filesystem::temp_directory_path() / "continuo-journal-XXXXXX";
        ASSERT_NE(::mkdtemp(path.data()), nullptr);
        folder_ = path;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    BindingJournal open(size_t flows = 1000) {
        auto journal = BindingJournal::open(file(), flows, random_);
        EXPECT_TRUE(journal);
        return std::move(*journal);
    }
    std::string file() const { return folder_ / "bindings"; }

    std::filesystem::path folder_;
    base::SeededRandom random_{1};
};

TEST_F(BindingJournalTest, KnowsBindingsOfTheRunBefore) {
    {
        BindingJournal journal = open();
        journal.bind(flow(1), "zrh-1");
        journal.bind(flow(2), "zrh-2");
        journal.bind(flow(3), "zrh-1");
        journal.release(flow(3));
        journal.bind(flow(2), "zrh-3");
    }
    const BindingJournal journal = open();
    EXPECT_TRUE(journal.is_bound_to(flow(1), "zrh-1"));
    EXPECT_FALSE(journal.is_bound_to(flow(1), "zrh-2"));
    EXPECT_TRUE(journal.is_bound_to(flow(2), "zrh-3")) << "the last binding counts";
    EXPECT_FALSE(journal.is_bound_to(flow(3), "zrh-1"));
    EXPECT_FALSE(journal.is_bound_to(flow(4), "zrh-1"));
}

TEST_F(BindingJournalTest, HoldsWhatItWasMadeForAndForgetsWithoutHarmBeyond) {
    BindingJournal journal = open(1000);
    for (uint16_t port = 1; port <= 1000; ++port) {
        journal.bind(flow(port), "zrh-1");
    }
    size_t known = 0;
    for (uint16_t port = 1; port <= 1000; ++port) {
        known += journal.is_bound_to(flow(port), "zrh-1") ? 1U : 0U;
    }
    EXPECT_GE(known, 990U);
    const auto bytes = std::filesystem::file_size(file());
    for (uint32_t port = 1; port <= 65535; ++port) {
        journal.bind(flow(static_cast<uint16_t>(port)), "zrh-1");
    }
    EXPECT_TRUE(journal.is_bound_to(flow(65535), "zrh-1"));
    EXPECT_EQ(std::filesystem::file_size(file()), bytes);
}

TEST_F(BindingJournalTest, AFileOfAnotherSizeOrContentBeginsAnew) {
    open(1000).bind(flow(1), "zrh-1");
    EXPECT_FALSE(open(100'000).is_bound_to(flow(1), "zrh-1"));
    open(100'000).bind(flow(1), "zrh-1");
    {
        std::ofstream garbage(file(), std::ios::trunc);
        garbage << std::string(100, 'x');
    }
    BindingJournal journal = open(100'000);
    EXPECT_FALSE(journal.is_bound_to(flow(1), "zrh-1"));
    journal.bind(flow(1), "zrh-1");
    EXPECT_TRUE(journal.is_bound_to(flow(1), "zrh-1"));
}

TEST_F(BindingJournalTest, AFileThatCannotBeOpenedIsAnError) {
    EXPECT_FALSE(BindingJournal::open(folder_ / "none" / "bindings", 10, random_));
}

}  // namespace
}  // namespace continuo::cnapt::admission
