#include "common/control/field_reader.hpp"
#include "common/control/message.hpp"

#include <algorithm>

namespace continuo::control {

namespace {

using base::ByteReader;
using base::ByteView;

ReceiverLimits read_limits(ByteReader& value) {
    ReceiverLimits limits;
    limits.kept_bytes = value.u32();
    limits.max_output_bytes = value.u32();
    limits.live_generations = value.u8();
    limits.flows = value.u32();
    value.bytes(value.remaining());  // later limits
    return limits;
}

base::IpAddress read_address(ByteReader& value, size_t bytes) {
    const ByteView octets = value.bytes(bytes);
    if (octets.empty()) {
        return {};
    }
    return bytes == 4 ? base::IpAddress::v4(octets) : base::IpAddress::v6(octets);
}

std::vector<uint8_t> read_versions(ByteReader& value) {
    if (value.at_end() || value.remaining() > kMaxVersions) {
        value.fail();
    }
    const ByteView bytes = value.bytes(value.remaining());
    return {bytes.begin(), bytes.end()};
}

ProtectionOffer read_offer(ByteReader& value) {
    ProtectionOffer offer;
    offer.kind = static_cast<ProtectionKind>(value.u8());
    offer.tag_bytes = value.u8();
    return offer;
}

bool is_known(const ProtectionOffer& offer) {
    return offer.kind >= ProtectionKind::Aes256Gcm && offer.kind <= ProtectionKind::HmacSha256 &&
           (offer.tag_bytes == 16 ||
            (offer.tag_bytes == 10 && offer.kind == ProtectionKind::HmacSha256));
}

// Kinds that we do not know are left out.
std::vector<ProtectionOffer> read_offers(ByteReader& value) {
    std::vector<ProtectionOffer> offers;
    if (value.remaining() > 2 * kMaxOffers) {
        value.fail();
    }
    while (!value.at_end()) {
        const ProtectionOffer offer = read_offer(value);
        if (value.ok() && is_known(offer)) {
            offers.push_back(offer);
        }
    }
    return offers;
}

std::vector<uint16_t> read_ports(ByteReader& value) {
    std::vector<uint16_t> ports;
    if (value.remaining() > 2 * kMaxPorts) {
        value.fail();
    }
    while (!value.at_end()) {
        ports.push_back(value.u16());
        if (ports.back() == 0) {
            value.fail();
        }
    }
    return ports;
}

std::vector<base::IpPrefix> read_prefixes(ByteReader& value) {
    std::vector<base::IpPrefix> prefixes;
    while (value.ok() && !value.at_end()) {
        const uint8_t version = value.u8();
        const uint8_t length = value.u8();
        const base::IpPrefix prefix{read_address(value, version == 4 ? 4 : 16), length};
        // parse() refuses host bits and lengths beyond the address.
        if ((version != 4 && version != 6) || !value.ok() ||
            !base::IpPrefix::parse(prefix.to_string()) || prefixes.size() >= kMaxDeniedPrefixes) {
            value.fail();
            break;
        }
        prefixes.push_back(prefix);
    }
    return prefixes;
}

base::Result<Message> parse_hello(ByteView body) {
    Hello hello;
    const Seen seen = CTN_TRY(read_fields(body, {}, [&](uint8_t id, ByteReader& value) {
        switch (id) {
        case 1:
            hello.versions = read_versions(value);
            return true;
        case 2:
            hello.node = read_name(value);
            return true;
        case 3:
            hello.software = read_text(value, kMaxNameBytes);
            return true;
        case 4: {
            const ByteView bytes = value.bytes(kSessionIdBytes);
            std::copy(bytes.begin(), bytes.end(), hello.session_id.begin());
            return true;
        }
        case 5:
            hello.wire_session_down = value.u16();
            return true;
        case 6:
            hello.offers = read_offers(value);
            return true;
        case 7:
            hello.limits = read_limits(value);
            return true;
        case 8: {
            const uint8_t versions = value.u8();
            hello.want_ipv4 = (versions & 1U) != 0;
            hello.want_ipv6 = (versions & 2U) != 0;
            return true;
        }
        case 9: {
            Continuation continuation;
            continuation.wire_session_up = value.u16();
            continuation.epoch = value.u32();
            hello.continuation = continuation;
            return true;
        }
        case 10:
            hello.snapt = read_text(value, kMaxNameBytes);
            return true;
        case 11: {
            const ByteView bytes = value.bytes(kNodeIdBytes);
            std::copy(bytes.begin(), bytes.end(), hello.node_id.emplace().begin());
            return true;
        }
        default:
            return false;
        }
    }));
    CTN_TRY(require(seen, {1, 2, 4, 5, 6}));
    return Message(std::move(hello));
}

// Fields 8 to 19. False for an unknown id.
bool read_accept_parameter(Accept& accept, uint8_t id, ByteReader& value) {
    switch (id) {
    case 8:
        accept.lease_ipv4 = read_address(value, 4);
        return true;
    case 9:
        accept.lease_ipv6 = read_address(value, 16);
        return true;
    case 10:
        accept.inner_mtu = value.u16();
        return true;
    case 11:
        accept.udp_ports = read_ports(value);
        return true;
    case 12:
        accept.keepalive_s = value.u32();
        return true;
    case 13:
        accept.rekey_s = value.u32();
        return true;
    case 14:
        accept.rekey_datagrams = value.u64();
        return true;
    case 15:
        accept.idle_timeout_s = value.u32();
        return true;
    case 16:
        accept.limits = read_limits(value);
        return true;
    case 17:
        accept.node = read_name(value);
        return true;
    case 18:
        accept.denied = read_prefixes(value);
        return true;
    case 19:
        accept.user_flows = value.u32();
        return true;
    default:
        return false;
    }
}

base::Result<Message> parse_accept(ByteView body) {
    Accept accept;
    const Seen seen = CTN_TRY(read_fields(body, {}, [&](uint8_t id, ByteReader& value) {
        switch (id) {
        case 1:
            accept.version = value.u8();
            return true;
        case 2:
            accept.wire_session_up = value.u16();
            return true;
        case 3:
            accept.snapt = read_name(value);
            return true;
        case 4:
            accept.realm = read_text(value, kMaxNameBytes);
            return true;
        case 5:
            accept.epoch = value.u32();
            return true;
        case 6:
            accept.continued = read_bool(value);
            return true;
        case 7:
            accept.protection = read_offer(value);
            return true;
        default:
            return read_accept_parameter(accept, id, value);
        }
    }));
    CTN_TRY(require(seen, {1, 2, 3, 4, 5, 7}));
    if (accept.keepalive_s == 0 || accept.rekey_s == 0 || accept.rekey_datagrams == 0 ||
        accept.idle_timeout_s == 0) {
        return malformed("control times");
    }
    if (!is_known(accept.protection)) {
        return malformed("control protection");
    }
    return Message(std::move(accept));
}

// A reason and a text: REJECT and CLOSE.
template <typename T, typename Reason>
base::Result<Message> parse_reason(ByteView body) {
    T message;
    const Seen seen = CTN_TRY(read_fields(body, {}, [&](uint8_t id, ByteReader& value) {
        if (id == 1) {
            message.reason = static_cast<Reason>(value.u8());
        } else if (id == 2) {
            message.text = read_text(value, kMaxTextBytes);
        }
        return id == 1 || id == 2;
    }));
    CTN_TRY(require(seen, {1}));
    return Message(std::move(message));
}

base::Result<uint64_t> parse_number(ByteView body, size_t bytes) {
    uint64_t number = 0;
    const Seen seen = CTN_TRY(read_fields(body, {}, [&](uint8_t id, ByteReader& value) {
        if (id == 1) {
            number = bytes == 8 ? value.u64() : bytes == 4 ? value.u32() : value.u8();
        }
        return id == 1;
    }));
    CTN_TRY(require(seen, {1}));
    return number;
}

base::Result<void> parse_empty(ByteView body) {
    CTN_TRY(read_fields(body, {}, [](uint8_t, ByteReader&) { return false; }));
    return {};
}

// A mode of a later version is ignored.
void read_mode(ByteReader& value, Apps& apps) {
    const uint32_t tag = value.u32();
    const uint8_t mode = value.u8();
    if (apps.modes.size() == kMaxApps) {
        value.fail();
    } else if (mode < base::kPathModes) {
        apps.modes.push_back({tag, static_cast<base::PathMode>(mode)});
    }
}

base::Result<Message> parse_apps(ByteView body) {
    Apps apps;
    CTN_TRY(read_fields(body, {1, 2}, [&](uint8_t id, ByteReader& value) {
        if (id == 2) {
            read_mode(value, apps);
            return true;
        }
        if (id != 1) {
            return false;
        }
        App app;
        app.tag = value.u32();
        app.name = read_name(value);
        if (apps.apps.size() == kMaxApps) {
            value.fail();
        } else {
            apps.apps.push_back(std::move(app));
        }
        return true;
    }));
    return Message(std::move(apps));
}

void read_endpoint(ByteReader& value, std::vector<base::Endpoint>& to) {
    const size_t address_bytes = value.remaining() - std::min<size_t>(value.remaining(), 2);
    if (address_bytes != 4 && address_bytes != 16) {
        value.fail();
        return;
    }
    const base::IpAddress address = read_address(value, address_bytes);
    to.push_back({address, value.u16()});
}

HostName read_host_name(ByteReader& value) {
    HostName host;
    host.port = value.u16();
    host.name = read_text(value, kMaxHostNameBytes);
    if (host.name.empty()) {
        value.fail();
    }
    return host;
}

base::Result<DirectoryEntry> parse_entry(ByteView body) {
    DirectoryEntry entry;
    const Seen seen = CTN_TRY(read_fields(body, {3, 6}, [&](uint8_t id, ByteReader& value) {
        if ((id == 3 || id == 6) &&
            entry.addresses.size() + entry.names.size() == kMaxDirectoryAddresses) {
            value.fail();
            return true;
        }
        switch (id) {
        case 1:
            entry.snapt = read_name(value);
            return true;
        case 2:
            entry.realm = read_text(value, kMaxNameBytes);
            return true;
        case 3:
            read_endpoint(value, entry.addresses);
            return true;
        case 4:
            entry.load_permille = value.u16();
            return true;
        case 5:
            entry.price_permille = value.u32();
            return true;
        case 6:
            entry.names.push_back(read_host_name(value));
            return true;
        case 7: {
            const uint8_t bits = value.u8();  // others than these two mean nothing yet
            entry.no_way_out = {(bits & kBitIpv4) != 0, (bits & kBitIpv6) != 0};
            return true;
        }
        default:
            return false;
        }
    }));
    CTN_TRY(require(seen, {1, 2}));
    if (entry.addresses.empty() && entry.names.empty()) {
        return base::Error{base::Errc::Malformed, "directory entry without an address"};
    }
    return entry;
}

base::Result<Message> parse_directory(ByteView body) {
    Directory directory;
    std::optional<base::Error> failure;
    const base::Result<Seen> seen = read_fields(body, {1}, [&](uint8_t id, ByteReader& value) {
        if (id != 1) {
            return false;
        }
        base::Result<DirectoryEntry> entry = parse_entry(value.bytes(value.remaining()));
        if (!entry) {
            failure = entry.error();
            value.fail();
        } else if (directory.entries.size() == kMaxDirectoryEntries) {
            value.fail();
        } else {
            directory.entries.push_back(std::move(*entry));
        }
        return true;
    });
    if (!seen) {
        return failure.value_or(seen.error());
    }
    return Message(std::move(directory));
}

template <typename T>
base::Result<Message> parse_usage(ByteView body) {
    T message;
    const Seen seen = CTN_TRY(read_fields(body, {}, [&](uint8_t id, ByteReader& value) {
        if (id == 1) {
            message.request = value.u32();
        } else if (id == 2) {
            message.json = read_raw(value, kMaxUsageBytes);
        }
        return id == 1 || id == 2;
    }));
    CTN_TRY(require(seen, {1, 2}));
    return Message(std::move(message));
}

base::Result<Message> parse_session_state(ByteView body) {
    const uint64_t known = CTN_TRY(parse_number(body, 1));
    if (known > 1) {
        return malformed("control session state");
    }
    return Message(SessionState{known == 1});
}

// States and kinds of a later version are accepted as they are.
base::Result<Message> parse_allowance(ByteView body) {
    Allowance allowance;
    const std::array<uint64_t*, 4> numbers = {&allowance.quota_bytes, &allowance.used_bytes,
                                              &allowance.until_s, &allowance.rate_bits_per_s};
    const Seen seen = CTN_TRY(read_fields(body, {}, [&](uint8_t id, ByteReader& value) {
        if (id == 1) {
            allowance.state = static_cast<AllowanceState>(value.u8());
        } else if (id == 2) {
            allowance.kind = static_cast<AllowanceKind>(value.u8());
        } else if (id >= 3 && id < 3 + numbers.size()) {
            *numbers[id - 3U] = value.u64();
        } else if (id == 7) {
            allowance.balance_ud = read_signed(value);
        } else if (id == 8) {
            allowance.credit = AllowanceCredit{read_signed(value), read_signed(value)};
        } else {
            return false;
        }
        return true;
    }));
    CTN_TRY(require(seen, {1, 2}));
    return Message(allowance);
}

base::Result<Message> parse_known(MessageType type, ByteView body) {
    switch (type) {
    case MessageType::Hello:
        return parse_hello(body);
    case MessageType::Accept:
        return parse_accept(body);
    case MessageType::Reject:
        return parse_reason<Reject, RejectReason>(body);
    case MessageType::Rekey:
        return Message(Rekey{static_cast<uint32_t>(CTN_TRY(parse_number(body, 4)))});
    case MessageType::RekeyOk:
        return Message(RekeyOk{static_cast<uint32_t>(CTN_TRY(parse_number(body, 4)))});
    case MessageType::RekeyWanted:
        CTN_TRY(parse_empty(body));
        return Message(RekeyWanted{});
    case MessageType::Apps:
        return parse_apps(body);
    case MessageType::Directory:
        return parse_directory(body);
    case MessageType::KeepaliveRequest:
        CTN_TRY(parse_empty(body));
        return Message(KeepaliveRequest{});
    case MessageType::UsageQuery:
        return parse_usage<UsageQuery>(body);
    case MessageType::UsageReply:
        return parse_usage<UsageReply>(body);
    case MessageType::SessionQuery:
        CTN_TRY(parse_empty(body));
        return Message(SessionQuery{});
    case MessageType::SessionState:
        return parse_session_state(body);
    case MessageType::Ping:
        return Message(Ping{CTN_TRY(parse_number(body, 8))});
    case MessageType::Pong:
        return Message(Pong{CTN_TRY(parse_number(body, 8))});
    case MessageType::Close:
        return parse_reason<Close, CloseReason>(body);
    case MessageType::Allowance:
        return parse_allowance(body);
    case MessageType::Data:
        break;
    }
    if (body.empty()) {
        return malformed("control data");
    }
    return Message(Data{body});
}

}  // namespace

base::Result<std::optional<Message>> parse_message(uint8_t type, ByteView body) {
    if (type == 0 || type > static_cast<uint8_t>(MessageType::Allowance)) {
        if (type >= kCritical) {
            return base::Error{base::Errc::Unsupported, "control message type"};
        }
        return std::optional<Message>();
    }
    return std::optional<Message>(CTN_TRY(parse_known(static_cast<MessageType>(type), body)));
}

}  // namespace continuo::control
