#include "common/io/delayed_writer.hpp"
#include "common/io/file.hpp"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::io {
namespace {

class DelayedWriting : public testing::Test {
  protected:
    DelayedWriting() {
        std::string pattern = std::filesystem::temp_directory_path() / "delayed.XXXXXX";
        folder_ = ::mkdtemp(pattern.data());
        path_ = folder_ + "/file";
    }
    ~DelayedWriting() override { std::filesystem::remove_all(folder_); }

    UniqueFd open(bool append = false) {
        auto file = open_private_file(path_, append);
        EXPECT_TRUE(file.has_value());
        return std::move(*file);
    }
    std::string content() const { return read_file(path_, size_t{64} << 20).value(); }
    static bool put(DelayedWriter& writer, std::string_view text) {
        const base::MutableByteView place = writer.reserve(text.size());
        std::copy_n(text.begin(), place.size(), place.begin());
        return !place.empty();
    }

    EventLoop loop_;
    std::string folder_;
    std::string path_;
};

TEST_F(DelayedWriting, ReachesTheFileSoonWithoutBeingAsked) {
    DelayedWriter writer(loop_, open(), [](int) {});
    ASSERT_TRUE(put(writer, "abc"));
    EXPECT_TRUE(loop_.run_until([&] { return content() == "abc"; }, base::seconds(10)));
    ASSERT_TRUE(put(writer, "def"));
    EXPECT_TRUE(loop_.run_until([&] { return content() == "abcdef"; }, base::seconds(10)));
}

TEST_F(DelayedWriting, LosesNothingAtItsEnd) {
    std::string expected;
    {
        DelayedWriter writer(loop_, open(), [](int) {});
        for (int i = 0; i < 3; ++i) {
            const std::string piece(kDelayedEnough, static_cast<char>('a' + i));
            ASSERT_TRUE(put(writer, piece));
            expected += piece;
        }
    }
    EXPECT_EQ(content(), expected);
}

TEST_F(DelayedWriting, RefusesWhatFindsNoRoomAndGoesOnLater) {
    DelayedWriter writer(loop_, open(), [](int) {});
    size_t taken = 0;
    const std::string piece(kDelayedEnough / 2, 'x');
    // The loop does not run meanwhile, so that no buffer comes back.
    while (taken < 64 && put(writer, piece)) {
        ++taken;
    }
    EXPECT_LE(taken, 2 * kDelayedBytes / piece.size());
    EXPECT_GE(taken, kDelayedBytes / piece.size());
    EXPECT_TRUE(writer.reserve(kDelayedBytes + 1).empty());
    EXPECT_TRUE(loop_.run_until([&] { return content().size() == taken * piece.size(); },
                                base::seconds(10)));
    EXPECT_TRUE(put(writer, piece));
}

TEST_F(DelayedWriting, TellsOnceWhatTheDiskDoesNotTake) {
    ASSERT_TRUE(open().is_open());  // makes the file
    int failures = 0;
    int error = 0;
    DelayedWriter writer(loop_, UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)),
                         [&](int reason) {
                             ++failures;
                             error = reason;
                         });
    ASSERT_TRUE(put(writer, "abc"));
    ASSERT_TRUE(loop_.run_until([&] { return failures > 0; }, base::seconds(10)));
    EXPECT_EQ(error, EBADF);
    EXPECT_TRUE(writer.has_failed());
    EXPECT_FALSE(put(writer, "def"));
    EXPECT_EQ(failures, 1);
}

TEST_F(DelayedWriting, APrivateFileIsItsOwnersAlone) {
    {
        const UniqueFd made(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        ASSERT_EQ(::fchmod(made.value(), 0644), 0);
        ASSERT_TRUE(append_text(made, "old"));
    }
    EXPECT_TRUE(append_text(open(true), "new"));
    EXPECT_EQ(content(), "oldnew");
    struct stat state {};
    ASSERT_EQ(::stat(path_.c_str(), &state), 0);
    EXPECT_EQ(state.st_mode & 07777U, 0600U);
    open(false);
    EXPECT_EQ(content(), "");
}

TEST_F(DelayedWriting, APrivateFileHasOneWriter) {
    const UniqueFd first = open();
    ASSERT_TRUE(append_text(first, "kept"));
    const auto second = open_private_file(path_, false);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, base::Errc::InvalidState);
    EXPECT_EQ(content(), "kept");
}

TEST_F(DelayedWriting, APrivateFileIsNoLinkAndNoDevice) {
    ASSERT_EQ(::symlink("/dev/null", path_.c_str()), 0);
    EXPECT_EQ(open_private_file(path_, false).error().sys_errno, ELOOP);
    EXPECT_EQ(open_private_file("/dev/null", false).error().code, base::Errc::InvalidState);
    EXPECT_EQ(open_private_file(folder_, false).error().sys_errno, EISDIR);
}

}  // namespace
}  // namespace continuo::io
