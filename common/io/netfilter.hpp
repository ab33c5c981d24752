// NetfilterClient: what libnftables does not tell cheaply, and connection tracking, by nfnetlink.
// Synchronous; start, stop and supervision only, never the data path. One thread at a time.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"
#include "common/io/netlink.hpp"

#include <string>
#include <string_view>

namespace continuo::io {

class NetfilterClient {
  public:
    static base::Result<NetfilterClient> open();

    // A number that is another one after every change of any nftables rule.
    base::Result<uint32_t> ruleset_generation();
    // The rules of a table of the family inet, by its bare name; 0 too where there is no such
    // table.
    base::Result<size_t> count_rules(std::string_view table);
    // Forgets the tracked connections whose source is translated to `address`; gives their number.
    // Their next packet begins a connection. Errors: System (a kernel without ctnetlink).
    base::Result<size_t> forget_translated(const base::IpAddress& address);

  private:
    explicit NetfilterClient(NetlinkSocket socket) : socket_(std::move(socket)) {}

    NetlinkSocket socket_;
};

}  // namespace continuo::io
