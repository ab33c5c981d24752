#include "common/control/portal_check.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace continuo::control {
namespace {

constexpr PortalNonce kNonce = {1, 2, 3};
constexpr std::string_view kHost = "203.0.113.9:9347";

base::ByteView view(std::string_view text) {
    return {static_cast<const uint8_t*>(static_cast<const void*>(text.data())), text.size()};
}

PortalKey key_of(uint8_t first, std::string_view realm = "mesh.example") {
    return derive_portal_key(UserKey{first}, realm);
}

std::string request_of(const PortalKey& key) {
    return format_portal_request({kNonce, portal_tag(key, PortalSide::Node, kNonce)}, kHost);
}

PortalAnswer judge(std::string_view text) {
    return judge_portal_answer(view(text), portal_tag(key_of(1), PortalSide::Snapt, kNonce), kHost);
}

TEST(PortalKey, DiffersByUserRealmAndUse) {
    EXPECT_NE(key_of(1), key_of(2));
    EXPECT_NE(key_of(1), key_of(1, "other.example"));
    const Psk psk = derive_psk(UserKey{1}, "mesh.example");
    EXPECT_FALSE(std::equal(psk.begin(), psk.end(), key_of(1).begin()));
    EXPECT_NE(portal_tag(key_of(1), PortalSide::Node, kNonce),
              portal_tag(key_of(1), PortalSide::Snapt, kNonce));
}

// docs/PROTOCOL.md section 4.9.
TEST(PortalKey, MakesTheTagsOfTheVector) {
    UserKey key{};
    PortalNonce nonce{};
    std::iota(key.begin(), key.end(), uint8_t{0});
    std::iota(nonce.begin(), nonce.end(), uint8_t{0});
    const PortalKey portal_key = derive_portal_key(key, "mesh.example");
    const std::string request =
        format_portal_request({nonce, portal_tag(portal_key, PortalSide::Node, nonce)}, kHost);
    EXPECT_EQ(request.substr(0, request.find(' ', 4)),
              "GET /continuo/000102030405060708090a0b0c0d0e0ff6d298169fddf54bcf81888d90954582");
    const std::string answer =
        format_portal_answer(portal_tag(portal_key, PortalSide::Snapt, nonce));
    EXPECT_EQ(answer.substr(answer.size() - 32), "a008a5073d70ab41ef9f4bcde370953d");
}

TEST(PortalRequest, ComesBackAndNamesNobody) {
    const std::string text = request_of(key_of(1));
    const PortalInput input = parse_portal_request(view(text));
    ASSERT_TRUE(input.request);
    EXPECT_EQ(input.request->nonce, kNonce);
    EXPECT_EQ(input.request->tag, portal_tag(key_of(1), PortalSide::Node, kNonce));
    EXPECT_EQ(text.substr(0, 14), "GET /continuo/");
    EXPECT_NE(text.find("\r\nHost: 203.0.113.9:9347\r\n"), std::string::npos);
}

TEST(PortalRequest, IsAskedForMoreUntilItIsWhole) {
    const std::string text = request_of(key_of(1));
    for (size_t length = 0; length < text.size(); ++length) {
        const PortalInput input = parse_portal_request(view(text).first(length));
        EXPECT_TRUE(input.needs_more) << length;
        EXPECT_FALSE(input.request) << length;
    }
}

TEST(PortalRequest, MayGrowOnItsWay) {
    std::string text = request_of(key_of(1));
    text.insert(text.size() - 2, "Via: 1.1 proxy\r\n");
    EXPECT_TRUE(parse_portal_request(view(text)).request);
    text.insert(text.size() - 2, "X: " + std::string(kMaxPortalRequestBytes, 'x') + "\r\n");
    const PortalInput input = parse_portal_request(view(text));
    EXPECT_FALSE(input.request);
    EXPECT_FALSE(input.needs_more);
}

TEST(PortalRequest, OtherRequestsAreRefused) {
    const std::string good = request_of(key_of(1));
    std::string short_one = good.substr(0, good.find(" HTTP")) + " HTTP/1.1\r\n\r\n";
    EXPECT_TRUE(parse_portal_request(view(short_one)).request);
    for (const std::string& bad :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("POST /continuo/"),
          std::string("GET /continuo/\r\n\r\n"),
          "GET /continuo/" + std::string(64, 'A') +
              " HTTP/1.1\r\nHost: a-long-name.example\r\n\r\n",
          "GET /continuo/" + std::string(64, 'a') + "0 HTTP/1.1\r\nHost: a.example.org\r\n\r\n"}) {
        const PortalInput input = parse_portal_request(view(bad));
        EXPECT_FALSE(input.request) << bad;
        EXPECT_FALSE(input.needs_more) << bad;
    }
}

