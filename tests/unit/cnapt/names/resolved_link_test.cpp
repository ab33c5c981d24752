#include "cnapt/names/resolved_keeper.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace continuo::cnapt::names {
namespace {

namespace fs = std::filesystem;
using Clock = ResolvedKeeper::Clock;

const std::vector<base::IpAddress> kServers = {*base::IpAddress::parse("203.0.113.10"),
                                               *base::IpAddress::parse("2001:db8::53")};
// As resolvectl of systemd 252 prints it.
constexpr const char* kSet =
    "Link 3 (cnapt0)\n"
    "    Current Scopes: DNS\n"
    "         Protocols: +DefaultRoute -LLMNR -mDNS -DNSOverTLS DNSSEC=no/unsupported\n"
    "Current DNS Server: 203.0.113.10\n"
    "       DNS Servers: 203.0.113.10 2001:db8::53\n"
    "        DNS Domain: ~.\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

TEST(ShownLink, IsWhatWasSetWhateverTheLayout) {
    EXPECT_TRUE(shows_resolved_link(kSet, kServers));
    EXPECT_TRUE(shows_resolved_link(with(kSet, " 2001:", "\n                    2001:"), kServers));
    EXPECT_TRUE(shows_resolved_link(with(kSet, "~.", "lan ~."), kServers)) << "more domains";
    EXPECT_TRUE(
        shows_resolved_link("DNS Servers: 203.0.113.10\n 2001:db8::53\nDNS Domain: ~.", kServers))
        << "a version without Protocols";
}

TEST(ShownLink, IsAnotherWhenAnyPartOfItIs) {
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {" 2001:db8::53", ""},
             {" 2001:db8::53", " 2001:db8::54"},
             {"s: 203.0.113.10", "s: 192.168.1.1 203.0.113.10"},
             {"DNS Domain: ~.", "DNS Domain: example.net"},
             {"        DNS Domain: ~.\n", ""},
             {"+DefaultRoute", "-DefaultRoute"},
             {"-DNSOverTLS", "+DNSOverTLS"},
             {"-DNSOverTLS", "DNSOverTLS=opportunistic"},
             {"DNSSEC=no", "DNSSEC=yes"}}) {
        EXPECT_FALSE(shows_resolved_link(with(kSet, from, to), kServers)) << from << " " << to;
    }
    const std::string_view whole(kSet);
    for (size_t length = 0; length < whole.find("~."); ++length) {
        EXPECT_FALSE(shows_resolved_link(whole.substr(0, length), kServers));
    }
}

TEST(ShownGlobal, IsTheWordOfAllLinks) {
    EXPECT_EQ(parse_resolved_global("Global: yes\nLink 2 (eth0): no\n"), "yes");
    EXPECT_EQ(parse_resolved_global("Link 2 (eth0): yes\nGlobal: allow-downgrade"),
              "allow-downgrade");
    EXPECT_EQ(parse_resolved_global("Link 2 (eth0): yes\n"), "");
    EXPECT_EQ(parse_resolved_global("Global:\n"), "");
    EXPECT_EQ(parse_resolved_global(""), "");
}

TEST(ShownDomains, AreThoseOfEachLink) {
    const auto shown = [](std::string_view output) {
        std::string text;
        for (const ResolvedDomains& one : parse_resolved_domains(output)) {
            text += one.link + ":";
            for (const std::string& domain : one.domains) {
                text += " " + domain;
            }
            text += "\n";
        }
        return text;
    };
    constexpr std::string_view kSaid = "Global: everywhere.example\n"
                                       "Link 2 (eth0): ~. lan\n"
                                       "               ~corp.example\n"
                                       "Link 3 (wlan0):\n"
                                       "Link 4 (cnapt0): ~.\n";
    EXPECT_EQ(shown(kSaid), "eth0: ~. lan ~corp.example\ncnapt0: ~.\n");
    EXPECT_EQ(shown("Link 5 (tun0): ~a.example"), "tun0: ~a.example\n");
    EXPECT_EQ(shown(""), "");
    for (size_t length = 0; length < kSaid.size(); ++length) {
        EXPECT_EQ(shown(kSaid.substr(0, length)).find("everywhere"), std::string::npos);
    }
}

