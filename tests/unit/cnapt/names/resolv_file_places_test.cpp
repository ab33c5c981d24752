// Places that resolv.conf and its record may not be in, and who may read them.
#include "cnapt/commands/dns_restore.hpp"
#include "cnapt/names/resolved_keeper.hpp"
#include "common/host/privileges.hpp"
#include "tests/unit/cnapt/names/resolv_file_fixture.hpp"

#include <array>
#include <cerrno>
#include <fstream>
#include <functional>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>

namespace continuo::cnapt::names {
namespace {

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

// As that of the package, whose helper is started by the service manager and keeps it elsewhere.
TEST_F(ResolvFileTest, AServiceUsersStateDirectoryIsNoPlaceItself) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "another user's directory takes root";
    }
    constexpr uid_t kNobody = 65534;
    const std::string state = root + "/state";
    fs::create_directory(state);
    EXPECT_EQ(commands::kept_places_in(state), std::vector{state});
    ASSERT_EQ(::chown(state.c_str(), kNobody, kNobody), 0);
    EXPECT_EQ(commands::kept_places_in(state), std::vector{state + "/dns"});
}

TEST_F(ResolvFileTest, TheServersOfAnOriginalThatIsKeptCanBeReadByAnother) {
    write(kOriginal);
    EXPECT_TRUE(ResolvFile::servers_kept_in(kept, path).empty());
    EXPECT_FALSE(fs::exists(kept)) << "looking makes nothing";
    ResolvFile file = open();
    ASSERT_TRUE(file.apply({*base::IpAddress::parse("192.0.2.53")}));
    const auto original = name_servers(kOriginal);
    ASSERT_EQ(original.size(), 1U);
    EXPECT_EQ(ResolvFile::servers_kept_in(kept, path), original);
    ASSERT_TRUE(file.restore());

    // As a link: what it leads to.
    fs::rename(path, root + "/etc/real");
    fs::create_symlink("real", path);
    ASSERT_TRUE(file.apply({*base::IpAddress::parse("192.0.2.53")}));
    EXPECT_EQ(ResolvFile::servers_kept_in(kept, path), original);
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

TEST_F(ResolvFileTest, ResolvedIsAskedWhileTheFileNamesItsStubAlone) {
    for (const char* target : {"../run/systemd/resolve/stub-resolv.conf",
                               "../run/systemd/resolve/resolv.conf", "/etc/elsewhere"}) {
        const bool is_of_resolved = std::string_view(target).find("resolve/") != std::string::npos;
        fs::create_symlink(target, path);
        ResolvFile file = open();
        ASSERT_TRUE(file.apply(servers));
        std::vector<std::vector<base::IpAddress>> seen;
        let_resolved_forget(file, [&] { seen.push_back(name_servers(read())); });
        const std::vector<base::IpAddress> stub = {*base::IpAddress::parse("127.0.0.53")};
        EXPECT_EQ(seen, std::vector(is_of_resolved ? size_t{1} : size_t{0}, stub)) << target;
        ASSERT_TRUE(file.restore());
        EXPECT_EQ(fs::read_symlink(path), target);
        let_resolved_forget(file, [] { ADD_FAILURE() << "nothing of ours is there"; });
        fs::remove(path);
    }
}

TEST_F(ResolvFileTest, WhatAnotherProgramHasWrittenIsNotReplacedToMakeResolvedForget) {
    fs::create_symlink("../run/systemd/resolve/stub-resolv.conf", path);
    ResolvFile file = open();
    ASSERT_TRUE(file.apply(servers));
    write(kOriginal);
    let_resolved_forget(file, [] { ADD_FAILURE() << "it is read as it is"; });
    EXPECT_EQ(read(), kOriginal);
}

}  // namespace
}  // namespace continuo::cnapt::names
