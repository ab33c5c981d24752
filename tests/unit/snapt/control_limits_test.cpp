// Limits of one user's links, for the sake of the others: events of each on the data loop, and
// links of a user.
#include "snapt/control_links.hpp"
#include "tests/unit/snapt/control_link_fixture.hpp"

#include <thread>

namespace continuo::tests {
namespace {

class ControlLimitsTest : public ControlLinkTest {
  protected:
    // The data loop does not run meanwhile.
    static bool wait_beside(const std::function<bool()>& done) {
        const auto until = std::chrono::steady_clock::now() + kPatience;
        while (!done() && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return done();
    }
    size_t names_taken() {
        const std::scoped_lock lock(snapt_side.desk->mutex);
        return snapt_side.desk->messages;
    }
    control::Apps mode(uint32_t tag) { return {{}, {{tag, base::PathMode::Redundant}}}; }
    // One more connection of that name; true: it was let in.
    bool log_in(const std::string& node) {
        auto with = options();
        with.parameters.hello.node = node;
        sides.push_back(std::make_unique<NodeSide>());
        NodeSide& side = *sides.back();
        clients.push_back(std::make_unique<cnapt::control_link::ControlClient>(thread, loop, side));
        EXPECT_TRUE(clients.back()->start(std::move(with)));
        EXPECT_TRUE(wait([&] { return !side.established.empty() || !side.rejected.empty(); }));
        return !side.established.empty();
    }
    void TearDown() override {
        clients.clear();
        ControlLinkTest::TearDown();
    }

    std::vector<std::unique_ptr<NodeSide>> sides;
    std::vector<std::unique_ptr<cnapt::control_link::ControlClient>> clients;
};

TEST_F(ControlLimitsTest, TheDataLoopHearsAFewEventsOfALinkAtOnceAndAllInTheEnd) {
    establish();
    constexpr size_t kMessages = snapt::kEventBurst + 8;
    for (uint32_t i = 0; i < kMessages; ++i) {
        client->send_apps(mode(i + 1));
    }
    ASSERT_TRUE(wait_beside([this] { return server->counters().pauses > 0; }));
    size_t& heard = snapt_side.mode_messages[snapt_side.last_link];
    ASSERT_TRUE(wait([&] { return heard > 0; }));
    EXPECT_LE(heard, static_cast<size_t>(snapt::kMaxEventsUnderWay));
    ASSERT_TRUE(wait([&] { return heard == kMessages; }));
    EXPECT_EQ(snapt_side.last_modes.at(0).tag, kMessages);
    EXPECT_TRUE(snapt_side.closed.empty());
}

TEST_F(ControlLimitsTest, NamesAndQuestionsNeedNoDataLoop) {
    establish();
    client->query_usage(1, "x");
    client->query_session();
    client->send_apps({{{5, "ssh"}}, {}});
    ASSERT_TRUE(wait_beside([this] { return names_taken() == 1; }));
    ASSERT_TRUE(wait(
        [this] { return node_side.usage.size() == 1 && node_side.session_states.size() == 1; }));
    EXPECT_TRUE(snapt_side.mode_messages.empty()) << "it heard of none of them";
}

TEST_F(ControlLimitsTest, AFloodOfNamesIsNotReadAtAnyRate) {
    establish();
    control::Apps apps;
    for (uint32_t i = 0; i < control::kMaxApps; ++i) {
        apps.apps.push_back({i, "application"});
    }
    for (int i = 0; i < 8; ++i) {  // each counts as many
        client->send_apps(apps);
    }
    ASSERT_TRUE(wait_beside([this] { return server->counters().pauses > 0; }));
    EXPECT_LT(names_taken(), 8U);
    EXPECT_GE(snapt_side.desk->pauses, 1U) << "counted for its sender";
    // Nobody else waits.
    EXPECT_TRUE(log_in("phone"));
}

TEST_F(ControlLimitsTest, AUserHasSoManyLinks) {
    server->set_user_sessions(1);
    const size_t most = snapt::max_links_of_user(1);
    for (size_t i = 0; i < most; ++i) {
        ASSERT_TRUE(log_in("node" + std::to_string(i))) << i;
    }
    EXPECT_FALSE(log_in("one-more"));
    EXPECT_EQ(sides.back()->rejected.at(0).text, "too many connections");
    EXPECT_EQ(server->counters().refused_links, 1U);
    clients.front().reset();
    ASSERT_TRUE(wait_beside([&] { return server->counters().links < most; }));
    EXPECT_TRUE(log_in("another"));
}

TEST_F(ControlLimitsTest, HellosOfANodeAreLimitedBeforeAnybodyHearsOfThem) {
    const auto began = std::chrono::steady_clock::now();
    size_t let_in = 0;
    while (log_in("laptop")) {
        ++let_in;
        clients.clear();
        ASSERT_LE(let_in, 1000U);
    }
    const auto took = std::chrono::steady_clock::now() - began;
    EXPECT_GE(let_in, 10U);
    EXPECT_LE(let_in, 10U + static_cast<size_t>(took / snapt::kHelloInterval) + 1);
    EXPECT_EQ(sides.back()->rejected.at(0).text, "too many logins");
    EXPECT_EQ(snapt_side.hellos.size(), let_in);
    EXPECT_EQ(server->counters().refused_hellos, 1U);
    EXPECT_TRUE(log_in("phone"));
}

}  // namespace
}  // namespace continuo::tests
