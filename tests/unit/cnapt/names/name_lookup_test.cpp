#include "cnapt/names/dns_message.hpp"
#include "cnapt/names/name_lookup.hpp"
#include "cnapt/names/resolv_conf.hpp"
#include "cnapt/names/resolved_link.hpp"
#include "common/io/file.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/unique_fd.hpp"

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::cnapt::names {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

base::IpAddress ip(const char* text) {
    return *base::IpAddress::parse(text);
}

void add(Bytes& to, std::initializer_list<int> octets) {
    for (const int octet : octets) {
        to.push_back(static_cast<uint8_t>(octet));
    }
}

// The query as its own answer, with `count` records to follow.
Bytes answer_to(const Bytes& query, int count, int flags_low = 0x80) {
    Bytes answer = query;
    answer[2] = 0x81;
    answer[3] = static_cast<uint8_t>(flags_low);
    answer[7] = static_cast<uint8_t>(count);
    return answer;
}

TEST(DnsMessage, AsksOneQuestion) {
    const Bytes query = make_dns_query("snapt.example.", base::IpVersion::V6, 0x1234);
    Bytes expected;
    add(expected, {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5, 's', 'n', 'a', 'p', 't'});
    add(expected, {7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 28, 0, 1});
    EXPECT_EQ(query, expected);
}

TEST(DnsMessage, WhatIsNoNameIsNotAsked) {
    for (const std::string& bad : {std::string(), std::string("."), std::string("a..b"),
                                   std::string(64, 'a'), std::string(".a")}) {
        EXPECT_TRUE(make_dns_query(bad, base::IpVersion::V4, 1).empty()) << bad;
    }
    std::string longest;
    for (int i = 0; i < 127; ++i) {
        longest += "a.";
    }
    EXPECT_FALSE(make_dns_query(longest, base::IpVersion::V4, 1).empty());
    EXPECT_TRUE(make_dns_query(longest + "a", base::IpVersion::V4, 1).empty());
}

TEST(DnsMessage, ReadsAddressesThroughAliases) {
    const Bytes query = make_dns_query("a.example", base::IpVersion::V4, 7);
    Bytes answer = answer_to(query, 3);
    add(answer, {0xC0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, 'B', 0xC0, 14});       // a: alias b
    add(answer, {1, 'b', 0xC0, 14, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1});   // b
    add(answer, {1, 'c', 0xC0, 14, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 66});  // not asked for
    const auto addresses = parse_dns_answer(answer, query);
    ASSERT_TRUE(addresses);
    EXPECT_EQ(*addresses, std::vector{ip("192.0.2.1")});
}

TEST(DnsMessage, NoSuchNameHasNoAddress) {
    const Bytes query = make_dns_query("a.example", base::IpVersion::V4, 7);
    const auto none = parse_dns_answer(answer_to(query, 0, 0x83), query);
    ASSERT_TRUE(none);
    EXPECT_TRUE(none->empty());
    EXPECT_EQ(parse_dns_answer(answer_to(query, 0, 0x82), query).error().code,
              base::Errc::NotFound);
}

TEST(DnsMessage, AnswersToOtherQuestionsAreNot) {
    const Bytes query = make_dns_query("a.example", base::IpVersion::V4, 7);
    EXPECT_FALSE(parse_dns_answer(query, query)) << "a question";
    Bytes notice = answer_to(query, 0);
    notice[2] |= 4U << 3;
    EXPECT_FALSE(parse_dns_answer(notice, query)) << "the answer to another operation";
    EXPECT_FALSE(
        parse_dns_answer(answer_to(make_dns_query("a.example", base::IpVersion::V4, 8), 0), query));
    EXPECT_FALSE(
        parse_dns_answer(answer_to(make_dns_query("b.example", base::IpVersion::V4, 7), 0), query));
    EXPECT_FALSE(
        parse_dns_answer(answer_to(make_dns_query("a.example", base::IpVersion::V6, 7), 0), query));
    EXPECT_TRUE(
        parse_dns_answer(answer_to(make_dns_query("A.Example", base::IpVersion::V4, 7), 0), query));
}

TEST(DnsMessage, EveryCutAndALoopOfPointersAreRefused) {
    const Bytes query = make_dns_query("a.example", base::IpVersion::V4, 7);
    Bytes answer = answer_to(query, 1);
    add(answer, {0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1});
    ASSERT_TRUE(parse_dns_answer(answer, query));
    for (size_t length = 0; length < answer.size(); ++length) {
        EXPECT_FALSE(parse_dns_answer(base::ByteView(answer).first(length), query)) << length;
    }
    Bytes loop = answer_to(query, 1);
    const auto here = static_cast<int>(loop.size());
    add(loop, {0xC0, here, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1});
    EXPECT_FALSE(parse_dns_answer(loop, query));
}

TEST(Hosts, AreFoundByAnyOfTheirNames) {
    const std::string text = "127.0.0.1 localhost\n# 192.0.2.9 snapt\n\n192.0.2.1\tsnapt.example "
                             "Snapt # home\n2001:db8::1 snapt\nbad snapt\n";
    EXPECT_EQ(find_in_hosts(text, "snapt"), (std::vector{ip("192.0.2.1"), ip("2001:db8::1")}));
    EXPECT_EQ(find_in_hosts(text, "snapt.example"), std::vector{ip("192.0.2.1")});
    EXPECT_TRUE(find_in_hosts(text, "home").empty());
    EXPECT_TRUE(find_in_hosts(text, "192.0.2.1").empty());
}

class Lookup : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "/continuo-names-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root = pattern;
        places.resolv_conf = root + "/resolv.conf";
        places.resolved_conf = root + "/resolved.conf";
        places.hosts = root + "/hosts";
        places.servers = {ip("198.51.100.53")};
        places.original = {ip("192.168.9.9")};
    }
    void TearDown() override { fs::remove_all(root); }
    static void write(const std::string& path, const std::string& text, unsigned mode = 0644) {
        ASSERT_TRUE(io::write_file_atomically(path, text, mode));
    }

    std::string root;
    LookupPlaces places;
};

