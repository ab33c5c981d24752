#include "common/host/unix_server.hpp"
#include "common/host/unix_socket.hpp"

#include <cerrno>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::host {
namespace {

using base::Errc;
using base::milliseconds;
using base::seconds;

class UnixServerTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "continuo-unix-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
        path_ = directory_ + "/s.sock";
    }
    void TearDown() override {
        server_.reset();
        ::unlink(path_.c_str());
        ::rmdir(directory_.c_str());
    }
    void listen(UnixServer::Handler handler, const UnixServerLimits& limits = {}) {
        auto made = UnixServer::listen(loop_, path_, std::move(handler), limits);
        ASSERT_TRUE(made);
        server_ = std::move(*made);
    }
    // Runs the loop until the client's thread is done.
    template <typename Client>
    void with_client(Client client) {
        bool done = false;
        std::thread thread([&] {
            client();
            loop_.post([&done] { done = true; });
        });
        EXPECT_TRUE(loop_.run_until([&] { return done; }, seconds(10)));
        thread.join();
    }
    io::EventLoop loop_;
    std::string directory_;
    std::string path_;
    std::unique_ptr<UnixServer> server_;
};

TEST_F(UnixServerTest, AnswersALineAndCloses) {
    listen([](UnixRequest request, UnixReply reply) {
        EXPECT_EQ(request.user_id, ::geteuid());
        EXPECT_EQ(request.process_id, ::getpid());
        reply.finish("{\"echo\":" + request.line + "}\n");
    });
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0660U);
    with_client([&] {
        const auto answer = unix_request(path_, "42", seconds(5));
        ASSERT_TRUE(answer);
        EXPECT_EQ(*answer, "{\"echo\":42}\n");
    });
    EXPECT_EQ(server_->counters().requests, 1U);
}

TEST_F(UnixServerTest, AnswersLaterAndInPiecesAndWholeWhenLong) {
    const std::string long_piece(3000000, 'x');
    std::unique_ptr<io::DeadlineTimer> timer;
    listen([&](const UnixRequest&, UnixReply reply) {
        EXPECT_TRUE(reply.write("first "));
        timer = std::make_unique<io::DeadlineTimer>(loop_, [&long_piece, reply] {
            EXPECT_TRUE(reply.is_open());
            reply.finish(long_piece);
            EXPECT_FALSE(reply.write("too late"));
        });
        timer->set(loop_.now() + milliseconds(2));
    });
    with_client([&] {
        const auto answer = unix_request(path_, "{}", seconds(5));
        ASSERT_TRUE(answer);
        EXPECT_EQ(*answer, "first " + long_piece);
    });
}

TEST_F(UnixServerTest, StreamGoesOnUntilTheClientLeaves) {
    std::optional<UnixReply> kept;
    std::unique_ptr<io::DeadlineTimer> timer;
    timer = std::make_unique<io::DeadlineTimer>(loop_, [&] {
        if (kept && kept->write("tick\n")) {
            timer->set(loop_.now() + milliseconds(1));
        }
    });
    listen([&](const UnixRequest&, UnixReply reply) {
        kept = reply;
        timer->set(loop_.now());
    });
    with_client([&] {
        size_t bytes = 0;
        EXPECT_TRUE(unix_stream(path_, "top", [&](std::string_view piece) {
            bytes += piece.size();
            return bytes < 15;
        }));
    });
    EXPECT_TRUE(loop_.run_until([&] { return !kept->is_open(); }, seconds(5)));
    EXPECT_FALSE(kept->write("x"));
}

TEST_F(UnixServerTest, TooLongRequestAndSilentClientAreClosed) {
    UnixServerLimits limits;
    limits.request_bytes = 100;
    limits.request_timeout = milliseconds(5);
    listen([](const UnixRequest&, const UnixReply&) { ADD_FAILURE(); }, limits);
    with_client([&] {
        const auto refused = unix_request(path_, std::string(1000, 'x'), seconds(5));
        EXPECT_TRUE(!refused || refused->empty());
        const auto silent = unix_connect(path_);
        ASSERT_TRUE(silent);
        char byte = 0;
        EXPECT_EQ(::recv(silent->value(), &byte, 1, 0), 0);
    });
    EXPECT_EQ(server_->counters().too_long, 1U);
    EXPECT_EQ(server_->counters().timeouts, 1U);
}

TEST_F(UnixServerTest, ClientsBeyondTheLimitAreRefused) {
    UnixServerLimits limits;
    limits.clients = 1;
    listen([](const UnixRequest&, UnixReply reply) { reply.finish("ok"); }, limits);
    with_client([&] {
        const auto first = unix_connect(path_);
        ASSERT_TRUE(first);
        const auto second = unix_request(path_, "x", seconds(5));
        EXPECT_TRUE(!second || second->empty());
        ASSERT_EQ(::send(first->value(), "a\n", 2, MSG_NOSIGNAL), 2);
        std::array<char, 3> answer{};
        EXPECT_EQ(::recv(first->value(), answer.data(), answer.size(), MSG_WAITALL), 2);
    });
    EXPECT_EQ(server_->counters().refused_clients, 1U);
}

