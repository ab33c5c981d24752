#include "snapt/accounting/app_names.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::accounting {
namespace {

using Apps = std::vector<control::App>;
using Names = std::vector<std::pair<uint16_t, std::string>>;

TEST(AppNames, TheLedgerIsAskedOnceAndTakesWhatIsNew) {
    AppNames names;
    EXPECT_TRUE(names.add(Apps{{1, "ssh"}, {2, "curl"}}));
    EXPECT_FALSE(names.add(Apps{{2, "wget"}, {3, "ping"}})) << "it is asked already";
    EXPECT_EQ(names.take_new(), (Names{{1, "ssh"}, {2, "wget"}, {3, "ping"}}));
    EXPECT_FALSE(names.add(Apps{{1, "ssh"}})) << "nothing is new";
    EXPECT_TRUE(names.take_new().empty());
    EXPECT_TRUE(names.add(Apps{{1, "sftp"}}));
    names.on_refused();
    EXPECT_TRUE(names.add({})) << "it could not be asked the last time";
}

TEST(AppNames, FindsNamesByTag) {
    AppNames names;
    names.add(Apps{{7, "ssh"}, {70'000, "no tag of a flow"}});
    EXPECT_EQ(names.find(7), "ssh");
    EXPECT_FALSE(names.find(8));
    EXPECT_FALSE(names.find(70'000));
}

TEST(AppNames, NamesAreLimited) {
    AppNames names;
    for (uint32_t tag = 0; tag < 2 * kMaxAppNames; ++tag) {
        names.add(Apps{{tag, "app"}});
    }
    EXPECT_EQ(names.take_new().size(), kMaxAppNames);
    EXPECT_TRUE(names.add(Apps{{0, "renamed"}}));
}

}  // namespace
}  // namespace continuo::snapt::accounting
