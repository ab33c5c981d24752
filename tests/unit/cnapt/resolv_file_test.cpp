#include "cnapt/resolv_file.hpp"
#include "common/io/file.hpp"
#include "common/io/privileges.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace continuo::cnapt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOriginal = "nameserver 192.168.1.1\nsearch lan\n";

class ResolvFileTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "/continuo-resolv-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root = pattern;
        fs::create_directory(root + "/etc");
        path = root + "/etc/resolv.conf";
        kept = root + "/dns";
    }
    void TearDown() override { fs::remove_all(root); }

    void write(const std::string& text, mode_t mode = 0644) const {
        ASSERT_TRUE(io::write_file_atomically(path, text, mode));
    }
    std::string read() const {
        auto text = io::read_file(path, 1 << 20);
        return text ? *text : "<none>";
    }
    ResolvFile open() const {
        auto file = ResolvFile::open(path, kept);
        EXPECT_TRUE(file);
        return std::move(*file);
    }
    std::set<std::string> names() const {
        std::set<std::string> all;
        for (const auto& entry : fs::directory_iterator(root + "/etc")) {
            all.insert(entry.path().filename());
        }
        return all;
    }
    // Of the file itself, also of a link.
    std::string attributes() const {
        struct stat status {};
        EXPECT_EQ(::lstat(path.c_str(), &status), 0);
        std::string text;
        for (const auto value :
             {static_cast<int64_t>(status.st_ino), static_cast<int64_t>(status.st_mode),
              static_cast<int64_t>(status.st_uid), static_cast<int64_t>(status.st_gid),
              static_cast<int64_t>(status.st_mtim.tv_sec),
              static_cast<int64_t>(status.st_mtim.tv_nsec)}) {
            text += std::to_string(value) + " ";
        }
        return text;
    }
    bool has_kept() const { return fs::exists(kept + "/resolv.conf"); }

    const std::vector<base::IpAddress> servers = {*base::IpAddress::parse("198.51.100.53")};
    const std::vector<base::IpAddress> lan = {*base::IpAddress::parse("192.168.1.1")};
    std::string root;
    std::string path;
    std::string kept;
};

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

TEST_F(ResolvFileTest, GivesBackTextModeAndTime) {
    write(kOriginal, 0640);
    struct stat before {};
    ASSERT_EQ(::stat(path.c_str(), &before), 0);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    EXPECT_EQ(name_servers(read()), servers);
    EXPECT_EQ(file.original_servers(), lan);
    EXPECT_FALSE(file.is_replaced());
    ASSERT_TRUE(file.restore());
    struct stat after {};
    ASSERT_EQ(::stat(path.c_str(), &after), 0);
    EXPECT_EQ(read(), kOriginal);
    EXPECT_EQ(after.st_mode, before.st_mode);
    EXPECT_EQ(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    EXPECT_FALSE(has_kept());
}

TEST_F(ResolvFileTest, NeverShowsHalfAFile) {
    write(kOriginal);
    const fs::path link = root + "/other";
    fs::create_hard_link(path, link);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    EXPECT_EQ(*io::read_file(link, 1 << 20), kOriginal) << "it was replaced, not written to";
    EXPECT_EQ(names(), (std::set<std::string>{".resolv.conf.continuo-original", "resolv.conf"}));
    ASSERT_TRUE(file.restore());
    EXPECT_EQ(names(), std::set<std::string>{"resolv.conf"});
    EXPECT_TRUE(fs::equivalent(path, link)) << "it is the same file";
}

// The helper has root's user and no capability: what it makes it cannot give away.
TEST_F(ResolvFileTest, GivesBackAnotherUsersFileAndLinkAsTheyWere) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs root: only it can make a file another user's";
    }
    for (const bool is_link : {false, true}) {
        for (const bool is_killed : {false, true}) {
            fs::remove(path);
            if (is_link) {
                fs::create_symlink("nowhere", path);
            } else {
                write(kOriginal, 0664);
            }
            ASSERT_EQ(::lchown(path.c_str(), 4711, 4712), 0);
            const bool has_attribute =
                !is_link && ::setxattr(path.c_str(), "user.note", "mine", 4, 0) == 0;
            const std::string before = attributes();
            std::thread([&] {
                ASSERT_TRUE(io::keep_capabilities({}));
                {
                    ResolvFile file = open();
                    ASSERT_TRUE(file.apply(servers));
                    EXPECT_EQ(name_servers(read()), servers);
                    ASSERT_TRUE(file.apply(lan)) << "others, while it is aside";
                    EXPECT_TRUE(is_killed || *file.restore());
                }
                EXPECT_EQ(*open().clean_up(), is_killed);
            }).join();
            EXPECT_EQ(attributes(), before) << is_link << is_killed;
            std::array<char, 8> value{};
            EXPECT_EQ(::getxattr(path.c_str(), "user.note", value.data(), value.size()),
                      has_attribute ? 4 : -1);
            EXPECT_EQ(names(), std::set<std::string>{"resolv.conf"});
        }
    }
}

