#include "common/netfilter/netfilter.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sys/socket.h>

namespace continuo::netfilter {

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

netlink::NetlinkRequest
request_for(unsigned subsystem, unsigned message, unsigned flags, unsigned char family) {
    netlink::NetlinkRequest request(message_type(subsystem, message), static_cast<uint16_t>(flags));
    nfgenmsg header{};
    header.nfgen_family = family;
    header.version = NFNETLINK_V0;
    request.fixed(header);
    return request;
}

unsigned char family_of(base::IpVersion version) {
    return version == base::IpVersion::V4 ? AF_INET : AF_INET6;
}

// The kernel's CTA_FILTER_F_CTA_IP_SRC, which its headers for programs leave out.
constexpr uint32_t kFilterSource = 1;

// An attribute within another.
std::vector<uint8_t> nested(uint16_t type, ByteView value) {
    nlattr header{};
    header.nla_len = static_cast<uint16_t>(sizeof header + value.size());
    header.nla_type = type;
    std::vector<uint8_t> bytes(sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.resize(NLA_ALIGN(header.nla_len));
    std::copy(value.begin(), value.end(), bytes.begin() + sizeof header);
    return bytes;
}

std::vector<uint8_t> copy_of(const std::optional<ByteView>& view) {
    return view ? std::vector<uint8_t>(view->begin(), view->end()) : std::vector<uint8_t>();
}

uint64_t handle_of(ByteView attributes, uint16_t type) {
    const auto value = netlink::find_attribute(attributes, type);
    return value && value->size() == sizeof(uint64_t)
               ? base::load_big_endian<uint64_t>(value->data())
               : 0;
}

void append(std::vector<uint8_t>& bytes, const std::vector<uint8_t>& more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
}

std::vector<uint8_t> nested_u16(uint16_t type, uint16_t value) {
    std::array<uint8_t, sizeof value> bytes{};
    base::store_big_endian(bytes.data(), value);
    return nested(type, bytes);
}

// An echo message names a conversation by its identifier.
void append_echo(std::vector<uint8_t>& bytes, const packet::FiveTuple& tuple, bool is_reply) {
    constexpr std::array<uint8_t, 1> kNoCode = {0};
    const bool is_v4 = tuple.protocol == packet::Protocol::Icmp;
    const uint8_t request = is_v4 ? uint8_t{ICMP_ECHO} : uint8_t{ICMPV6_ECHO_REQUEST};
    const uint8_t reply = is_v4 ? uint8_t{ICMP_ECHOREPLY} : uint8_t{ICMPV6_ECHO_REPLY};
    const std::array<uint8_t, 1> type = {is_reply ? reply : request};
    append(bytes, nested_u16(is_v4 ? uint16_t{CTA_PROTO_ICMP_ID} : uint16_t{CTA_PROTO_ICMPV6_ID},
                             tuple.local_port));
    append(bytes,
           nested(is_v4 ? uint16_t{CTA_PROTO_ICMP_TYPE} : uint16_t{CTA_PROTO_ICMPV6_TYPE}, type));
    append(bytes, nested(is_v4 ? uint16_t{CTA_PROTO_ICMP_CODE} : uint16_t{CTA_PROTO_ICMPV6_CODE},
                         kNoCode));
}

// The kernel's name of a connection that the local end began, or of the answers to it.
std::vector<uint8_t> name_of(const packet::FiveTuple& tuple, bool is_reply) {
    const bool is_v4 = tuple.local.is_v4();
    const uint16_t source = is_v4 ? uint16_t{CTA_IP_V4_SRC} : uint16_t{CTA_IP_V6_SRC};
    const uint16_t destination = is_v4 ? uint16_t{CTA_IP_V4_DST} : uint16_t{CTA_IP_V6_DST};
    std::vector<uint8_t> addresses = nested(is_reply ? destination : source, tuple.local.bytes());
    append(addresses, nested(is_reply ? source : destination, tuple.remote.bytes()));
    const std::array<uint8_t, 1> number = {static_cast<uint8_t>(tuple.protocol)};
    std::vector<uint8_t> protocol = nested(CTA_PROTO_NUM, number);
    if (tuple.protocol == packet::Protocol::Icmp || tuple.protocol == packet::Protocol::IcmpV6) {
        append_echo(protocol, tuple, is_reply);
    } else {
        const uint16_t local = is_reply ? CTA_PROTO_DST_PORT : CTA_PROTO_SRC_PORT;
        const uint16_t remote = is_reply ? CTA_PROTO_SRC_PORT : CTA_PROTO_DST_PORT;
        append(protocol, nested_u16(local, tuple.local_port));
        append(protocol, nested_u16(remote, tuple.remote_port));
    }
    std::vector<uint8_t> bytes = nested(CTA_TUPLE_IP | NLA_F_NESTED, addresses);
    append(bytes, nested(CTA_TUPLE_PROTO | NLA_F_NESTED, protocol));
    return bytes;
}

// The kernel's own name of one connection, as it wrote it.
struct Connection {
    std::vector<uint8_t> original;
    std::vector<uint8_t> zone;
    std::vector<uint8_t> id;
};

// Removes connections, several with one system call. A missing one is no error, and the first error
// ends nothing.
class Removals {
  public:
    // `lets_others_work`: between system calls. A thread of low priority, too, keeps a processor
    // until its slice is over, some milliseconds: it must give it up. Not for what somebody waits
    // for.
    Removals(netlink::NetlinkSocket& socket, bool lets_others_work)
        : socket_(socket), lets_others_work_(lets_others_work) {
        requests_.reserve(NetfilterClient::kForgottenAtOnce);
    }

    // Without NLM_F_ACK.
    void add(netlink::NetlinkRequest removal) {
        requests_.push_back(std::move(removal));
        if (requests_.size() == NetfilterClient::kForgottenAtOnce) {
            send();
            if (lets_others_work_) {
                std::this_thread::yield();
            }
        }
    }
    Result<size_t> result() {
        send();
        return failed_ ? Result<size_t>(*failed_) : Result<size_t>(forgotten_);
    }

  private:
    void send() {
        size_t kept = 0;
        const auto on_refused = [&](const Error& error) {
            ++kept;
            note(error);
        };
        if (const auto sent = socket_.change_all(requests_, kWhere, on_refused); !sent) {
            note(sent.error());
            kept = requests_.size();
        }
        forgotten_ += requests_.size() - kept;
        requests_.clear();
    }
    void note(const Error& error) {
        if (error.code != Errc::NotFound && !failed_) {
            failed_ = error;
        }
    }

    static constexpr std::string_view kWhere = "forget connection";
    netlink::NetlinkSocket& socket_;
    bool lets_others_work_;
    std::vector<netlink::NetlinkRequest> requests_;
    size_t forgotten_ = 0;
    std::optional<Error> failed_;
};

// One end of a tuple.
struct End {
    IpAddress address;
    uint16_t port = 0;
    uint8_t protocol = 0;
};

End end_of(ByteView tuple, bool is_v4, bool is_source) {
    End end;
    end.address = IpAddress::any(is_v4 ? base::IpVersion::V4 : base::IpVersion::V6);
    const uint16_t of_v4 = is_source ? uint16_t{CTA_IP_V4_SRC} : uint16_t{CTA_IP_V4_DST};
    const uint16_t of_v6 = is_source ? uint16_t{CTA_IP_V6_SRC} : uint16_t{CTA_IP_V6_DST};
    const auto addresses = netlink::find_attribute(tuple, CTA_TUPLE_IP);
    const auto address =
        addresses ? netlink::find_attribute(*addresses, is_v4 ? of_v4 : of_v6) : std::nullopt;
    if (address && address->size() == end.address.bytes().size()) {
        end.address =
            is_v4 ? IpAddress::v4(address->first<4>()) : IpAddress::v6(address->first<16>());
    }
    const auto protocol = netlink::find_attribute(tuple, CTA_TUPLE_PROTO);
    const uint16_t of_port =
        is_source ? uint16_t{CTA_PROTO_SRC_PORT} : uint16_t{CTA_PROTO_DST_PORT};
    const auto port = protocol ? netlink::find_attribute(*protocol, of_port) : std::nullopt;
    if (port && port->size() == sizeof end.port) {
        end.port = base::load_big_endian<uint16_t>(port->data());
    }
    const auto number = protocol ? netlink::find_attribute(*protocol, CTA_PROTO_NUM) : std::nullopt;
    if (number && number->size() == sizeof end.protocol) {
        end.protocol = number->front();
    }
    return end;
}

std::optional<TrackedConnection> tracked(ByteView attributes, bool is_v4) {
    const auto original = netlink::find_attribute(attributes, CTA_TUPLE_ORIG);
    const auto reply = netlink::find_attribute(attributes, CTA_TUPLE_REPLY);
    if (!original || !reply) {
        return std::nullopt;
    }
    const End source = end_of(*original, is_v4, true);
    const End translated = end_of(*reply, is_v4, false);
    return TrackedConnection{source.address, source.port, translated.address, translated.port,
                             source.protocol};
}

bool is_strict_fib(ByteView fib) {
    constexpr uint32_t kStrict = NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF;
    const uint32_t flags = ntohl(netlink::find_u32(fib, NFTA_FIB_FLAGS).value_or(0));
    const uint32_t result = ntohl(netlink::find_u32(fib, NFTA_FIB_RESULT).value_or(0));
    return (flags & kStrict) == kStrict &&
           (result == NFT_FIB_RESULT_OIF || result == NFT_FIB_RESULT_OIFNAME);
}

// A match of iptables-nft.
bool is_strict_match(ByteView match) {
    constexpr uint8_t kLoose = 1;  // XT_RPFILTER_LOOSE
    const auto info = netlink::find_attribute(match, NFTA_MATCH_INFO);
    return netlink::find_text(match, NFTA_MATCH_NAME) == "rpfilter" && info && !info->empty() &&
           (info->front() & kLoose) == 0;
}

std::optional<base::IpVersion> version_of(uint8_t family) {
    if (family == NFPROTO_IPV4) {
        return base::IpVersion::V4;
    }
    return family == NFPROTO_IPV6 ? std::optional(base::IpVersion::V6) : std::nullopt;
}

struct RuleLook {
    bool is_strict = false;
    std::optional<base::IpVersion> version;  // named by `meta nfproto`
};

RuleLook look_at_rule(ByteView expressions) {
    RuleLook look;
    bool is_family = false;  // the next expression compares the family
    netlink::for_each_attribute(expressions, [&](uint16_t /*type*/, ByteView element) {
        const std::string name = netlink::find_text(element, NFTA_EXPR_NAME);
        const ByteView data = netlink::find_attribute(element, NFTA_EXPR_DATA).value_or(ByteView());
        if (name == "fib") {
            look.is_strict = look.is_strict || is_strict_fib(data);
        } else if (name == "match") {
            look.is_strict = look.is_strict || is_strict_match(data);
        } else if (name == "cmp" && is_family) {
            const auto compared = netlink::find_attribute(data, NFTA_CMP_DATA);
            const auto value =
                compared ? netlink::find_attribute(*compared, NFTA_DATA_VALUE) : std::nullopt;
            look.version = value && !value->empty() ? version_of(value->front()) : std::nullopt;
        }
        is_family = name == "meta" &&
                    ntohl(netlink::find_u32(data, NFTA_META_KEY).value_or(0)) == NFT_META_NFPROTO;
    });
    return look;
}

}  // namespace

Result<NetfilterClient> NetfilterClient::open() {
    return NetfilterClient(CTN_TRY(netlink::NetlinkSocket::open(NETLINK_NETFILTER)));
}

Result<uint32_t> NetfilterClient::ruleset_generation() {
    auto request = request_for(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN, 0, AF_UNSPEC);
    std::optional<uint32_t> generation;
    CTN_TRY(socket_.list(
        request, "read nftables generation", [&](const netlink::NetlinkMessage& message) {
            generation = netlink::find_u32(message.attributes(sizeof(nfgenmsg)), NFTA_GEN_ID);
        }));
    if (!generation) {
        return Error{Errc::NotFound, "nftables generation"};
    }
    return ntohl(*generation);
}

Result<void> NetfilterClient::list_rules(std::string_view table,
                                         const std::function<void(ByteView attributes)>& on_rule,
                                         const std::function<void()>& on_restart) {
    auto request = request_for(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETRULE, NLM_F_DUMP, NFPROTO_INET);
    request.text(NFTA_RULE_TABLE, table);
    return socket_.list(
        request, "list nftables rules",
        [&](const netlink::NetlinkMessage& message) {
            const bool is_rule =
                message.type == message_type(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWRULE);
            const ByteView attributes = message.attributes(sizeof(nfgenmsg));
            if (is_rule && netlink::find_text(attributes, NFTA_RULE_TABLE) == table) {
                on_rule(attributes);
            }
        },
        on_restart);
}

Result<size_t> NetfilterClient::count_rules(std::string_view table) {
    size_t count = 0;
    CTN_TRY(list_rules(
        table, [&](ByteView /*rule*/) { ++count; }, [&] { count = 0; }));
    return count;
}

Result<uint64_t> NetfilterClient::fingerprint(std::string_view table) {
    // FNV-1a. A rule that is replaced keeps its handle.
    constexpr uint64_t kBasis = 0xCBF29CE484222325U;
    constexpr uint64_t kPrime = 0x100000001B3U;
    uint64_t print = kBasis;
    const auto add = [&](uint64_t number) { print = (print ^ number) * kPrime; };
    const auto add_rule = [&](ByteView rule) {
        add(handle_of(rule, NFTA_RULE_HANDLE));
        for (const uint8_t octet :
             netlink::find_attribute(rule, NFTA_RULE_EXPRESSIONS).value_or(ByteView())) {
            add(octet);
        }
    };
    CTN_TRY(list_rules(table, add_rule, [&] { print = kBasis; }));
    if (print == kBasis) {
        return 0;
    }
    auto request = request_for(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETTABLE, 0, NFPROTO_INET);
    request.text(NFTA_TABLE_NAME, table);
    const auto read = socket_.list(request, "read nftables table", [&](const auto& message) {
        const ByteView attributes = message.attributes(sizeof(nfgenmsg));
        add(netlink::find_u32(attributes, NFTA_TABLE_FLAGS).value_or(0));
        add(handle_of(attributes, NFTA_TABLE_HANDLE));
    });
    if (!read) {
        return read.error().code == Errc::NotFound ? Result<uint64_t>(0) : read.error();
    }
    return print;
}

Result<std::vector<ReversePathRule>> NetfilterClient::reverse_path_rules() {
    std::vector<ReversePathRule> found;
    auto request = request_for(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETRULE, NLM_F_DUMP, AF_UNSPEC);
    const auto on_message = [&](const netlink::NetlinkMessage& message) {
        const uint8_t family = message.fixed<nfgenmsg>().nfgen_family;
        const ByteView rule = message.attributes(sizeof(nfgenmsg));
        const auto expressions = netlink::find_attribute(rule, NFTA_RULE_EXPRESSIONS);
        const auto version = version_of(family);
        if (!expressions || (family != NFPROTO_INET && !version)) {
            return;
        }
        const RuleLook look = look_at_rule(*expressions);
        ReversePathRule one;
        one.table = std::string(family == NFPROTO_INET   ? "inet "
                                : family == NFPROTO_IPV4 ? "ip "
                                                         : "ip6 ");
        one.table += netlink::find_text(rule, NFTA_RULE_TABLE);
        one.version = version ? version : look.version;
        if (look.is_strict && std::find(found.begin(), found.end(), one) == found.end()) {
            found.push_back(std::move(one));
        }
    };
    CTN_TRY(socket_.list(request, "list nftables rules", on_message, [&] { found.clear(); }));
    return found;
}

Result<uint64_t> NetfilterClient::counted_packets(std::string_view table,
                                                  std::string_view counter) {
    auto request = request_for(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETOBJ, 0, NFPROTO_INET);
    request.text(NFTA_OBJ_TABLE, table);
    request.text(NFTA_OBJ_NAME, counter);
    request.attribute(NFTA_OBJ_TYPE, htonl(NFT_OBJECT_COUNTER));
    std::optional<uint64_t> packets;
    CTN_TRY(
        socket_.list(request, "read nftables counter", [&](const netlink::NetlinkMessage& message) {
            const auto data =
                netlink::find_attribute(message.attributes(sizeof(nfgenmsg)), NFTA_OBJ_DATA);
            const auto value =
                data ? netlink::find_attribute(*data, NFTA_COUNTER_PACKETS) : std::nullopt;
            if (value && value->size() == sizeof(uint64_t)) {
                packets = base::load_big_endian<uint64_t>(value->data());
            }
        }));
    if (!packets) {
        return Error{Errc::NotFound, "nftables counter"};
    }
    return *packets;
}

Result<IpAddress> NetfilterClient::source_of(const packet::FiveTuple& translated) {
    // The answer says that more follows; the acknowledgement ends it.
    auto request = request_for(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET, NLM_F_ACK,
                               family_of(translated.local.version));
    request.attribute(CTA_TUPLE_REPLY | NLA_F_NESTED, ByteView(name_of(translated, true)));
    std::optional<TrackedConnection> connection;
    CTN_TRY(
        socket_.list(request, "look for a connection", [&](const netlink::NetlinkMessage& message) {
            connection = tracked(message.attributes(sizeof(nfgenmsg)), translated.local.is_v4());
        }));
    if (!connection) {
        return Error{Errc::NotFound, "connection"};
    }
    return connection->source;
}

Result<size_t> NetfilterClient::forget_translated(const IpAddress& address) {
    return forget_if(address.version, [&](const TrackedConnection& connection) {
        return connection.translated == address && connection.source != address;
    });
}

Result<size_t>
NetfilterClient::forget_if(base::IpVersion version,
                           const std::function<bool(const TrackedConnection&)>& is_unwanted) {
    return forget_listed(
        request_for(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET, NLM_F_DUMP, family_of(version)),
        version, is_unwanted);
}

Result<size_t> NetfilterClient::forget_from(const IpAddress& source) {
    auto list = request_for(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET, NLM_F_DUMP,
                            family_of(source.version));
    // The filter is for IPv4 only: with one for IPv6, kernels up to 6.18 at least list all other
    // connections.
    if (source.is_v4()) {
        std::array<uint8_t, sizeof kFilterSource> flags{};
        std::memcpy(flags.data(), &kFilterSource, sizeof kFilterSource);
        const auto address =
            nested(CTA_TUPLE_IP | NLA_F_NESTED, nested(CTA_IP_V4_SRC, source.bytes()));
        list.attribute(CTA_FILTER | NLA_F_NESTED, ByteView(nested(CTA_FILTER_ORIG_FLAGS, flags)));
        list.attribute(CTA_TUPLE_ORIG | NLA_F_NESTED, ByteView(address));
    }
    return forget_listed(
        std::move(list), source.version,
        [&source](const TrackedConnection& connection) { return connection.source == source; });
}

Result<size_t>
NetfilterClient::forget_listed(netlink::NetlinkRequest list,
                               base::IpVersion version,
                               const std::function<bool(const TrackedConnection&)>& is_unwanted) {
    const bool is_v4 = version == base::IpVersion::V4;
    const unsigned char family = family_of(version);
    std::vector<Connection> found;
    CTN_TRY(socket_.list(
        list, "list connections",
        [&](const netlink::NetlinkMessage& message) {
            const ByteView attributes = message.attributes(sizeof(nfgenmsg));
            const auto connection = tracked(attributes, is_v4);
            if (connection && is_unwanted(*connection)) {
                found.push_back({copy_of(netlink::find_attribute(attributes, CTA_TUPLE_ORIG)),
                                 copy_of(netlink::find_attribute(attributes, CTA_ZONE)),
                                 copy_of(netlink::find_attribute(attributes, CTA_ID))});
            }
        },
        [&] { found.clear(); }));
    Removals removals(socket_, false);
    for (const Connection& connection : found) {
        auto removal = request_for(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE, 0, family);
        removal.attribute(CTA_TUPLE_ORIG | NLA_F_NESTED, ByteView(connection.original));
        if (!connection.zone.empty()) {
            removal.attribute(CTA_ZONE, ByteView(connection.zone));
        }
        if (!connection.id.empty()) {
            removal.attribute(CTA_ID, ByteView(connection.id));
        }
        removals.add(std::move(removal));
    }
    return removals.result();
}

Result<size_t> NetfilterClient::forget(std::span<const packet::FiveTuple> connections) {
    Removals removals(socket_, true);
    for (const packet::FiveTuple& connection : connections) {
        auto removal = request_for(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE, 0,
                                   family_of(connection.local.version));
        removal.attribute(CTA_TUPLE_ORIG | NLA_F_NESTED, ByteView(name_of(connection, false)));
        removals.add(std::move(removal));
    }
    return removals.result();
}

}  // namespace continuo::netfilter