TEST_F(UnixServerTest, SecondDaemonIsRefusedAndALeftSocketIsReplaced) {
    listen([](const UnixRequest&, UnixReply reply) { reply.finish("ok"); });
    const auto second = UnixServer::listen(loop_, path_, {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().sys_errno, EADDRINUSE);
    server_.reset();
    EXPECT_NE(::access(path_.c_str(), F_OK), 0);
    {
        const io::UniqueFd left(::socket(AF_UNIX, SOCK_STREAM, 0));
        auto name = unix_address(path_);
        ASSERT_EQ(::bind(left.value(), reinterpret_cast<const sockaddr*>(&*name), sizeof *name), 0);
    }
    listen([](const UnixRequest&, UnixReply reply) { reply.finish("again"); });
    with_client([&] { EXPECT_EQ(*unix_request(path_, "", seconds(5)), "again"); });
    server_.reset();
    std::ofstream(path_) << "not a socket";
    EXPECT_FALSE(UnixServer::listen(loop_, path_, {}));
    EXPECT_EQ(::access(path_.c_str(), F_OK), 0);
}

TEST_F(UnixServerTest, ALeftSocketThatCannotBeRemovedIsNamed) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "another user's socket takes root";
    }
    {
        const io::UniqueFd left(::socket(AF_UNIX, SOCK_STREAM, 0));
        auto name = unix_address(path_);
        ASSERT_EQ(::bind(left.value(), reinterpret_cast<const sockaddr*>(&*name), sizeof *name), 0);
    }
    ASSERT_EQ(::chmod(directory_.c_str(), 01777), 0);
    constexpr uid_t kNobody = 65534;
    ASSERT_EQ(::seteuid(kNobody), 0);
    const auto refused = UnixServer::listen(loop_, path_, {});
    ASSERT_EQ(::seteuid(0), 0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().sys_errno, EPERM);
    EXPECT_EQ(refused.error().where, "remove left command socket");
}

TEST_F(UnixServerTest, WithoutADaemonTheRequestFailsAtOnce) {
    const auto refused = unix_request(path_, "x", seconds(5));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().sys_errno, ENOENT);
    EXPECT_EQ(unix_request(std::string(200, 'x'), "x", seconds(5)).error().code,
              Errc::InvalidConfig);
}

TEST_F(UnixServerTest, RequestTimesOutWhenNobodyAnswers) {
    listen([](const UnixRequest&, const UnixReply&) {});
    with_client([&] {
        const auto nothing = unix_request(path_, "x", milliseconds(10));
        ASSERT_FALSE(nothing);
        EXPECT_EQ(nothing.error().code, Errc::WouldBlock);
    });
}

// As a daemon that is stopped, after some have asked it.
TEST_F(UnixServerTest, NobodyWaitsForAListenerThatTakesNoMore) {
    const io::UniqueFd full(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto name = unix_address(path_);
    ASSERT_EQ(::bind(full.value(), reinterpret_cast<const sockaddr*>(&*name), sizeof *name), 0);
    ASSERT_EQ(::listen(full.value(), 0), 0);
    const auto first = unix_connect(path_);
    ASSERT_TRUE(first);
    const auto nothing = unix_request(path_, "x", milliseconds(10));
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().code, Errc::WouldBlock);
    const auto second = UnixServer::listen(loop_, path_, {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().sys_errno, EADDRINUSE);
    EXPECT_EQ(::access(path_.c_str(), F_OK), 0) << "it is somebody's";
}

TEST_F(UnixServerTest, ServiceManagerIsToldAtPathAndAbstractAddresses) {
    ::unsetenv("NOTIFY_SOCKET");
    EXPECT_FALSE(notify_service_manager("READY=1"));
    const std::string abstract = "@continuo-test-" + std::to_string(::getpid());
    for (const std::string& name : {path_, abstract}) {
        const io::UniqueFd manager(::socket(AF_UNIX, SOCK_DGRAM, 0));
        auto address = unix_address(name);
        if (name == abstract) {
            address->sun_path[0] = '\0';
        }
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        ASSERT_EQ(::bind(manager.value(), reinterpret_cast<const sockaddr*>(&*address), length), 0);
        ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
        EXPECT_TRUE(notify_service_manager("READY=1"));
        std::array<char, 32> text{};
        const ssize_t got = ::recv(manager.value(), text.data(), text.size(), MSG_DONTWAIT);
        EXPECT_EQ(std::string(text.data(), got > 0 ? static_cast<size_t>(got) : 0), "READY=1");
    }
    ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace continuo::host
