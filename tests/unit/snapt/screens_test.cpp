// What the commands of snapt print at 80 columns is what docs/OPERATIONS.md shows.
#include "snapt/cli.hpp"
#include "tests/unit/report/document_screen.hpp"

namespace continuo::snapt {
namespace {

struct Screen {
    std::vector<const char*> words;
    const char* report;
};

std::string shown(const Screen& screen, size_t columns) {
    const auto line = report::parse_command_line(program_spec(), screen.words);
    EXPECT_TRUE(line.command) << line.text;
    const std::string report =
        test::file_of_source("tests/unit/snapt/screens/" + std::string(screen.report) + ".json");
    return ask_command(test::daemon_with("snapt", report), *line.command, false, columns).out;
}

const Screen kScreens[] = {{{"status"}, "status"},
                           {{"flows"}, "flows"},
                           {{"sessions"}, "sessions"},
                           {{"usage", "--by", "user,class"}, "usage"}};

TEST(SnaptScreens, AreThoseOfTheDocument) {
    for (const Screen& screen : kScreens) {
        std::string command = "snapt";
        for (const char* word : screen.words) {
            command += std::string(" ") + word;
        }
        EXPECT_EQ(test::screen_of(command), shown(screen, test::kScreenColumns)) << command;
    }
}

TEST(SnaptScreens, FitAnyWidthThatIsNotTiny) {
    for (const Screen& screen : kScreens) {
        const std::string all = shown(screen, report::kAnyWidth);
        EXPECT_GT(test::longest_line(all), test::kScreenColumns) << "columns are left out for that";
        for (size_t columns = 60; columns <= 200; columns += 5) {
            const std::string text = shown(screen, columns);
            EXPECT_LE(test::longest_line(text), columns) << text;
        }
    }
}

}  // namespace
}  // namespace continuo::snapt
