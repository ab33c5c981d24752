#include "common/io/netfilter.hpp"

#include <algorithm>
#include <vector>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sys/socket.h>

namespace continuo::io {

namespace {

using base::ByteView;
using base::Errc;
using base::Error;
using base::IpAddress;
using base::Result;

constexpr unsigned kSubsystemShift = 8;

constexpr uint16_t message_type(unsigned subsystem, unsigned message) {
    return static_cast<uint16_t>(subsystem << kSubsystemShift | message);
}

NetlinkRequest
request_for(unsigned subsystem, unsigned message, unsigned flags, unsigned char family) {
    NetlinkRequest request(message_type(subsystem, message), static_cast<uint16_t>(flags));
    nfgenmsg header{};
    header.nfgen_family = family;
    header.version = NFNETLINK_V0;
    request.fixed(header);
    return request;
}

std::vector<uint8_t> copy_of(const std::optional<ByteView>& view) {
    return view ? std::vector<uint8_t>(view->begin(), view->end()) : std::vector<uint8_t>();
}

// What names one connection to the kernel, as it wrote it.
struct Connection {
    std::vector<uint8_t> original;
    std::vector<uint8_t> zone;
    std::vector<uint8_t> id;
};

bool is_address(ByteView tuple, uint16_t attribute, const IpAddress& address) {
    const auto addresses = find_attribute(tuple, CTA_TUPLE_IP);
    const auto value = addresses ? find_attribute(*addresses, attribute) : std::nullopt;
    const ByteView own = address.bytes();
    return value && std::equal(value->begin(), value->end(), own.begin(), own.end());
}

bool is_translated_to(ByteView attributes, const IpAddress& address) {
    const uint16_t source = address.is_v4() ? uint16_t{CTA_IP_V4_SRC} : uint16_t{CTA_IP_V6_SRC};
    const uint16_t destination =
        address.is_v4() ? uint16_t{CTA_IP_V4_DST} : uint16_t{CTA_IP_V6_DST};
    const auto original = find_attribute(attributes, CTA_TUPLE_ORIG);
    const auto reply = find_attribute(attributes, CTA_TUPLE_REPLY);
    return original && reply && is_address(*reply, destination, address) &&
           !is_address(*original, source, address);
}

}  // namespace

Result<NetfilterClient> NetfilterClient::open() {
    return NetfilterClient(CTN_TRY(NetlinkSocket::open(NETLINK_NETFILTER)));
}

Result<uint32_t> NetfilterClient::ruleset_generation() {
    auto request = request_for(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN, 0, AF_UNSPEC);
    std::optional<uint32_t> generation;
    CTN_TRY(socket_.list(request, "read nftables generation", [&](const NetlinkMessage& message) {
        generation = find_u32(message.attributes(sizeof(nfgenmsg)), NFTA_GEN_ID);
    }));
    if (!generation) {
        return Error{Errc::NotFound, "nftables generation"};
    }
    return *generation;
}

Result<size_t> NetfilterClient::count_rules(std::string_view table) {
    auto request = request_for(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETRULE, NLM_F_DUMP, NFPROTO_INET);
    request.text(NFTA_RULE_TABLE, table);
    size_t count = 0;
    CTN_TRY(socket_.list(
        request, "list nftables rules",
        [&](const NetlinkMessage& message) {
            const bool is_rule =
                message.type == message_type(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWRULE);
            const ByteView attributes = message.attributes(sizeof(nfgenmsg));
            count += is_rule && find_text(attributes, NFTA_RULE_TABLE) == table ? 1U : 0U;
        },
        [&] { count = 0; }));
    return count;
}

Result<size_t> NetfilterClient::forget_translated(const IpAddress& address) {
    const unsigned char family = address.is_v4() ? AF_INET : AF_INET6;
    std::vector<Connection> found;
    auto list = request_for(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET, NLM_F_DUMP, family);
    CTN_TRY(socket_.list(
        list, "list connections",
        [&](const NetlinkMessage& message) {
            const ByteView attributes = message.attributes(sizeof(nfgenmsg));
            if (is_translated_to(attributes, address)) {
                found.push_back({copy_of(find_attribute(attributes, CTA_TUPLE_ORIG)),
                                 copy_of(find_attribute(attributes, CTA_ZONE)),
                                 copy_of(find_attribute(attributes, CTA_ID))});
            }
        },
        [&] { found.clear(); }));
    size_t forgotten = 0;
    for (const Connection& connection : found) {
        auto removal = request_for(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE, NLM_F_ACK, family);
        removal.attribute(CTA_TUPLE_ORIG | NLA_F_NESTED, ByteView(connection.original));
        if (!connection.zone.empty()) {
            removal.attribute(CTA_ZONE, ByteView(connection.zone));
        }
        if (!connection.id.empty()) {
            removal.attribute(CTA_ID, ByteView(connection.id));
        }
        const auto done = socket_.change(removal, "forget connection");
        if (!done && done.error().code != Errc::NotFound) {
            return done.error();
        }
        forgotten += done ? 1U : 0U;
    }
    return forgotten;
}

}  // namespace continuo::io
