#include "tests/unit/cnapt/names/resolv_file_fixture.hpp"

#include <cerrno>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace continuo::cnapt::names {
namespace {

// In a process of its own, since it is for good. 77: no Landlock here.
int confined(const ResolvFile& file, const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        const auto done = file.confine();
        ::_exit(done ? work() : done.error().code == base::Errc::Unsupported ? 77 : 99);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

// 0: refused by Landlock.
int refusal(int outcome) {
    return outcome == -1 && (errno == EACCES || errno == EXDEV) ? 0 : 1;
}

TEST_F(ResolvFileTest, ConfinedItWritesNowhereElse) {
    write(kOriginal);
    ResolvFile file = open();
    if (confined(file, [] { return 0; }) == 77) {
        GTEST_SKIP() << "a kernel without Landlock";
    }
    const std::string other = root + "/other";
    std::ofstream(other) << "x";
    fs::create_directory(root + "/elsewhere");
    const auto open_for_writing = [&] { return ::open(other.c_str(), O_WRONLY | O_CLOEXEC); };
    EXPECT_EQ(confined(file, [&] { return refusal(open_for_writing()); }), 0);
    EXPECT_EQ(confined(file, [&] { return refusal(::truncate(other.c_str(), 0)); }), 0);
    EXPECT_EQ(confined(file, [&] { return refusal(::unlink(other.c_str())); }), 0);
    EXPECT_EQ(confined(file,
                       [&] {
                           return refusal(::open((root + "/elsewhere/new").c_str(),
                                                 O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
                       }),
              0);
    EXPECT_EQ(confined(file, [&] { return refusal(::rename(path.c_str(), other.c_str())); }), 0);
    EXPECT_EQ(confined(file, [&] { return refusal(::mkdir((root + "/etc/d").c_str(), 0700)); }), 0);
    EXPECT_EQ(confined(file, [&] { return refusal(::symlink("x", (kept + "/l").c_str())); }), 0);
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(ResolvFileTest, ConfinedItDoesAllItsWork) {
    for (const bool is_link : {false, true}) {
        fs::remove(path);
        if (is_link) {
            std::ofstream(root + "/etc/target") << kOriginal;
            fs::create_symlink("target", path);
        } else {
            write(kOriginal);
        }
        const std::string before = attributes();
        {
            ResolvFile file = open();
            const int outcome = confined(file, [&] {
                const bool is_done = file.apply({*base::IpAddress::parse("203.0.113.10")}) &&
                                     read() != kOriginal && file.take_over() && file.restore();
                return is_done && ::open("/dev/null", O_RDWR | O_CLOEXEC) >= 0 ? 0 : 1;
            });
            EXPECT_TRUE(outcome == 0 || outcome == 77) << outcome;
        }
        EXPECT_EQ(attributes(), before);
    }
}

}  // namespace
}  // namespace continuo::cnapt::names
