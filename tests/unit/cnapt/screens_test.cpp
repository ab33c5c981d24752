// Commands of cnapt print at 80 columns what docs/OPERATIONS.md shows.
#include "cnapt/cli.hpp"
#include "tests/support/document_screens.hpp"

namespace continuo::cnapt {
namespace {

const test::Screen kScreens[] = {{{"status"}, "status"},
                                 {{"flows"}, "flows"},
                                 {{"snapts"}, "snapts"},
                                 {{"usage", "--by", "class,day"}, "usage"}};

test::ScreenedProgram program() {
    return {"cnapt", program_spec(), ask_command, kScreens};
}

TEST(CnaptScreens, AreThoseOfTheDocument) {
    test::expect_screens_of_document(program());
}

TEST(CnaptScreens, FitAnyWidthThatIsNotTiny) {
    test::expect_screens_fit(program());
}

TEST(CnaptScreens, DoctorIsThatOfTheDocument) {
    test::expect_doctor_of_document(program());
}

}  // namespace
}  // namespace continuo::cnapt
