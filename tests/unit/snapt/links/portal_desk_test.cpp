#include "snapt/links/portal_desk.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::links {
namespace {

constexpr const char* kRealm = "mesh.example";

class Users final : public control::CredentialSource {
  public:
    std::optional<control::UserKey> find(const control::Identity& /*identity*/) override {
        return std::nullopt;
    }
    std::shared_ptr<const std::vector<control::UserKey>> keys() override { return list; }

    std::shared_ptr<const std::vector<control::UserKey>> list =
        std::make_shared<const std::vector<control::UserKey>>();
};

class PortalDeskTest : public ::testing::Test {
  protected:
    static control::PortalRequest request_of(uint8_t user) {
        const auto key = control::derive_portal_key(control::UserKey{user}, kRealm);
        return {{5}, control::portal_tag(key, control::PortalSide::Node, {5})};
    }
    static std::string answer_for(uint8_t user) {
        const auto key = control::derive_portal_key(control::UserKey{user}, kRealm);
        return control::format_portal_answer(
            control::portal_tag(key, control::PortalSide::Snapt, {5}));
    }
    std::optional<std::string> ask(uint8_t user) {
        return desk.answer(request_of(user), random, now);
    }

    Users users;
    base::SeededRandom random{1};
    PortalDesk desk{users, kRealm};
    base::TimePoint now{base::seconds(100)};
};

TEST_F(PortalDeskTest, UsersWhoComeAndGoAreKnownAtOnce) {
    EXPECT_NE(ask(1), answer_for(1));
    users.list = std::make_shared<const std::vector<control::UserKey>>(
        std::vector{control::UserKey{2}, control::UserKey{1}});
    EXPECT_EQ(ask(1), answer_for(1));
    EXPECT_EQ(ask(2), answer_for(2));
    users.list =
        std::make_shared<const std::vector<control::UserKey>>(std::vector{control::UserKey{2}});
    EXPECT_NE(ask(1), answer_for(1));
    EXPECT_EQ(ask(1)->size(), answer_for(1).size());
}

TEST_F(PortalDeskTest, KeysThatAreDerivedAnewArePaidFor) {
    size_t answered = 0;
    for (int i = 0; i < 100; ++i) {  // users change all the time
        users.list =
            std::make_shared<const std::vector<control::UserKey>>(1000, control::UserKey{7});
        answered += ask(1) ? 1U : 0U;
    }
    EXPECT_GE(answered, 5U);
    EXPECT_LE(answered, 12U);
}

TEST_F(PortalDeskTest, TrialsOfKeysAreLimited) {
    users.list = std::make_shared<const std::vector<control::UserKey>>(10'000, control::UserKey{7});
    size_t answered = 0;
    for (int i = 0; i < 100; ++i) {
        answered += ask(1) ? 1U : 0U;
    }
    EXPECT_GE(answered, 1U);
    EXPECT_LE(answered, 4U);
    now += base::seconds(1);
    EXPECT_TRUE(ask(1));
}

}  // namespace
}  // namespace continuo::snapt::links
