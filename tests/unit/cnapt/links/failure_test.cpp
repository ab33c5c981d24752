#include "cnapt/commands/failure_text.hpp"
#include "cnapt/links/failure.hpp"
#include "cnapt/links/snapt_link.hpp"

#include <cerrno>

#include <gtest/gtest.h>

namespace continuo::cnapt::links {

using commands::tunnel_text;
using control_link::LinkEnd;

namespace {

using control::CloseCause;
using control::CloseReason;
using control::RejectReason;
using report::JsonValue;

constexpr int64_t kNow = 1795435509;  // 2026-11-23T12:05:09Z

LinkEnd unconnected(int sys_errno) {
    return {{CloseCause::TransportClosed, {}}, false, sys_errno, {}, {}};
}

LinkEnd connected(CloseCause cause) {
    return {{cause, {}}, true, 0, {}, {}};
}

LinkEnd closed_by_peer(CloseReason reason, std::string text) {
    return {{CloseCause::Peer, {reason, std::move(text)}}, true, 0, {}, {}};
}

FailureKind kind_of(const LinkEnd& end) {
    return failure_of(end, false, kNow).kind;
}

JsonValue json(std::string_view text) {
    auto parsed = JsonValue::parse(text);
    EXPECT_TRUE(parsed) << text;
    return parsed ? std::move(*parsed) : JsonValue();
}

TEST(Failure, ToldApartAsASupporterWouldAsk) {
    EXPECT_EQ(kind_of(unconnected(ECONNREFUSED)), FailureKind::ConnectionRefused);
    EXPECT_EQ(kind_of(unconnected(ETIMEDOUT)), FailureKind::TimedOut);
    EXPECT_EQ(kind_of(unconnected(ENETUNREACH)), FailureKind::NoNetwork);
    EXPECT_EQ(kind_of(unconnected(EADDRNOTAVAIL)), FailureKind::NoNetwork);
    EXPECT_EQ(kind_of(unconnected(EHOSTUNREACH)), FailureKind::Unreachable);
    EXPECT_EQ(kind_of(unconnected(EPERM)), FailureKind::Unreachable);
    EXPECT_EQ(kind_of(connected(CloseCause::LoginRefused)), FailureKind::LoginRefused);
    EXPECT_EQ(kind_of(connected(CloseCause::HandshakeFailed)), FailureKind::NoSnapt);
    EXPECT_EQ(kind_of(connected(CloseCause::HandshakeTimeout)), FailureKind::TimedOut);
    EXPECT_EQ(kind_of(connected(CloseCause::WrongSnapt)), FailureKind::WrongSnapt);
    EXPECT_EQ(kind_of(connected(CloseCause::ProtocolError)), FailureKind::Version);
}

TEST(Failure, ALoginIsRefusedInTheSameWordsWhateverTheReason) {
    const Failure failure = failure_of(connected(CloseCause::LoginRefused), false, kNow);
    EXPECT_EQ(failure.text, "login refused: user unknown, key wrong or user disabled");
    EXPECT_EQ(failure.at_utc_s, kNow);
    EXPECT_TRUE(failure.is_current);
}

TEST(Failure, ALinkThatWasOpenIsNoReasonForTheData) {
    for (const CloseCause cause : {CloseCause::TransportClosed, CloseCause::PongTimeout}) {
        EXPECT_EQ(failure_of(connected(cause), true, kNow).kind, FailureKind::ControlLost);
    }
    const LinkEnd stops = closed_by_peer(CloseReason::Shutdown, "");
    EXPECT_EQ(failure_of(stops, true, kNow).text, "the SNAPT stops");
    EXPECT_EQ(failure_of(stops, true, kNow).kind, FailureKind::ControlLost);
}

TEST(Failure, TheSnaptsWordsAreTold) {
    const LinkEnd end = closed_by_peer(CloseReason::Disconnected, "the user was disabled");
    const Failure failure = failure_of(end, true, kNow);
    EXPECT_EQ(failure.kind, FailureKind::Ended);
    EXPECT_EQ(failure.text, "the SNAPT has ended the session: the user was disabled");
    EXPECT_EQ(kind_of(closed_by_peer(CloseReason::Replaced, "")), FailureKind::Replaced);

    const auto rejected = [](RejectReason reason) { return failure_of({reason, "why"}, kNow); };
    EXPECT_EQ(rejected(RejectReason::NoLease).kind, FailureKind::Rejected);
    EXPECT_EQ(rejected(RejectReason::NoLease).text, "refused: why");
    EXPECT_EQ(rejected(RejectReason::NoCommonVersion).kind, FailureKind::Version);
    EXPECT_EQ(rejected(RejectReason::OtherSnapt).kind, FailureKind::WrongSnapt);
    EXPECT_EQ(rejected(RejectReason::UserDisabled).kind, FailureKind::LoginRefused);
}

// From then on the SNAPT tells the node no more than any stranger.
TEST(Failure, WhatTheSnaptSaidLastStaysTheReasonOfARefusedLogin) {
    const Failure stranger = failure_of(connected(CloseCause::LoginRefused), false, kNow + 10);
    Failure failure;
    follow(failure, failure_of(closed_by_peer(CloseReason::Disconnected, "disabled"), true, kNow));
    for (int i = 0; i < 3; ++i) {
        follow(failure, stranger);
        EXPECT_EQ(failure.kind, FailureKind::LoginRefused);
        EXPECT_EQ(failure.text, "login refused: disabled");
        EXPECT_EQ(failure.at_utc_s, kNow + 10);
    }
    failure.is_current = false;  // it was let in
    follow(failure, stranger);
    EXPECT_EQ(failure.text, stranger.text);
    follow(failure, failure_of(unconnected(ETIMEDOUT), false, kNow));
    follow(failure, stranger);
    EXPECT_EQ(failure.text, stranger.text);
}

TEST(Failure, IsNullOrAnObjectInJson) {
    const auto written = [](const Failure& failure) {
        report::JsonWriter writer;
        writer.begin_object();
        write_failure(writer, failure);
        writer.end_object();
        return writer.take();
    };
    EXPECT_EQ(written({}), R"({"last_error":null})");
    EXPECT_EQ(written(make_failure(FailureKind::NameNotFound, "name not found: x", kNow)),
              R"({"last_error":{"kind":"name_not_found","text":"name not found: x",)"
              R"("at":1795435509,"current":true}})");
}

TEST(FailureText, SaysWhatBecomesOfNewFlows) {
    const auto tunnel = [](const std::string& fields) { return tunnel_text(json(fields)); };
    EXPECT_EQ(tunnel(R"({"tunnel":"all","kill_switch":false})"), "tunnel: all; kill switch off\n");
    EXPECT_EQ(tunnel(R"({"tunnel":"new_flows_plain","kill_switch":false})"),
              "tunnel: new flows plain (they go outside the tunnel); kill switch off\n");
    EXPECT_EQ(tunnel(R"({"tunnel":"blocked","kill_switch":true})"),
              "tunnel: blocked (nothing leaves until a SNAPT answers); kill switch on\n");
    EXPECT_EQ(tunnel(R"({"tunnel":"all","kill_switch":false,"refused_versions":["IPv6"]})"),
              "tunnel: all; kill switch off\n"
              "IPv6: refused, no SNAPT carries it (give one an [inner] prefix for it)\n");
    EXPECT_EQ(tunnel("{}"), "");
}

TEST(FailureText, SaysWhichSnaptHasNoWayOutForAVersion) {
    const auto said = [](const std::string& refused) {
        const std::string text = tunnel_text(
            json(R"({"tunnel":"all","kill_switch":false,"refused_versions":[)" + refused +
                 R"(],"sessions":[{"snapt":"zrh-1","no_way_out":["IPv6"]},{"snapt":"zrh-2",)"
                 R"("no_way_out":[]},{"snapt":"ber-1","no_way_out":["IPv6"]}]})"));
        return text.substr(text.find('\n') + 1);
    };
    const std::string remedy = " (`snapt doctor` there says why, and the remedy)\n";
    EXPECT_EQ(said(""),
              "zrh-1, ber-1 has no way out for IPv6, new flows take another SNAPT" + remedy);
    EXPECT_EQ(said(R"("IPv6")"), "IPv6: refused, no way out at zrh-1, ber-1" + remedy);
    EXPECT_EQ(said(R"("IPv4","IPv6")"),
              "IPv4: refused, no SNAPT carries it (give one an [inner] prefix for it)\n"
              "IPv6: refused, no way out at zrh-1, ber-1" +
                  remedy);
}

TEST(FailureText, SaysWhichVpnHasTheDefaultRoute) {
    const auto said = [](const std::string& vpn, const char* kill_switch = "false") {
        const std::string text =
            tunnel_text(json(R"({"tunnel":"all","kill_switch":)" + std::string(kill_switch) +
                             R"(,"other_vpns":[)" + vpn + "]}"));
        return text.substr(text.find('\n') + 1);
    };
    EXPECT_EQ(said(""), "");
    EXPECT_EQ(said(R"({"interface":"tun0","in_main":true,"used":false})"),
              "tun0: another VPN has the default route; data goes beside it ([uplinks] allow = "
              "[\"*\", \"tun0\"] leads it through)\n");
    EXPECT_EQ(said(R"({"interface":"wg0","in_main":false,"used":false})"),
              "wg0: another VPN has the default route; data goes beside it (public places behind "
              "it belong into capture.exclude)\n");
    EXPECT_EQ(said(R"({"interface":"wg0","used":true})"),
              "wg0: another VPN has the default route; data goes through it ([uplinks] deny keeps "
              "wg0 out)\n");
    EXPECT_EQ(said(R"({"interface":"wg0","used":true})", "true"),
              "wg0: another VPN has the default route; data goes through it (put its server into "
              "capture.exclude)\n");
    EXPECT_EQ(said(R"({"interface":"wg0","used":false,"takes_programs":true})"),
              "wg0: another VPN has the default route, and its rules stand before those of cnapt; "
              "programs go past cnapt (give its rules a priority above 9362, or let it take no "
              "default route)\n");
}

TEST(FailureText, HasALineForWhatDoesNotWorkNow) {
    const auto snapts = json(R"([
{"snapt":"a","last_error":{"kind":"login_refused","text":"login refused","at":1795435509,"current":true}},
{"snapt":"b","last_error":{"kind":"timed_out","text":"timed out","at":1795435509,"current":false}},
{"snapt":"c","last_error":null},{"snapt":"d"}])");
    EXPECT_EQ(commands::snapt_errors_text(snapts, 80), "a: login refused (2026-11-23T12:05:09Z)\n");
    const auto paths = json(R"([
{"interface":"up1","snapt":"a","transport":"udp","last_error":{"text":"no route","at":1795435509,"current":true}},
{"interface":"up2","snapt":"a","transport":"tcp","last_error":{"text":"silent","at":null,"current":true}}])");
    EXPECT_EQ(commands::path_errors_text(paths, 80),
              "up1>a: no route (2026-11-23T12:05:09Z)\nup2>a tcp: silent\n");
    EXPECT_EQ(commands::snapt_errors_text(json("7"), 80) +
                  commands::path_errors_text(json("null"), 80),
              "");
}

// A login elsewhere mends what was of the login, not what was of another path.
TEST(NodeNotes, AFailureOfAPathIsOverWhenThatPathLetsIn) {
    SnaptLink link;
    link.failure.note(make_failure(FailureKind::TimedOut, "no answer", 1), uint8_t{0});
    link.failure.note(make_failure(FailureKind::LoginRefused, "refused", 2), uint8_t{1});
    EXPECT_TRUE(link.failure.is_now(FailureKind::LoginRefused));
    EXPECT_TRUE(link.failure.of_path(0).is_now(FailureKind::TimedOut));
    EXPECT_EQ(link.failure.of_path(1).kind, FailureKind::None) << "a refusal is of no path";
    link.failure.note_login(uint8_t{1});
    EXPECT_FALSE(link.failure.latest().is_current);
    EXPECT_TRUE(link.failure.of_path(0).is_current);
    link.failure.note_login(uint8_t{0});
    EXPECT_FALSE(link.failure.of_path(0).is_current);
}

}  // namespace
}  // namespace continuo::cnapt::links