TEST_F(Lookup, AsksTheHostsOwnServersThenOurs) {
    write(places.resolv_conf, "nameserver 192.168.1.1\n");
    EXPECT_EQ(servers_beside_tunnel(places), (std::vector{ip("192.168.1.1"), ip("198.51.100.53")}));
}

TEST_F(Lookup, AsksTheOriginalOnesWhileResolvConfIsOurs) {
    write(places.resolv_conf, resolv_conf_through(places.servers, "", "x"));
    EXPECT_EQ(servers_beside_tunnel(places), (std::vector{ip("192.168.9.9"), ip("198.51.100.53")}));
}

TEST_F(Lookup, AsksWhatResolvedAsksWithoutOurs) {
    write(places.resolv_conf, "nameserver 127.0.0.53\n");
    write(places.resolved_conf, "nameserver 198.51.100.53\nnameserver 192.168.2.1\n");
    EXPECT_EQ(servers_beside_tunnel(places), (std::vector{ip("192.168.2.1"), ip("198.51.100.53")}));
}

TEST_F(Lookup, AServersAnswerIsTaken) {
    const io::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    io::SocketAddress own(base::Endpoint{ip("127.0.0.1"), 0});
    ASSERT_EQ(::bind(fd.value(), own.data(), own.size()), 0);
    socklen_t length = io::SocketAddress::capacity();
    ASSERT_EQ(::getsockname(fd.value(), own.data(), &length), 0);
    places.port = own.endpoint()->port;
    write(places.resolv_conf, "nameserver 127.0.0.1\n");
    std::thread server([&] {
        for (int i = 0; i < 2; ++i) {
            Bytes query(512);
            io::SocketAddress peer;
            socklen_t size = io::SocketAddress::capacity();
            const ssize_t count =
                ::recvfrom(fd.value(), query.data(), query.size(), 0, peer.data(), &size);
            query.resize(static_cast<size_t>(std::max<ssize_t>(count, 12)));
            const bool is_v4 = query[query.size() - 3] == 1;
            Bytes answer = answer_to(query, is_v4 ? 1 : 0);
            if (is_v4) {
                add(answer, {0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1});
            }
            ::sendto(fd.value(), answer.data(), answer.size(), 0, peer.data(), peer.size());
        }
    });
    EXPECT_EQ(look_up("snapt.example", places), std::vector{ip("192.0.2.1")});
    server.join();
    write(places.hosts, "192.0.2.77 snapt.example\n");
    EXPECT_EQ(look_up("snapt.example", places), std::vector{ip("192.0.2.77")});
}

TEST_F(Lookup, ResolvedIsToldByItsOwnProgram) {
    const ResolvedPlaces resolved{root + "/resolvectl", root};
    const ResolvedLink link("cnapt0", resolved);
    EXPECT_FALSE(link.is_there());
    write(resolved.program,
          "#!/bin/sh\necho \"$*\" >>" + root + "/said\n[ \"$1\" != revert ] || exit 3\n", 0755);
    EXPECT_FALSE(link.is_there());
    write(root + "/io.systemd.Resolve", "");
    EXPECT_TRUE(link.is_there());
    EXPECT_TRUE(link.set({ip("198.51.100.53"), ip("2001:db8::53")}));
    EXPECT_FALSE(link.revert());
    EXPECT_EQ(*io::read_file(root + "/said", 1000),
              "dns cnapt0 198.51.100.53 2001:db8::53\ndomain cnapt0 ~.\n"
              "default-route cnapt0 yes\ndnsovertls cnapt0 no\ndnssec cnapt0 no\nrevert cnapt0\n");
}

}  // namespace
}  // namespace continuo::cnapt::names
