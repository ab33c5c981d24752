// NetfilterClient: queries by nfnetlink that are expensive in libnftables, and connection tracking.
// Synchronous; for start, stop, supervision and reports only, never the data path. One thread at a
// time.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"
#include "common/netlink/netlink.hpp"
#include "common/packet/five_tuple.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::netfilter {

// As connection tracking records it; ports are 0 where the protocol has none.
struct TrackedConnection {
    base::IpAddress source;  // the side's that started it
    uint16_t source_port = 0;
    base::IpAddress translated;  // address that the other side sees
    uint16_t translated_port = 0;
    uint8_t protocol = 0;  // IPPROTO_TCP and so on
};

// A rule that checks by which interface an answer would leave (strict reverse path filter).
struct ReversePathRule {
    std::string table;                       // with its family: "inet firewalld"
    std::optional<base::IpVersion> version;  // version of the packets it checks; nothing: both

    bool operator==(const ReversePathRule&) const = default;
};

class NetfilterClient {
  public:
    // Connections that are forgotten with one system call, after which forget() lets other threads
    // work: about 50 us.
    static constexpr size_t kForgottenAtOnce = 16;

    static base::Result<NetfilterClient> open();

    // A counter that rises by one with every change of nftables, whether one rule or many tables in
    // one transaction.
    base::Result<uint32_t> ruleset_generation();
    // Number of rules in a table of the family inet, by its bare name; 0 also without such a table.
    base::Result<size_t> count_rules(std::string_view table);
    // A hash of such a table, which changes when a rule is removed, added or replaced, and when the
    // table is recreated or dormant. Excludes values of named counters and elements of sets;
    // includes anonymous counters. 0: no table, or no rules.
    base::Result<uint64_t> fingerprint(std::string_view table);
    // Strict reverse path filters of all tables: `fib saddr . iif oif`, with `mark` or without, and
    // iptables-nft's rpfilter. One for each table and version. Costs a list of all rules.
    base::Result<std::vector<ReversePathRule>> reverse_path_rules();
    // Packets of a named counter of a table of the family inet, both by their bare names;
    // microseconds. Errors: NotFound, System.
    base::Result<uint64_t> counted_packets(std::string_view table, std::string_view counter);
    // The source of a connection that is translated to that local end, as on a gateway:
    // microseconds. Errors: NotFound, System.
    base::Result<base::IpAddress> source_of(const packet::FiveTuple& translated);
    // Forgets the tracked connections whose source is translated to `address`; gives their number.
    // Their next packet begins a connection. Errors: System (a kernel without ctnetlink).
    base::Result<size_t> forget_translated(const base::IpAddress& address);
    // The same for those of one IP version that `is_unwanted`. Continues after a failure, and then
    // returns the first error.
    base::Result<size_t>
    forget_if(base::IpVersion version,
              const std::function<bool(const TrackedConnection&)>& is_unwanted);
    // The same for those that `source` started: since Linux 5.8 the kernel lists only these for
    // IPv4.
    base::Result<size_t> forget_from(const base::IpAddress& source);
    // Forgets these tracked connections, each started by the local end: microseconds each. A
    // missing one is no error. Returns their number; continues as above.
    base::Result<size_t> forget(std::span<const packet::FiveTuple> connections);

  private:
    explicit NetfilterClient(netlink::NetlinkSocket socket) : socket_(std::move(socket)) {}
    base::Result<void> list_rules(std::string_view table,
                                  const std::function<void(base::ByteView attributes)>& on_rule,
                                  const std::function<void()>& on_restart);
    base::Result<size_t>
    forget_listed(netlink::NetlinkRequest list,
                  base::IpVersion version,
                  const std::function<bool(const TrackedConnection&)>& is_unwanted);

    netlink::NetlinkSocket socket_;
};

}  // namespace continuo::netfilter
