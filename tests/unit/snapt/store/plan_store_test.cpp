#include "snapt/store/plan_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

namespace continuo::snapt::store {
namespace {

using base::Errc;
using ledger::kNoon;

class PlanStoreTest : public ledger::StateFolder {
  protected:
    Database database_ = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
};

TEST_F(PlanStoreTest, RevisionsOfAPlanAreKeptAsTheyWereAdded) {
    const AddedPlan first = add_plan(database_, "standard", "one", kNoon).value();
    const AddedPlan second = add_plan(database_, "standard", "two", kNoon + 1).value();
    const AddedPlan other = add_plan(database_, "night", "two", kNoon + 2).value();
    EXPECT_TRUE(first.is_new && second.is_new && other.is_new);
    EXPECT_EQ(first.plan.plan_id, 1);
    EXPECT_EQ(first.plan.revision, 1);
    EXPECT_EQ(second.plan.plan_id, 1);
    EXPECT_EQ(second.plan.revision, 2);
    EXPECT_EQ(other.plan.plan_id, 2);
    EXPECT_EQ(other.plan.revision, 1);
    const auto plans = list_plans(database_).value();
    ASSERT_EQ(plans.size(), 3U);
    EXPECT_EQ(plans[0].toml, "one");
    EXPECT_EQ(plans[0].valid_from_us, kNoon);
    EXPECT_EQ(plans[1].toml, "two");
    EXPECT_EQ(plans[2].name, "night");
}

TEST_F(PlanStoreTest, TheSameTextAgainIsNoNewRevision) {
    ASSERT_TRUE(add_plan(database_, "standard", "one", kNoon));
    const AddedPlan again = add_plan(database_, "standard", "one", kNoon + 5).value();
    EXPECT_FALSE(again.is_new);
    EXPECT_EQ(again.plan.revision, 1);
    EXPECT_EQ(again.plan.valid_from_us, kNoon);
    ASSERT_TRUE(add_plan(database_, "standard", "two", kNoon));
    EXPECT_EQ(add_plan(database_, "standard", "one", kNoon)->plan.revision, 3) << "back to before";
}

TEST_F(PlanStoreTest, IsFoundByNameOrNumberAndRevision) {
    ASSERT_TRUE(add_plan(database_, "standard", "one", kNoon));
    ASSERT_TRUE(add_plan(database_, "standard", "two", kNoon));
    EXPECT_EQ(find_plan(database_, "standard", {})->toml, "two");
    EXPECT_EQ(find_plan(database_, "1", {})->toml, "two");
    EXPECT_EQ(find_plan(database_, "1", 1)->toml, "one");
    for (const char* name : {"2", "0", "-1", "Standard", "", "18446744073709551617"}) {
        EXPECT_EQ(find_plan(database_, name, {}).error().code, Errc::NotFound) << name;
    }
    EXPECT_EQ(find_plan(database_, "standard", 3).error().code, Errc::NotFound);
}

TEST_F(PlanStoreTest, ARevisionThatWasChangedIsNoticed) {
    ASSERT_TRUE(add_plan(database_, "standard", "one", kNoon));
    ASSERT_TRUE(database_.execute("UPDATE plan SET toml='cheaper'"));
    EXPECT_EQ(find_plan(database_, "standard", {}).error().code, Errc::Malformed);
    EXPECT_EQ(list_plans(database_).error().code, Errc::Malformed);
    EXPECT_EQ(add_plan(database_, "standard", "two", kNoon).error().code, Errc::Malformed);
}

TEST_F(PlanStoreTest, ThereIsAnEndToRevisions) {
    const std::string fill =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<" +
        std::to_string(kMaxPlanRevisions) +
        ") INSERT INTO plan(plan_id,rev,name,valid_from,toml,sha) SELECT i,1,'p'||i,0,'',x'' FROM "
        "n";
    ASSERT_TRUE(database_.execute(fill.c_str()));
    EXPECT_EQ(add_plan(database_, "standard", "one", kNoon).error().code, Errc::LimitReached);
    EXPECT_EQ(list_plans(database_).error().code, Errc::Malformed);
}

}  // namespace
}  // namespace continuo::snapt::store
