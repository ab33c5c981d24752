// NetfilterClient: what libnftables does not tell cheaply, and connection tracking, by nfnetlink.
// Synchronous; start, stop, supervision and reports only, never the data path. One thread at a
// time.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"
#include "common/io/netlink.hpp"
#include "common/packet/five_tuple.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::io {

// As connection tracking knows it; ports are 0 where the protocol has none.
struct TrackedConnection {
    base::IpAddress source;  // of the side that began it
    uint16_t source_port = 0;
    base::IpAddress translated;  // what the other side sees of it
    uint16_t translated_port = 0;
    uint8_t protocol = 0;  // IPPROTO_TCP and so on
};

// A rule that asks by which interface an answer would leave (strict reverse path filter).
struct ReversePathRule {
    std::string table;                       // with its family: "inet firewalld"
    std::optional<base::IpVersion> version;  // of the packets that it looks at; nothing: both

    bool operator==(const ReversePathRule&) const = default;
};

class NetfilterClient {
  public:
    static base::Result<NetfilterClient> open();

    // A number that is one more after every change of nftables, be it of one rule or of many
    // tables in one transaction.
    base::Result<uint32_t> ruleset_generation();
    // The rules of a table of the family inet, by its bare name; 0 too where there is no such
    // table.
    base::Result<size_t> count_rules(std::string_view table);
    // A number of such a table that is another one once a rule of it has gone, has come or was
    // replaced, the table was made anew or is dormant. What named counters count, and elements of
    // sets, are not in it; anonymous counters are. 0: there is no table, or it has no rules.
    base::Result<uint64_t> fingerprint(std::string_view table);
    // Strict reverse path filters of all tables: `fib saddr . iif oif`, with `mark` or without, and
    // iptables-nft's rpfilter. One for each table and version. Costs a list of all rules.
    base::Result<std::vector<ReversePathRule>> reverse_path_rules();
    // Packets of a named counter of a table of the family inet, both by their bare names;
    // microseconds. Errors: NotFound, System.
    base::Result<uint64_t> counted_packets(std::string_view table, std::string_view counter);
    // The source of a connection that is translated to that local end, as a gateway's are:
    // microseconds. Errors: NotFound, System.
    base::Result<base::IpAddress> source_of(const packet::FiveTuple& translated);
    // Forgets the tracked connections whose source is translated to `address`; gives their number.
    // Their next packet begins a connection. Errors: System (a kernel without ctnetlink).
    base::Result<size_t> forget_translated(const base::IpAddress& address);
    // The same with those of one IP version that `is_unwanted`. Goes on after one that cannot be
    // forgotten, and gives the first error then.
    base::Result<size_t>
    forget_if(base::IpVersion version,
              const std::function<bool(const TrackedConnection&)>& is_unwanted);
    // The same with those that `source` began: from Linux 5.8 on the kernel lists no others
    // of IPv4.
    base::Result<size_t> forget_from(const base::IpAddress& source);
    // Forgets those tracked connections, each of which the local end began: microseconds each. One
    // that is not there is no error. Gives their number; goes on as above.
    base::Result<size_t> forget(std::span<const packet::FiveTuple> connections);

  private:
    explicit NetfilterClient(NetlinkSocket socket) : socket_(std::move(socket)) {}
    base::Result<void> list_rules(std::string_view table,
                                  const std::function<void(base::ByteView attributes)>& on_rule,
                                  const std::function<void()>& on_restart);
    base::Result<size_t>
    forget_listed(NetlinkRequest list,
                  base::IpVersion version,
                  const std::function<bool(const TrackedConnection&)>& is_unwanted);

    NetlinkSocket socket_;
};

}  // namespace continuo::io