TEST(PortalAnswer, IsNeverLongerThanTheShortestRequest) {
    std::string request = "GET /continuo/" + std::string(64, 'a') + " HTTP/1.1\r\n\r\n";
    while (!parse_portal_request(view(request)).request) {
        request.insert(request.size() - 4, "x");
        ASSERT_LT(request.size(), 1000U);
    }
    EXPECT_LE(format_portal_answer({}).size(), request.size());
}

TEST(PortalAnswer, TheKeyedNonceIsTheSnapts) {
    const std::string good = format_portal_answer(portal_tag(key_of(1), PortalSide::Snapt, kNonce));
    EXPECT_EQ(judge(good).verdict, PortalVerdict::Snapt);
    std::string added = good;
    added.insert(added.find("\r\n") + 2, "Via: 1.1 proxy\r\n");
    EXPECT_EQ(judge(added).verdict, PortalVerdict::Snapt);
}

TEST(PortalAnswer, AnythingElseInHttpIsAPortal) {
    const std::string good = format_portal_answer(portal_tag(key_of(1), PortalSide::Snapt, kNonce));
    for (const std::string& bad :
         {good + "x", good.substr(0, good.size() - 1), good.substr(0, good.size() - 1) + "X",
          "HTTP/1.1 302" + good.substr(12),
          std::string("HTTP/1.0 200 OK\r\n\r\n<html>login</html>"),
          std::string("HTTP/1.1 511 Network Authentication Required\r\n\r\n")}) {
        EXPECT_EQ(judge(bad).verdict, PortalVerdict::Portal) << bad;
    }
}

// A login that is refused is no reason to look for a portal.
TEST(PortalAnswer, ASnaptThatDoesNotKnowTheKeyIsNoPortal) {
    for (const PortalTag& tag : {portal_tag(key_of(2), PortalSide::Snapt, kNonce),
                                 portal_tag(key_of(1), PortalSide::Node, kNonce), PortalTag{}}) {
        const PortalAnswer answer = judge(format_portal_answer(tag));
        EXPECT_EQ(answer.verdict, PortalVerdict::Stranger);
        EXPECT_EQ(answer.url, "");
    }
}

TEST(PortalAnswer, WhatIsNoHttpTellsNothing) {
    for (const std::string_view nothing :
         {"", "\x15\x03\x03\x00\x02\x02\x0a", "SSH-2.0-OpenSSH", "HTTP/2 200", "HTTP/1.1 20"}) {
        EXPECT_EQ(judge(nothing).verdict, PortalVerdict::None) << nothing;
    }
}

std::string url_of(const std::string& location) {
    return judge("HTTP/1.1 302 Found\r\nServer: x\r\nlocation: " + location + "\r\n\r\n").url;
}

TEST(PortalAnswer, SaysWhereThePortalLeads) {
    EXPECT_EQ(url_of("http://login.example/a?b=c&d=%20"), "http://login.example/a?b=c&d=%20");
    EXPECT_EQ(url_of("HTTPS://login.example"), "HTTPS://login.example");
    EXPECT_EQ(url_of("http://203.0.113.90/login"), "http://203.0.113.90/login");
    EXPECT_EQ(judge("HTTP/1.1 200 OK\r\n\r\nlogin").url, "");
}

TEST(PortalAnswer, NeverLeadsToTheSnapt) {
    for (const char* url :
         {"/login", "login", "http://203.0.113.9/login", "http://203.0.113.9:9347/",
          "HTTPS://203.0.113.9", "https://user@203.0.113.9:443/a", "http://203.0.113.9?a=/",
          "http://", "http:///login"}) {
        EXPECT_EQ(url_of(url), "") << url;
    }
    const std::string answer = "HTTP/1.1 302 Found\r\nLocation: http://[2001:DB8::9]/\r\n\r\n";
    EXPECT_EQ(judge_portal_answer(view(answer), {}, "[2001:db8::9]:9347").url, "");
    EXPECT_NE(judge_portal_answer(view(answer), {}, "[2001:db8::8]:9347").url, "");
}

TEST(PortalAnswer, AUrlThatIsNotCleanIsNotTold) {
    for (const std::string& bad :
         {std::string("javascript:alert(1)"), std::string("//evil.example"),
          std::string("http://a/\x1b[31m"), std::string("http://a/'b"), std::string("http://a/\"b"),
          std::string("http://a/`b`"), std::string("http://a/$(b)"), std::string("http://a/b c"),
          std::string("http://a/\xC3\xA4"), "http://a/" + std::string(kMaxPortalUrlBytes, 'a')}) {
        EXPECT_EQ(url_of(bad), "") << bad;
    }
}

}  // namespace
}  // namespace continuo::control
