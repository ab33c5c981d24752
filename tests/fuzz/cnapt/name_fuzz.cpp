// Inputs for finding SNAPTs by name: an answer of a name server, resolv.conf, and the hosts table.
// The first byte chooses.
#include "cnapt/names/dns_message.hpp"
#include "cnapt/names/name_lookup.hpp"
#include "cnapt/names/resolv_conf.hpp"
#include "cnapt/settings/node_config.hpp"
#include "common/base/assert.hpp"

namespace {

namespace base = continuo::base;
namespace cnapt = continuo::cnapt;

void check_answer(base::ByteView bytes) {
    for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
        const auto query = cnapt::names::make_dns_query("snapt.example.org", version, 0x0102);
        const auto addresses = cnapt::names::parse_dns_answer(bytes, query);
        if (addresses) {
            CTN_ASSERT(addresses->size() <= cnapt::names::kMaxDnsAddresses);
            for (const base::IpAddress& address : *addresses) {
                CTN_ASSERT(address.version == version);
            }
        }
    }
}

void check_texts(const std::string& text) {
    CTN_ASSERT(cnapt::names::name_servers(text).size() <= cnapt::settings::kMaxNameServers);
    const std::vector<base::IpAddress> servers = {base::IpAddress::v4(0xC6336435U)};
    const std::string ours = cnapt::names::resolv_conf_through(servers, text, "/k");
    CTN_ASSERT(cnapt::names::name_servers(ours) == servers);
    CTN_ASSERT(cnapt::names::is_resolv_conf_of_tunnel(ours));
    CTN_ASSERT(cnapt::names::kept_place(ours) == "/k");
    (void)cnapt::names::kept_place(text);
    (void)cnapt::names::find_in_hosts(text, "snapt.example.org");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        check_answer(base::ByteView(data + 1, size - 1));
    } else {
        check_texts(std::string(data + 1, data + size));
    }
    return 0;
}
