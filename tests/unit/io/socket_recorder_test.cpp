#include "common/io/socket_recorder.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::io {
namespace {

uint64_t cookie_of(const UniqueFd& socket) {
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    EXPECT_EQ(::getsockopt(socket.value(), SOL_SOCKET, SO_COOKIE, &cookie, &length), 0);
    return cookie;
}

UniqueFd make_socket(int family, int type) {
    return UniqueFd(::socket(family, type | SOCK_CLOEXEC, 0));
}

class SocketRecorderTest : public testing::Test {
  protected:
    void SetUp() override {
        auto attached = SocketRecorder::attach();
        if (!attached) {
            GTEST_SKIP() << "cannot attach here: " << attached.error().where;
        }
        recorder_ = std::move(*attached);
    }
    std::optional<SocketRecorder> recorder_;
};

TEST_F(SocketRecorderTest, KnowsWhoMadeASocket) {
    for (const int family : {AF_INET, AF_INET6}) {
        for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
            const UniqueFd own = make_socket(family, type);
            ASSERT_TRUE(own.is_open());
            EXPECT_EQ(recorder_->maker_of(cookie_of(own)).value_or(SocketMaker{}).process_id,
                      ::getpid());
        }
    }
    EXPECT_FALSE(recorder_->maker_of(UINT64_MAX));
}

TEST_F(SocketRecorderTest, TellsProcessesApart) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const UniqueFd made = make_socket(AF_INET, SOCK_DGRAM);
        const uint64_t cookie = cookie_of(made);
        const bool written = ::write(pipe[1], &cookie, sizeof cookie) == sizeof cookie;
        ::_exit(written ? 0 : 1);
    }
    uint64_t cookie = 0;
    EXPECT_EQ(::read(pipe[0], &cookie, sizeof cookie), ssize_t{sizeof cookie});
    EXPECT_EQ(recorder_->maker_of(cookie).value_or(SocketMaker{}).process_id, child);
    ::waitpid(child, nullptr, 0);
    ::close(pipe[0]);
    ::close(pipe[1]);
}

TEST_F(SocketRecorderTest, RecordsNothingOnceItIsGone) {
    const auto second = SocketRecorder::attach();
    ASSERT_TRUE(second);
    recorder_.reset();
    const UniqueFd made = make_socket(AF_INET, SOCK_DGRAM);
    EXPECT_EQ(second->maker_of(cookie_of(made)).value_or(SocketMaker{}).process_id, ::getpid())
        << "another one goes on";
}

}  // namespace
}  // namespace continuo::io