TEST_F(ResolvFileTest, WhoseFileNobodyElseReadsKeepsItSo) {
    write(kOriginal, 0600);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(ResolvFileTest, WhatWasWrittenToTheFileSetAsideDoesNotComeBack) {
    write(kOriginal);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    ASSERT_TRUE(io::write_file_atomically(root + "/etc/.resolv.conf.continuo-original",
                                          "nameserver 192.0.2.66\n", 0644));
    ASSERT_TRUE(file.restore());
    EXPECT_EQ(read(), kOriginal);
    EXPECT_EQ(names(), std::set<std::string>{"resolv.conf"});
}

// Killed between the record and the exchange: what is aside is ours, or half of it.
TEST_F(ResolvFileTest, AHalfMadeFileAsideIsNoOriginal) {
    write("");
    {
        ResolvFile killed = open();
        ASSERT_TRUE(killed.apply(servers));
    }
    fs::rename(path, root + "/etc/.resolv.conf.continuo-original");
    write("");
    ASSERT_TRUE(open().clean_up());
    EXPECT_EQ(read(), "");
    EXPECT_EQ(names(), std::set<std::string>{"resolv.conf"});
}

TEST_F(ResolvFileTest, GivesBackALink) {
    fs::create_directory(root + "/run");
    ASSERT_TRUE(io::write_file_atomically(root + "/run/manager.conf", kOriginal, 0644));
    fs::create_symlink("../run/manager.conf", path);
    struct stat before {};
    ASSERT_EQ(::lstat(path.c_str(), &before), 0);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    EXPECT_FALSE(fs::is_symlink(path));
    EXPECT_NE(read().find("search lan"), std::string::npos);
    EXPECT_EQ(file.original_servers(), lan);
    ASSERT_TRUE(file.restore());
    ASSERT_TRUE(fs::is_symlink(path));
    EXPECT_EQ(fs::read_symlink(path), "../run/manager.conf");
    EXPECT_EQ(read(), kOriginal);
    struct stat after {};
    ASSERT_EQ(::lstat(path.c_str(), &after), 0);
    EXPECT_EQ(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

TEST_F(ResolvFileTest, ADanglingLinkIsGivenBackToo) {
    fs::create_symlink("nowhere", path);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    EXPECT_EQ(name_servers(read()), servers);
    ASSERT_TRUE(file.restore());
    EXPECT_EQ(fs::read_symlink(path), "nowhere");
}

TEST_F(ResolvFileTest, WhereNoneWasNoneIsLeft) {
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    EXPECT_EQ(name_servers(read()), servers);
    ASSERT_TRUE(file.restore());
    EXPECT_FALSE(fs::exists(path));
}

TEST_F(ResolvFileTest, AfterACrashTheNextRunGivesItBack) {
    for (const bool is_link : {false, true}) {
        fs::remove(path);
        if (is_link) {
            fs::create_symlink("nowhere", path);
        } else {
            write(kOriginal);
        }
        {
            ResolvFile killed = open();
            ASSERT_TRUE(killed.apply(servers));
        }
        ResolvFile next = open();
        const auto cleaned = next.clean_up();
        ASSERT_TRUE(cleaned);
        EXPECT_TRUE(*cleaned);
        EXPECT_EQ(fs::is_symlink(path), is_link);
        EXPECT_EQ(read(), is_link ? "<none>" : kOriginal);
        EXPECT_FALSE(has_kept());
        const auto again = next.clean_up();
        ASSERT_TRUE(again);
        EXPECT_FALSE(*again);
    }
}

TEST_F(ResolvFileTest, AfterACrashWhatSomebodyElseWroteStays) {
    write(kOriginal);
    {
        ResolvFile killed = open();
        ASSERT_TRUE(killed.apply(servers));
    }
    write("nameserver 192.168.2.1\n");
    ASSERT_TRUE(open().clean_up());
    EXPECT_EQ(read(), "nameserver 192.168.2.1\n");
    EXPECT_FALSE(has_kept());
}

TEST_F(ResolvFileTest, AnEarlierRunsFileWithoutItsOriginalIsTold) {
    write(kOriginal);
    {
        ResolvFile killed = open();
        ASSERT_TRUE(killed.apply(servers));
    }
    fs::remove_all(kept);
    fs::remove(root + "/etc/.resolv.conf.continuo-original");
    const auto cleaned = open().clean_up();
    ASSERT_FALSE(cleaned);
    EXPECT_EQ(cleaned.error().code, base::Errc::NotFound);
}

TEST_F(ResolvFileTest, WhatIsSetAsideComesBackWithoutItsRecord) {
    for (const bool is_damaged : {false, true}) {
        write(kOriginal);
        const std::string before = attributes();
        {
            ResolvFile killed = open();
            ASSERT_TRUE(killed.apply(servers));
        }
        if (is_damaged) {
            ASSERT_TRUE(io::write_file_atomically(kept + "/resolv.conf", "x", 0600));
        } else {
            fs::remove_all(kept);
        }
        EXPECT_TRUE(*open().clean_up());
        EXPECT_EQ(read(), kOriginal);
        EXPECT_EQ(attributes(), before);
        EXPECT_EQ(names(), std::set<std::string>{"resolv.conf"});
    }
}

// Another one took over what came in between, and set it aside under the same name.
TEST_F(ResolvFileTest, WhatAnotherHasSetAsideStays) {
    write(kOriginal);
    ResolvFile first = open();
    ASSERT_TRUE(first.apply(servers));
    write("nameserver 192.168.2.1\n");
    auto second = ResolvFile::open(path, root + "/other");
    ASSERT_TRUE(second);
    const std::string between = attributes();
    ASSERT_TRUE(second->apply(servers));
    ASSERT_TRUE(first.restore());
    ASSERT_TRUE(second->restore());
    EXPECT_EQ(read(), "nameserver 192.168.2.1\n");
    EXPECT_EQ(attributes(), between);
}

TEST_F(ResolvFileTest, ADamagedRecordChangesNothing) {
    write(kOriginal);
    ResolvFile file = open();
    for (const char* text : {"", "x", "continuo kept resolv.conf 1\nkind 9\n",
                             "continuo kept resolv.conf 1\nkind 1\nmode 420\nuser 0\ngroup 0\n"
                             "seconds 0\nnanoseconds 0\nours 99999\n\nx"}) {
        ASSERT_TRUE(io::write_file_atomically(kept + "/resolv.conf", text, 0600));
        EXPECT_FALSE(file.clean_up()) << text;
        EXPECT_EQ(read(), kOriginal);
        EXPECT_FALSE(has_kept());
        EXPECT_EQ(*io::read_file(kept + "/resolv.conf.damaged", 1000), text) << "nothing is lost";
    }
}

TEST_F(ResolvFileTest, OursComesOffThoughSomebodyAddedALine) {
    for (const bool is_killed : {false, true}) {
        write(kOriginal);
        {
            ResolvFile file = open();
            ASSERT_TRUE(file.apply(servers));
            write(read() + "options rotate\n");
            EXPECT_TRUE(file.is_replaced());
            ASSERT_TRUE(file.take_over());
            EXPECT_EQ(read().find("rotate"), std::string::npos);
            write(read() + "options rotate\n");
            if (!is_killed) {
                EXPECT_TRUE(*file.restore());
            }
        }
        if (is_killed) {
            EXPECT_TRUE(*open().clean_up());
        }
        EXPECT_EQ(read(), kOriginal);
        EXPECT_FALSE(has_kept());
    }
}

TEST_F(ResolvFileTest, WhatWasCutWhileWrittenInPlaceIsMended) {
    for (const bool is_ours : {false, true}) {
        for (const size_t length : {size_t{0}, size_t{7}}) {
            write(kOriginal);
            {
                ResolvFile killed = open();
                ASSERT_TRUE(killed.apply(servers));
            }
            write((is_ours ? read() : std::string(kOriginal)).substr(0, length));
            ASSERT_TRUE(open().clean_up());
            EXPECT_EQ(read(), kOriginal) << is_ours << length;
        }
    }
}

TEST_F(ResolvFileTest, AnUnfinishedFileOfAKilledRunGoes) {
    write(kOriginal);
    ASSERT_TRUE(io::write_file_atomically(root + "/etc/.resolv.conf.continuo", "half", 0600));
    ASSERT_TRUE(open().clean_up());
    EXPECT_FALSE(fs::exists(root + "/etc/.resolv.conf.continuo"));
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(ResolvFileTest, TwoWithDirectoriesOfTheirOwnLoseNothing) {
    write(kOriginal);
    ResolvFile first = open();
    ASSERT_TRUE(first.apply(servers));
    auto second = ResolvFile::open(path, root + "/dns2");
    ASSERT_TRUE(second);
    EXPECT_FALSE(*second->clean_up());
    EXPECT_EQ(second->other_place(), fs::canonical(kept));
    const auto applied = second->apply(lan);
    ASSERT_FALSE(applied);
    EXPECT_EQ(applied.error().code, base::Errc::InvalidState);
    EXPECT_EQ(name_servers(read()), servers);
    EXPECT_TRUE(*first.restore());
    EXPECT_EQ(read(), kOriginal);
    EXPECT_EQ(second->other_place(), "");
    ASSERT_TRUE(second->apply(lan));
    EXPECT_TRUE(*second->restore());
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(ResolvFileTest, AChangeBecomesTheNewOriginal) {
    write(kOriginal);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    write("nameserver 192.168.2.1\nsearch cafe\n");
    ASSERT_TRUE(file.is_replaced());
    ASSERT_TRUE(file.take_over());
    EXPECT_FALSE(file.is_replaced());
    EXPECT_EQ(name_servers(read()), servers);
    EXPECT_NE(read().find("search cafe"), std::string::npos);
    ASSERT_TRUE(file.restore());
    EXPECT_EQ(read(), "nameserver 192.168.2.1\nsearch cafe\n");
}

TEST_F(ResolvFileTest, AChangeThatIsNotTakenOverStays) {
    write(kOriginal);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    write("nameserver 192.168.2.1\n");
    const auto restored = file.restore();
    ASSERT_TRUE(restored);
    EXPECT_FALSE(*restored);
    EXPECT_EQ(read(), "nameserver 192.168.2.1\n");
    EXPECT_FALSE(has_kept());
}

TEST_F(ResolvFileTest, ApplyingTwiceKeepsTheOriginal) {
    write(kOriginal);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    ASSERT_TRUE(file.apply(servers));
    ASSERT_TRUE(file.apply(lan));
    ASSERT_TRUE(file.restore());
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(ResolvFileTest, WhatIsNoFileIsRefused) {
    fs::create_directory(path);
    ResolvFile file = open();
    EXPECT_FALSE(file.apply(servers));
    EXPECT_FALSE(has_kept());
    EXPECT_TRUE(fs::is_directory(path));
}

TEST_F(ResolvFileTest, AKeptFileThatIsALinkIsNotFollowed) {
    write(kOriginal);
    ResolvFile file = open();
    ASSERT_TRUE(io::write_file_atomically(root + "/secret", "secret", 0600));
    fs::create_symlink(root + "/secret", kept + "/resolv.conf");
    EXPECT_FALSE(file.clean_up());
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(ResolvFileTest, ADirectoryThatOthersMayWriteToIsRefused) {
    fs::create_directory(kept);
    ASSERT_EQ(::chmod(kept.c_str(), 0777), 0);
    const auto file = ResolvFile::open(path, kept);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, base::Errc::InvalidState);
}

TEST_F(ResolvFileTest, KnowsResolved) {
    EXPECT_FALSE(open().leads_to_resolved());
    write(kOriginal);
    EXPECT_FALSE(open().leads_to_resolved());
    write("nameserver 127.0.0.53\n");
    EXPECT_TRUE(open().leads_to_resolved());
    fs::remove(path);
    fs::create_symlink("../run/systemd/resolve/stub-resolv.conf", path);
    EXPECT_TRUE(open().leads_to_resolved());
    fs::remove(path);
    fs::create_symlink("../run/systemd/resolve/resolv.conf", path);
    EXPECT_FALSE(open().leads_to_resolved());
}

}  // namespace
}  // namespace continuo::cnapt
