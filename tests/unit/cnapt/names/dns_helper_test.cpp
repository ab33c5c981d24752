// The helper as a process of its own, with a resolv.conf of the test's.
#include "cnapt/commands/dns_restore.hpp"
#include "cnapt/names/dns_helper.hpp"
#include "common/io/file.hpp"

#include <array>
#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::cnapt::names {

using commands::restore_dns;

namespace {

namespace fs = std::filesystem;

constexpr const char* kOriginal = "nameserver 192.168.1.1\nsearch lan\n";
constexpr int kPatienceMs = 20'000;

class DnsHelperTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "/continuo-helper-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root = pattern;
        fs::create_directory(root + "/etc");
        options = {"cnapt-test",
                   {*base::IpAddress::parse("198.51.100.53")},
                   root + "/dns",
                   root + "/etc/resolv.conf"};
        write(kOriginal);
    }
    void TearDown() override {
        if (helper > 0) {
            ::kill(helper, SIGKILL);
            wait_for_end();
        }
        fs::remove_all(root);
    }

    void start() {
        std::array<int, 2> ends{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
        helper = ::fork();
        ASSERT_GE(helper, 0);
        if (helper == 0) {
            ::close(ends[0]);
            ::_exit(run_dns_helper(ends[1], options));
        }
        ::close(ends[1]);
        daemon = io::UniqueFd(ends[0]);
    }
    int wait_for_end() {
        int status = -1;
        ::waitpid(helper, &status, 0);
        helper = 0;
        return status;
    }
    void write(const std::string& text) const {
        ASSERT_TRUE(io::write_file_atomically(options.resolv_conf, text, 0644));
    }
    std::string read() const {
        auto text = io::read_file(options.resolv_conf, 1 << 20);
        return text ? *text : "<none>";
    }
    commands::DnsRestored restore() const {
        return restore_dns({options.kept}, options.resolv_conf);
    }
    bool is_in_tunnel() const { return name_servers(read()) == options.servers; }
    void ask(const std::string& text) const {
        ASSERT_EQ(::send(daemon.value(), text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
    }
    // Reads until something begins so.
    bool hears(const std::string& beginning) const {
        pollfd ready{daemon.value(), POLLIN, 0};
        std::array<char, kMaxDnsMessageBytes> buffer{};
        while (::poll(&ready, 1, kPatienceMs) == 1) {
            const ssize_t count = ::recv(daemon.value(), buffer.data(), buffer.size(), 0);
            if (count <= 0) {
                return false;
            }
            const std::string text(buffer.data(), static_cast<size_t>(count));
            if (text.compare(0, beginning.size(), beginning) == 0) {
                return true;
            }
        }
        return false;
    }

    std::string root;
    DnsHelperOptions options;
    io::UniqueFd daemon;
    pid_t helper = 0;
};

TEST_F(DnsHelperTest, DoesWhatTheTwoWordsSayAndNothingElse) {
    start();
    EXPECT_TRUE(hears("original 192.168.1.1"));
    ask("rm -rf /");
    ask("tunnel 192.0.2.66");
    ask(std::string(kMaxDnsMessageBytes + 100, 'x'));
    ask("plain");
    EXPECT_TRUE(hears("state plain"));
    EXPECT_EQ(read(), kOriginal);
    ask("tunnel");
    EXPECT_TRUE(hears("state tunnel"));
    EXPECT_TRUE(is_in_tunnel());
    ask("plain");
    EXPECT_TRUE(hears("state plain"));
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(DnsHelperTest, PutsAllBackWhenTheDaemonIsGone) {
    start();
    ask("tunnel");
    EXPECT_TRUE(hears("state tunnel"));
    daemon.reset();
    EXPECT_EQ(wait_for_end(), 0);
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(DnsHelperTest, TheTerminalDoesNotEndItButTheServiceManagerDoes) {
    start();
    ask("tunnel");
    EXPECT_TRUE(hears("state tunnel"));
    ::kill(helper, SIGINT);
    ::kill(helper, SIGHUP);
    ask("plain");
    EXPECT_TRUE(hears("state plain"));
    ask("tunnel");
    EXPECT_TRUE(hears("state tunnel"));
    ::kill(helper, SIGTERM);
    EXPECT_EQ(wait_for_end(), 0);
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(DnsHelperTest, OneThatWasKilledIsPutRightByTheNextOneOrByHand) {
    for (const bool is_by_hand : {false, true}) {
        start();
        ask("tunnel");
        EXPECT_TRUE(hears("state tunnel"));
        EXPECT_NE(restore().failure, "") << "while it runs";
        ::kill(helper, SIGKILL);
        wait_for_end();
        EXPECT_TRUE(is_in_tunnel());
        if (is_by_hand) {
            EXPECT_TRUE(restore().is_restored);
            EXPECT_FALSE(restore().is_restored);
            EXPECT_EQ(restore().failure, "");
        } else {
            start();
            EXPECT_TRUE(hears("original 192.168.1.1"));
            ::kill(helper, SIGKILL);
            wait_for_end();
        }
        EXPECT_EQ(read(), kOriginal);
    }
    options.kept = root + "/nothing";
    EXPECT_FALSE(restore().is_restored);
    EXPECT_EQ(restore().failure, "");
    EXPECT_FALSE(fs::exists(options.kept));
}

TEST_F(DnsHelperTest, WhereTheOriginalIsKeptIsFound) {
    start();
    ask("tunnel");
    EXPECT_TRUE(hears("state tunnel"));
    ::kill(helper, SIGKILL);
    wait_for_end();
    const auto usual = commands::usual_kept_places(options.resolv_conf);
    ASSERT_FALSE(usual.empty());
    EXPECT_EQ(usual.front(), fs::canonical(options.kept)) << "resolv.conf names it";
    if (::geteuid() == 0) {
        EXPECT_EQ(commands::kept_places_in(root), std::vector{options.kept}) << "root's helper's";
    }
    EXPECT_EQ(commands::kept_places_in(options.kept), std::vector{options.kept});
    fs::create_directory(root + "/empty");
    // Twice the same, and others without anything.
    const std::vector places = {root + "/absent", root + "/empty", options.kept,
                                options.kept + "/../dns"};
    EXPECT_TRUE(restore_dns(places, options.resolv_conf).is_restored);
    EXPECT_EQ(read(), kOriginal);
}

// Whoever owns the state directory could make one, and root's files would be taken for kept ones.
TEST_F(DnsHelperTest, ALinkIsNoPlaceOfAnOriginal) {
    const std::string others = root + "/others";
    fs::create_directory(others);
    ASSERT_TRUE(io::write_file_atomically(others + "/resolv.conf", kOriginal, 0644));
    fs::create_directory_symlink(others, options.kept);
    for (const std::string& place : {options.kept, options.kept + "/", root + "/others/../dns"}) {
        const commands::DnsRestored restored = restore_dns({place}, options.resolv_conf);
        EXPECT_FALSE(restored.is_restored) << place;
        EXPECT_NE(restored.failure.find("link"), std::string::npos) << restored.failure;
    }
    EXPECT_TRUE(fs::exists(others + "/resolv.conf"));
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(DnsHelperTest, TheDirectoryOfResolvConfIsNoPlaceOfItsOriginal) {
    const std::string etc = fs::path(options.resolv_conf).parent_path();
    EXPECT_NE(restore_dns({etc}, options.resolv_conf).failure, "");
    EXPECT_EQ(read(), kOriginal);
    EXPECT_FALSE(fs::exists(etc + "/resolv.conf.damaged"));
}

TEST_F(DnsHelperTest, WhatARunWithAnotherDirectoryLeftIsPutRight) {
    start();
    ask("tunnel");
    EXPECT_TRUE(hears("state tunnel"));
    ::kill(helper, SIGKILL);
    wait_for_end();
    options.kept = root + "/elsewhere";
    start();
    EXPECT_TRUE(hears("original 192.168.1.1"));
    EXPECT_EQ(read(), kOriginal);
    ask("tunnel");
    EXPECT_TRUE(hears("state tunnel"));
    daemon.reset();
    EXPECT_EQ(wait_for_end(), 0);
    EXPECT_EQ(read(), kOriginal);
}

TEST_F(DnsHelperTest, WhatFailsIsTriedAgain) {
    fs::remove(options.resolv_conf);
    fs::create_directory(options.resolv_conf);
    start();
    ask("tunnel");
    EXPECT_TRUE(hears("error cannot change resolv.conf (resolv.conf is no file)"));
    fs::remove(options.resolv_conf);
    write(kOriginal);
    EXPECT_TRUE(hears("state tunnel"));
    EXPECT_TRUE(is_in_tunnel());
}

TEST_F(DnsHelperTest, TellsTheNewServersOfALinksTarget) {
    fs::remove(options.resolv_conf);
    fs::create_symlink(root + "/manager.conf", options.resolv_conf);
    ASSERT_TRUE(io::write_file_atomically(root + "/manager.conf", kOriginal, 0644));
    start();
    ask("tunnel");
    EXPECT_TRUE(hears("original 192.168.1.1"));
    EXPECT_TRUE(hears("state tunnel"));
    ASSERT_TRUE(
        io::write_file_atomically(root + "/manager.conf", "nameserver 192.168.2.1\n", 0644));
    EXPECT_TRUE(hears("original 192.168.2.1")) << "after a move they are the ones to ask";
}

}  // namespace
}  // namespace continuo::cnapt::names
