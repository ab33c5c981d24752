// Questions to SNAPTs without a session, for `cnapt doctor`: whether TCP connects, whether UDP is
// answered and up to which size, and whether a key is let in. All addresses are asked at once; each
// call blocks within its time.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/time.hpp"
#include "common/control/client_control.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace continuo::cnapt::control_link {

// Mark of the question's packets, which are routed outside the tunnel; 0: none, which needs no
// rights.
struct ReachQuestion {
    std::vector<base::Endpoint> to;
    uint32_t fwmark = 0;
    base::Duration time{};
};

struct TcpReach {
    std::optional<base::Duration> connected_in;
    int sys_errno = 0;  // of a failure; ETIMEDOUT: no answer in time
};
// Connects by TCP. The answers are in the order of `to`.
std::vector<TcpReach> probe_tcp(const ReachQuestion& question);

struct UdpReach {
    std::optional<base::Duration> answered_in;
    int sys_errno = 0;      // send error of the host or ICMP error; ETIMEDOUT: nothing came
    std::string interface;  // by which it goes; empty: not known
    // The largest outer packet of kProbedSizes that came through; 0: none.
    uint16_t largest = 0;
    uint16_t interface_mtu = 0;
};
// Outer IP packets, the largest first. 1500 is the MTU of Ethernet, 1492 that of PPPoE (RFC 2516),
// 1280 the least of IPv6 (RFC 8200 section 5). The others are steps between, a choice.
inline constexpr uint16_t kProbedSizes[] = {1500, 1492, 1440, 1400, 1340, 1280};
// A SNAPT answers a datagram of an unknown session with UNKNOWN (docs/PROTOCOL.md section 3.6), so
// nobody learns who asks. Sent several times.
std::vector<UdpReach> probe_udp(const ReachQuestion& question);

struct LoginQuestion {
    base::Endpoint to;
    uint32_t fwmark = 0;
    base::Duration time{};
    control::ClientParameters parameters;
    // True: says HELLO, which opens and ends a session. False: only proves the key, and leaves an
    // existing session alone.
    bool says_hello = false;
};

struct LoginReach {
    enum class Kind : uint8_t {
        LetIn,       // the key is right; with HELLO `accept` is there
        Refused,     // user, key or realm is not known there, or disabled
        Rejected,    // `reject` says why
        OtherSnapt,  // another name or realm
        NoTls,       // what answers is something else
        Closed,      // it ended the connection without a word
        Silent,      // no answer in time
        Unreached,   // `sys_errno`
    };
    Kind kind = Kind::Silent;
    int sys_errno = 0;
    base::Duration took{};
    std::optional<control::Accept> accept;
    control::Reject reject;
};
LoginReach probe_login(const LoginQuestion& question);

}  // namespace continuo::cnapt::control_link
