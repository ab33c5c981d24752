#include "common/report/json_value.hpp"
#include "snapt/request_desk.hpp"
#include "tests/unit/snapt/admission_fixture.hpp"

namespace continuo::snapt {
namespace {

class RequestDeskTest : public AdmissionTest {
  protected:
    std::string disconnect(const std::string& who) {
        RequestDesk desk({loop, worker, config, *accountant, *users, *admission, *relay, events,
                          random, [](std::string_view, size_t) { return std::string("{}"); }});
        return desk.disconnect(
            *report::JsonValue::parse(R"({"command":"disconnect","who":")" + who + R"("})"));
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

}  // namespace
}  // namespace continuo::snapt
