#include "cnapt/settings/node_id.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace continuo::cnapt::settings {
namespace {

class NodeIdTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = std::filesystem::temp_directory_path() / "continuo-node-id-XXXXXX";
        ASSERT_NE(::mkdtemp(path.data()), nullptr);
        folder_ = path;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    control::NodeId load() { return load_node_id(folder_ / "node_id", random_); }

    std::filesystem::path folder_;
    base::SeededRandom random_{1};
};

TEST_F(NodeIdTest, StaysTheSameAsLongAsItsFileDoes) {
    const control::NodeId first = load();
    EXPECT_EQ(load(), first);
    std::filesystem::remove(folder_ / "node_id");
    EXPECT_NE(load(), first);
}

TEST_F(NodeIdTest, WhatIsNoneIsReplaced) {
    for (const char* bad :
         {"", "\n", "AAAA", "not base 64, whatever it is", "AAAAAAAAAAAAAAAAAAAAAA"}) {
        std::ofstream(folder_ / "node_id") << bad;
        const control::NodeId id = load();
        EXPECT_NE(id, control::NodeId{});
        EXPECT_EQ(load(), id) << bad;
    }
}

TEST_F(NodeIdTest, WithoutAFolderThereIsOneForThisRun) {
    std::filesystem::remove_all(folder_);
    testing::internal::CaptureStderr();
    const control::NodeId id = load();
    EXPECT_NE(testing::internal::GetCapturedStderr().find("node_id"), std::string::npos);
    EXPECT_NE(load(), id);
}

}  // namespace
}  // namespace continuo::cnapt::settings