// A resolvectl that notes what it is told, and prints `status`.
class ResolvedKeeperTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "/continuo-resolved-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        write("resolvectl", "#!/bin/sh\necho \"$*\" >>" + root_ + "/told\n[ -e " + root_ +
                                "/refuses ] && exit 1\ncase \"$*\" in *status*) cat " + root_ +
                                "/status;; esac\nexit 0\n");
        fs::permissions(root_ + "/resolvectl", fs::perms::owner_all);
        write("status", kSet);
        write("io.systemd.Resolve", "");
        keeper_.emplace(ResolvedLink("cnapt0", {root_ + "/resolvectl", root_}));
    }
    void TearDown() override { fs::remove_all(root_); }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(root_ + "/" + name) << text;
    }
    // The commands received since the last call, one per line.
    std::string told() const {
        std::ifstream file(root_ + "/told");
        std::stringstream text;
        text << file.rdbuf();
        fs::remove(root_ + "/told");
        return text.str();
    }
    Clock::time_point at(int seconds) const { return began_ + std::chrono::seconds(seconds); }

    std::string root_;
    std::optional<ResolvedKeeper> keeper_;
    Clock::time_point began_ = Clock::now();
    const std::string all_ = "dns cnapt0 203.0.113.10 2001:db8::53\ndomain cnapt0 ~.\n"
                             "default-route cnapt0 yes\ndnsovertls cnapt0 no\ndnssec cnapt0 no\n";
    const std::string look_ = "--no-pager status cnapt0\n";
};

TEST_F(ResolvedKeeperTest, ReadsTheLinkBackNowAndThenAndLeavesItAloneWhileItIsSet) {
    ASSERT_TRUE(keeper_->tell(kServers));
    EXPECT_EQ(told(), all_);
    for (int second = 0; second < 9; ++second) {
        EXPECT_FALSE(keeper_->look(kServers, at(second)).value());
    }
    EXPECT_EQ(told(), look_ + look_ + look_);
    keeper_->undo();
    EXPECT_EQ(told(), "revert cnapt0\nreset-server-features\n");
}

TEST_F(ResolvedKeeperTest, SetsAgainWhatIsGoneAndEverMoreSeldomWhileItGoesOn) {
    ASSERT_TRUE(keeper_->tell(kServers));
    told();
    write("status", "Link 3 (cnapt0)\n");
    std::vector<int> set_at;
    for (int second = 0; second < 200; ++second) {
        if (keeper_->look(kServers, at(second)).value()) {
            set_at.push_back(second);
        }
    }
    EXPECT_EQ(set_at, (std::vector<int>{0, 4, 12, 28, 60, 120, 180}));
    EXPECT_NE(told().find(look_ + all_), std::string::npos);
    write("status", kSet);
    EXPECT_FALSE(keeper_->look(kServers, at(400)).value());
    write("status", "Link 3 (cnapt0)\n");
    EXPECT_TRUE(keeper_->look(kServers, at(404)).value()) << "after a rest at once";
}

TEST_F(ResolvedKeeperTest, OneThatBeginsLaterIsToldAndOneThatRefusesIsNot) {
    fs::remove(root_ + "/io.systemd.Resolve");
    ASSERT_TRUE(keeper_->tell(kServers));
    EXPECT_FALSE(keeper_->is_told());
    EXPECT_FALSE(keeper_->look(kServers, at(0)).value());
    EXPECT_EQ(told(), "");
    write("io.systemd.Resolve", "");
    write("refuses", "");
    EXPECT_FALSE(keeper_->look(kServers, at(1)));
    EXPECT_FALSE(keeper_->is_told());
    fs::remove(root_ + "/refuses");
    EXPECT_TRUE(keeper_->look(kServers, at(20)).value());
    EXPECT_TRUE(keeper_->is_told());
    fs::remove(root_ + "/io.systemd.Resolve");
    EXPECT_FALSE(keeper_->look(kServers, at(30)).value());
    EXPECT_FALSE(keeper_->is_told()) << "it is gone";
}

}  // namespace
}  // namespace continuo::cnapt::names
