#include "common/report/json_value.hpp"
#include "snapt/users/request_desk.hpp"
#include "tests/unit/snapt/users/admission_fixture.hpp"

namespace continuo::snapt::users {
namespace {

class RequestDeskTest : public AdmissionTest {
  protected:
    std::string disconnect(const std::string& who) {
        return desk().disconnect(
            *report::JsonValue::parse(R"({"command":"disconnect","who":")" + who + R"("})"));
    }
    // `more` follows the action.
    std::string drain(const std::string& action, const std::string& more = "") {
        return desk().drain(*report::JsonValue::parse(R"({"command":"drain","action":")" + action +
                                                      "\"" + more + "}"));
    }
    RequestDesk desk() {
        return RequestDesk({loop, worker, config, *accountant, *users, *admission, *relay, events,
                            random, [](std::string_view, size_t) { return std::string("{}"); }});
    }
};

TEST_F(RequestDeskTest, DisconnectMeansAllSessionsOfAUserOrOne) {
    hello_of_alice(1, "laptop", 1);
    hello_of_alice(2, "phone", 2);
    hello(3, "bob");
    ASSERT_TRUE(wait([this] { return let_in().size() == 3; }));
    const std::string phone = "02" + std::string(30, '0');
    EXPECT_EQ(disconnect(phone),
              R"({"who":")" + phone + R"(","sessions_ended":1,"logins_ended":0})");
    hello_of_alice(4, "phone", 2);
    ASSERT_TRUE(wait([this] { return let_in().size() == 3; }));
    EXPECT_EQ(disconnect("alice"), R"({"who":"alice","sessions_ended":2,"logins_ended":0})");
    EXPECT_EQ(let_in(), Names{"bob"});
}

// Its lease is on its way, so `sessions` has nothing of it.
TEST_F(RequestDeskTest, ALoginThatIsUnderWayIsEndedAndSaid) {
    hello_of_alice(1, "laptop", 1);
    EXPECT_EQ(disconnect("alice"), R"({"who":"alice","sessions_ended":0,"logins_ended":1})");
    EXPECT_NE(disconnect("alice").find("error"), std::string::npos) << "it is ended already";
    hello_of_alice(2, "phone", 2);
    ASSERT_TRUE(wait([this] { return let_in().size() == 1; }));
    hello_of_alice(3, "laptop", 1);
    EXPECT_EQ(disconnect("alice"), R"({"who":"alice","sessions_ended":1,"logins_ended":1})");
    hello(4, "bob");
    ASSERT_TRUE(wait([this] { return let_in() == Names{"bob"}; }));
}

TEST_F(RequestDeskTest, WhoHasNoSessionIsAnError) {
    hello(1, "bob");
    ASSERT_TRUE(wait([this] { return let_in().size() == 1; }));
    for (const char* who : {"alice", "", "bo", "00000000000000000000000000000000"}) {
        const bool is_session = std::string(who).size() == 32;  // bob's, whose id is all zeros
        EXPECT_EQ(disconnect(who).find("error") == std::string::npos, is_session) << who;
    }
    EXPECT_TRUE(let_in().empty());
}

TEST_F(RequestDeskTest, DrainBeginsIsShownAndIsUndone) {
    const std::string no =
        R"({"draining":false,"since":null,"ends_at":null,"sessions":0,"flows":0})";
    EXPECT_EQ(drain("show"), no);
    EXPECT_NE(drain("undo").find("error"), std::string::npos);
    EXPECT_NE(drain("stop").find("error"), std::string::npos);
    EXPECT_NE(drain("begin", R"(,"timeout_ms":86400001)").find("error"), std::string::npos);
    EXPECT_EQ(drain("show"), no) << "what is wrong begins nothing";
    const auto answer = report::JsonValue::parse(drain("begin"));
    EXPECT_EQ((*answer)["draining"].boolean(), true);
    EXPECT_GT((*answer)["since"].integer().value_or(0), 0);
    EXPECT_TRUE((*answer)["ends_at"].is_null());
    const auto timed = report::JsonValue::parse(drain("begin", R"(,"timeout_ms":600000)"));
    EXPECT_EQ((*timed)["since"].integer(), (*answer)["since"].integer()) << "it goes on";
    EXPECT_GE((*timed)["ends_at"].integer().value_or(0), *(*answer)["since"].integer() + 600);
    EXPECT_EQ(drain("undo"), no);
}

}  // namespace
}  // namespace continuo::snapt::users
