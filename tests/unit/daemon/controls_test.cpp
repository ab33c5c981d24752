#include "common/daemon/controls.hpp"

#include <csignal>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

namespace continuo::daemon {
namespace {

constexpr base::Duration kPatience = base::seconds(20);

class ControlsTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "continuo-controls-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        ASSERT_TRUE(controls_.open(path()));
    }
    void TearDown() override {
        controls_.close();
        EXPECT_EQ(::rmdir(folder_.c_str()), 0);
    }

    std::string path() const { return folder_ + "/s.sock"; }
    // Empty when nobody answers.
    std::string ask(const std::string& line) {
        std::string answer;
        bool done = false;
        std::thread client([&] {
            if (auto reply = host::unix_request(path(), line, kPatience)) {
                answer = std::move(*reply);
            }
            loop_.post([&] { done = true; });
        });
        EXPECT_TRUE(loop_.run_until([&] { return done; }, kPatience));
        client.join();
        return answer;
    }

    io::EventLoop loop_;
    std::string folder_;
    std::string seen_line_;
    std::optional<uint32_t> seen_user_;
    int reloads_ = 0;
    int ticks_ = 0;
    Controls controls_{loop_,
                       {[this](const report::JsonValue& request,
                               const host::UnixRequest& raw,
                               const host::UnixReply& reply) {
                            seen_line_ = raw.line;
                            seen_user_ = raw.user_id;
                            reply.finish("did " + request.text("command") + "\n");
                        },
                        [this] {
                            ++reloads_;
                            return std::string("{\"applied\":[]}");
                        },
                        [this] { ++ticks_; }},
                       base::milliseconds(10)};
};

TEST_F(ControlsTest, HandsRequestsOver) {
    EXPECT_EQ(ask(R"({"command":"status"})"), "did status\n");
    EXPECT_EQ(seen_line_, R"({"command":"status"})");
    EXPECT_EQ(seen_user_, ::getuid());
}

TEST_F(ControlsTest, ReloadsByCommandAndBySignal) {
    EXPECT_EQ(ask(R"({"command":"reload"})"), "{\"applied\":[]}\n");
    EXPECT_EQ(reloads_, 1);
    ASSERT_EQ(::raise(SIGHUP), 0);
    EXPECT_TRUE(loop_.run_until([&] { return reloads_ == 2; }, kPatience));
    EXPECT_EQ(seen_line_, "");
}

TEST_F(ControlsTest, RefusesWhatIsNoSmallObject) {
    const std::string refusal = "{\"error\":\"bad request\"}\n";
    EXPECT_EQ(ask("status"), refusal);
    EXPECT_EQ(ask("[]"), refusal);
    EXPECT_EQ(ask("{\"command\":\"" + std::string(kRequestLimits.max_bytes, 'x') + "\"}"), refusal);
    EXPECT_EQ(seen_line_, "");
}

TEST_F(ControlsTest, StopsTheLoopOnTermination) {
    for (const int signal : {SIGTERM, SIGINT}) {
        loop_.post([signal] { ::raise(signal); });
        loop_.run();
    }
    EXPECT_EQ(reloads_, 0);
}

TEST_F(ControlsTest, TicksAgainAndAgain) {
    EXPECT_TRUE(loop_.run_until([&] { return ticks_ == 2; }, kPatience));
}

TEST_F(ControlsTest, TakesNothingOnceClosed) {
    controls_.close();
    EXPECT_NE(::access(path().c_str(), F_OK), 0);
    EXPECT_FALSE(host::unix_request(path(), "{}", kPatience));
}

}  // namespace
}  // namespace continuo::daemon
