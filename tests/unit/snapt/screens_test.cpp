// Commands of snapt print at 80 columns what docs/OPERATIONS.md shows.
#include "snapt/cli.hpp"
#include "tests/support/document_screens.hpp"

namespace continuo::snapt {
namespace {

const test::Screen kScreens[] = {{{"status"}, "status"},
                                 {{"flows"}, "flows"},
                                 {{"sessions"}, "sessions"},
                                 {{"usage", "--by", "user,class"}, "usage"}};

test::ScreenedProgram program() {
    return {"snapt", program_spec(), ask_command, kScreens};
}

TEST(SnaptScreens, AreThoseOfTheDocument) {
    test::expect_screens_of_document(program());
}

TEST(SnaptScreens, FitAnyWidthThatIsNotTiny) {
    test::expect_screens_fit(program());
}

TEST(SnaptScreens, DoctorIsThatOfTheDocument) {
    test::expect_doctor_of_document(program());
}

}  // namespace
}  // namespace continuo::snapt
