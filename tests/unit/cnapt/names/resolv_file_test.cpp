#include "cnapt/commands/dns_restore.hpp"
#include "common/host/privileges.hpp"
#include "tests/unit/cnapt/names/resolv_file_fixture.hpp"

#include <array>
#include <cerrno>
#include <fstream>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>

namespace continuo::cnapt::names {
namespace {

constexpr int kCannotMount = 77;

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

// Where the file is a mount of its own it is written in place, on a disk that others fill.
TEST_F(ResolvFileTest, AFullDiskIsWaitedForAndLosesNothing) {
    write("");
    std::string original(kOriginal);
    while (original.size() < 9000) {  // longer than ours, in pages
        original += "# a remark of the administrator's\n";
    }
    const auto run = [&] {
        const std::string disk = root + "/disk";
        fs::create_directory(disk);
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("none", disk.c_str(), "tmpfs", 0, "size=16k") != 0) {
            return kCannotMount;
        }
        std::ofstream(disk + "/resolv.conf") << original;
        if (::mount((disk + "/resolv.conf").c_str(), path.c_str(), nullptr, MS_BIND, nullptr) !=
            0) {
            return kCannotMount;
        }
        ResolvFile file = open();
        EXPECT_TRUE(file.apply(servers));
        std::ofstream(disk + "/others") << std::string(65536, 'x');
        for (int tries = 0; tries < 3; ++tries) {
            EXPECT_FALSE(file.restore()) << tries;
            EXPECT_NE(read(), original);
            EXPECT_TRUE(has_kept());
        }
        fs::remove(disk + "/others");
        const auto restored = file.restore();
        EXPECT_TRUE(restored && *restored);
        EXPECT_EQ(read(), original);
        EXPECT_FALSE(has_kept());
        return ::testing::Test::HasFailure() ? 1 : 0;
    };
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(run());
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kCannotMount) {
        GTEST_SKIP() << "needs root, for a small disk";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ResolvFileTest, ARecordThatIsCutIsDamaged) {
    write(kOriginal);
    {
        ResolvFile killed = open();
        ASSERT_TRUE(killed.apply(servers));
    }
    const std::string record = *io::read_file(kept + "/resolv.conf", 10000);
    for (size_t length = 0; length < record.size(); ++length) {
        const std::string cut = record.substr(0, length);
        ASSERT_TRUE(io::write_file_atomically(kept + "/resolv.conf", cut, 0600));
        EXPECT_TRUE(ResolvFile::servers_kept_in(kept, path).empty()) << length;
    }
    // As earlier versions wrote it.
    const size_t key = record.find("original ");
    std::string earlier = record;
    earlier.erase(key, record.find('\n', key) + 1 - key);
    ASSERT_TRUE(io::write_file_atomically(kept + "/resolv.conf", earlier, 0600));
    EXPECT_EQ(ResolvFile::servers_kept_in(kept, path), lan);
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

}  // namespace
}  // namespace continuo::cnapt::names
