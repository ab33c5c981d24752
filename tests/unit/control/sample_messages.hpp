// One control message of each type, with every field.
#pragma once

#include "common/control/message.hpp"

#include <array>
#include <string>
#include <vector>

namespace continuo::control {

inline constexpr std::array<uint8_t, 3> kDatagram = {0x15, 0x00, 0x4A};

inline Hello full_hello() {
    Hello hello;
    hello.versions = {1, 2};
    hello.node = "laptop";
    hello.software = "cnapt 0.1";
    hello.session_id = {1, 2, 3};
    hello.wire_session_down = 0xFFFE;
    hello.offers = {{ProtectionKind::Aes256Gcm, 16}, {ProtectionKind::HmacSha256, 10}};
    hello.limits = {1000, 2000, 3, 4000};
    hello.want_ipv6 = false;
    hello.continuation = Continuation{7, 0xFFFFFFFF};
    hello.snapt = "zrh-1";
    hello.node_id = NodeId{4, 5, 6};
    return hello;
}

inline Accept full_accept() {
    Accept accept;
    accept.wire_session_up = 9;
    accept.snapt = "zrh-1";
    accept.realm = "mesh.example";
    accept.epoch = 0x01020304;
    accept.continued = true;
    accept.protection = {ProtectionKind::HmacSha256, 10};
    accept.lease_ipv4 = base::IpAddress::parse("100.64.0.2");
    accept.lease_ipv6 = base::IpAddress::parse("fd93:47::2");
    accept.inner_mtu = 1400;
    accept.udp_ports = {9347, 9348};
    accept.keepalive_s = 20;
    accept.rekey_s = 60;
    accept.rekey_datagrams = uint64_t{1} << 40;
    accept.idle_timeout_s = 5;
    accept.limits = {9, 8, 7, 6};
    accept.node = "laptop-2";
    accept.denied = {*base::IpPrefix::parse("10.0.0.0/8"), *base::IpPrefix::parse("fc00::/7")};
    accept.user_flows = 4096;
    return accept;
}

inline std::vector<Message> all_messages() {
    Directory directory;
    directory.entries.push_back(
        {"zrh-1", "mesh.example", {*base::Endpoint::parse("203.0.113.9:9347")}, 500, 1200});
    directory.entries.push_back(
        {"bsl-1",
         "mesh.example",
         {*base::Endpoint::parse("[2001:db8::9]:1"), *base::Endpoint::parse("192.0.2.1:2")},
         0,
         1000,
         {{"bsl-1.example.org", 443}}});
    return {full_hello(),
            full_accept(),
            Reject{RejectReason::QuotaExhausted, "no quota left"},
            Rekey{5},
            RekeyOk{0xFFFFFFFF},
            RekeyWanted{},
            Apps{{{1, "firefox"}, {2, "ssh"}},
                 {{0, base::PathMode::Flow}, {2, base::PathMode::Packet}}},
            directory,
            KeepaliveRequest{},
            UsageQuery{1, "{\"by\":\"class\"}"},
            UsageReply{0xFFFFFFFF, std::string(kMaxUsageBytes, 'x')},
            SessionQuery{},
            SessionState{true},
            Ping{1},
            Pong{~uint64_t{0}},
            Close{CloseReason::Draining, "maintenance"},
            Data{kDatagram},
            Allowance{AllowanceState::Throttled, AllowanceKind::Quota, 5'000'000, 5'000'001,
                      1'796'083'200, 128'000, -2'000'000, AllowanceCredit{5'000'000, 1}}};
}

}  // namespace continuo::control
