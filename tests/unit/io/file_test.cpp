#include "common/host/system_random.hpp"
#include "common/io/file.hpp"

#include <array>
#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::io {
namespace {

class FileTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "continuo-io-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
    }
    void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + directory_ + "'").c_str()), 0); }
    std::string path(const std::string& name) const { return directory_ + "/" + name; }

  private:
    std::string directory_;
};

TEST_F(FileTest, WrittenContentIsReadBackWithItsMode) {
    ASSERT_TRUE(write_file_atomically(path("a"), "one"));
    ASSERT_TRUE(write_file_atomically(path("a"), "two\n", 0640));
    const auto content = read_file(path("a"), 100);
    ASSERT_TRUE(content);
    EXPECT_EQ(*content, "two\n");
    struct stat status {};
    ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST_F(FileTest, FailedWriteLeavesTheOldContentAndNoTemporaryFile) {
    ASSERT_TRUE(make_directories(path("d/a")));
    ASSERT_TRUE(write_file_atomically(path("d/a/old"), "old"));
    // A directory cannot be replaced by a file.
    EXPECT_FALSE(write_file_atomically(path("d/a"), "new"));
    EXPECT_EQ(*read_file(path("d/a/old"), 10), "old");
    EXPECT_EQ(std::system(("test $(ls '" + path("d") + "' | wc -l) -eq 1").c_str()), 0);
}

TEST_F(FileTest, LongerThanTheLimitIsRefusedAndTheLimitItselfIsNot) {
    ASSERT_TRUE(write_file_atomically(path("a"), std::string(20000, 'x')));
    EXPECT_TRUE(read_file(path("a"), 20000));
    const auto refused = read_file(path("a"), 19999);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, base::Errc::LimitReached);
}

TEST_F(FileTest, MissingFileIsNotFoundAndRemovingItIsNoError) {
    const auto missing = read_file(path("missing"), 10);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, base::Errc::NotFound);
    EXPECT_TRUE(remove_file(path("missing")));
}

TEST_F(FileTest, MakingDirectoriesTwiceIsFineAndAFileInTheWayIsNot) {
    EXPECT_TRUE(make_directories(path("x/y/z")));
    EXPECT_TRUE(make_directories(path("x/y/z/")));
    ASSERT_TRUE(write_file_atomically(path("x/f"), ""));
    EXPECT_FALSE(make_directories(path("x/f")));
    EXPECT_FALSE(make_directories(path("x/f/g")));
}

TEST_F(FileTest, LockIsHeldByOneUntilReleased) {
    {
        const auto first = LockFile::acquire(path("lock"));
        ASSERT_TRUE(first);
        const auto second = LockFile::acquire(path("lock"));
        ASSERT_FALSE(second);
        EXPECT_EQ(second.error().code, base::Errc::InvalidState);
    }
    EXPECT_TRUE(LockFile::acquire(path("lock")));
}

TEST(SystemRandom, TwoDrawsDiffer) {
    host::SystemRandom random;
    std::array<uint8_t, 32> first{};
    std::array<uint8_t, 32> second{};
    random.fill(first);
    random.fill(second);
    EXPECT_NE(first, second);
    random.fill({});
}

}  // namespace
}  // namespace continuo::io
