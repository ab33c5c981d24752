#include "common/control/message.hpp"

#include <algorithm>

namespace continuo::control {

namespace {

bool is_text(std::string_view text, size_t max_bytes) {
    return text.size() <= max_bytes && std::all_of(text.begin(), text.end(), [](char c) {
               const auto byte = static_cast<uint8_t>(c);
               return byte >= 0x20 && byte != 0x7F;
           });
}

// Appends fields; what breaks a limit makes ok() false for good.
class FieldWriter {
  public:
    explicit FieldWriter(std::vector<uint8_t>& to) : to_(to) {}

    bool ok() const { return ok_; }
    void require(bool condition) { ok_ = ok_ && condition; }

    void u8(uint8_t value) { to_.push_back(value); }
    void u16(uint16_t value) { integer(value); }
    void u32(uint32_t value) { integer(value); }
    void u64(uint64_t value) { integer(value); }
    void bytes(base::ByteView value) { to_.insert(to_.end(), value.begin(), value.end()); }
    void chars(std::string_view value) { to_.insert(to_.end(), value.begin(), value.end()); }

    // `write` appends the value.
    template <typename Write>
    void field(uint8_t id, const Write& write) {
        u8(id);
        const size_t length_at = to_.size();
        u16(0);
        write();
        const size_t length = to_.size() - length_at - sizeof(uint16_t);
        require(length <= kMaxMessageBodyBytes);
        base::store_big_endian(to_.data() + length_at, static_cast<uint16_t>(length));
    }
    void field_u8(uint8_t id, uint8_t value) {
        field(id, [&] { u8(value); });
    }
    void field_u16(uint8_t id, uint16_t value) {
        field(id, [&] { u16(value); });
    }
    void field_u32(uint8_t id, uint32_t value) {
        field(id, [&] { u32(value); });
    }
    void field_u64(uint8_t id, uint64_t value) {
        field(id, [&] { u64(value); });
    }
    void field_bytes(uint8_t id, base::ByteView value) {
        field(id, [&] { bytes(value); });
    }
    void field_text(uint8_t id, std::string_view value, size_t max_bytes) {
        require(is_text(value, max_bytes));
        field(id, [&] { chars(value); });
    }

  private:
    template <typename T>
    void integer(T value) {
        const size_t at = to_.size();
        to_.resize(at + sizeof value);
        base::store_big_endian(to_.data() + at, value);
    }

    std::vector<uint8_t>& to_;
    bool ok_ = true;
};

void write_limits(FieldWriter& writer, uint8_t id, const ReceiverLimits& limits) {
    writer.field(id, [&] {
        writer.u32(limits.kept_bytes);
        writer.u32(limits.max_output_bytes);
        writer.u8(limits.live_generations);
        writer.u32(limits.flows);
    });
}

void write_offer(FieldWriter& writer, const ProtectionOffer& offer) {
    writer.u8(static_cast<uint8_t>(offer.kind));
    writer.u8(offer.tag_bytes);
}

struct BodyWriter {
    FieldWriter& writer;

    MessageType operator()(const Hello& hello) const {
        writer.require(!hello.versions.empty() && hello.versions.size() <= kMaxVersions);
        writer.require(!hello.offers.empty() && hello.offers.size() <= kMaxOffers);
        writer.require(!hello.node.empty());
        writer.field_bytes(1, hello.versions);
        writer.field_text(2, hello.node, kMaxNameBytes);
        writer.field_text(3, hello.software, kMaxNameBytes);
        writer.field_bytes(4, hello.session_id);
        writer.field_u16(5, hello.wire_session_down);
        writer.field(6, [&] {
            for (const ProtectionOffer& offer : hello.offers) {
                write_offer(writer, offer);
            }
        });
        write_limits(writer, 7, hello.limits);
        writer.field_u8(
            8, static_cast<uint8_t>((hello.want_ipv4 ? 1U : 0U) | (hello.want_ipv6 ? 2U : 0U)));
        if (hello.continuation) {
            writer.field(9, [&] {
                writer.u16(hello.continuation->wire_session_up);
                writer.u32(hello.continuation->epoch);
            });
        }
        if (!hello.snapt.empty()) {
            writer.field_text(10, hello.snapt, kMaxNameBytes);
        }
        if (hello.node_id) {
            writer.field_bytes(11, *hello.node_id);
        }
        return MessageType::Hello;
    }

    MessageType operator()(const Accept& accept) const {
        writer.require(!accept.snapt.empty() && accept.udp_ports.size() <= kMaxPorts);
        writer.require(!accept.lease_ipv4 || accept.lease_ipv4->is_v4());
        writer.require(!accept.lease_ipv6 || !accept.lease_ipv6->is_v4());
        writer.field_u8(1, accept.version);
        writer.field_u16(2, accept.wire_session_up);
        writer.field_text(3, accept.snapt, kMaxNameBytes);
        writer.field_text(4, accept.realm, kMaxNameBytes);
        writer.field_u32(5, accept.epoch);
        writer.field_u8(6, accept.continued ? 1 : 0);
        writer.field(7, [&] { write_offer(writer, accept.protection); });
        if (accept.lease_ipv4) {
            writer.field_bytes(8, accept.lease_ipv4->bytes());
        }
        if (accept.lease_ipv6) {
            writer.field_bytes(9, accept.lease_ipv6->bytes());
        }
        writer.field_u16(10, accept.inner_mtu);
        writer.field(11, [&] {
            for (const uint16_t port : accept.udp_ports) {
                writer.u16(port);
            }
        });
        writer.field_u32(12, accept.keepalive_s);
        writer.field_u32(13, accept.rekey_s);
        writer.field_u64(14, accept.rekey_datagrams);
        writer.field_u32(15, accept.idle_timeout_s);
        write_limits(writer, 16, accept.limits);
        if (!accept.node.empty()) {
            writer.field_text(17, accept.node, kMaxNameBytes);
        }
        writer.require(accept.denied.size() <= kMaxDeniedPrefixes);
        if (!accept.denied.empty()) {
            writer.field(18, [&] {
                for (const base::IpPrefix& prefix : accept.denied) {
                    writer.u8(static_cast<uint8_t>(prefix.address.version));
                    writer.u8(prefix.length);
                    writer.bytes(prefix.address.bytes());
                }
            });
        }
        if (accept.user_flows != 0) {
            writer.field_u32(19, accept.user_flows);
        }
        return MessageType::Accept;
    }

    MessageType operator()(const Reject& reject) const {
        writer.field_u8(1, static_cast<uint8_t>(reject.reason));
        writer.field_text(2, reject.text, kMaxTextBytes);
        return MessageType::Reject;
    }
    MessageType operator()(const Rekey& rekey) const {
        writer.field_u32(1, rekey.epoch);
        return MessageType::Rekey;
    }
    MessageType operator()(const RekeyOk& granted) const {
        writer.field_u32(1, granted.epoch);
        return MessageType::RekeyOk;
    }
    MessageType operator()(const RekeyWanted& /*empty*/) const { return MessageType::RekeyWanted; }

    MessageType operator()(const Apps& apps) const {
        writer.require(apps.apps.size() <= kMaxApps);
        for (const App& app : apps.apps) {
            writer.require(!app.name.empty() && is_text(app.name, kMaxNameBytes));
            writer.field(1, [&] {
                writer.u32(app.tag);
                writer.chars(app.name);
            });
        }
        writer.require(apps.modes.size() <= kMaxApps);
        for (const AppMode& mode : apps.modes) {
            writer.field(2, [&] {
                writer.u32(mode.tag);
                writer.u8(static_cast<uint8_t>(mode.mode));
            });
        }
        return MessageType::Apps;
    }

    MessageType operator()(const Directory& directory) const {
        writer.require(directory.entries.size() <= kMaxDirectoryEntries);
        for (const DirectoryEntry& entry : directory.entries) {
            writer.field(1, [&] { write_entry(entry); });
        }
        return MessageType::Directory;
    }

    MessageType operator()(const KeepaliveRequest& /*empty*/) const {
        return MessageType::KeepaliveRequest;
    }
    MessageType operator()(const UsageQuery& query) const {
        write_usage(query.request, query.json);
        return MessageType::UsageQuery;
    }
    MessageType operator()(const UsageReply& reply) const {
        write_usage(reply.request, reply.json);
        return MessageType::UsageReply;
    }
    MessageType operator()(const SessionQuery& /*empty*/) const {
        return MessageType::SessionQuery;
    }
    MessageType operator()(const SessionState& state) const {
        writer.field_u8(1, state.known ? 1 : 0);
        return MessageType::SessionState;
    }
    MessageType operator()(const Ping& ping) const {
        writer.field_u64(1, ping.opaque);
        return MessageType::Ping;
    }
    MessageType operator()(const Pong& pong) const {
        writer.field_u64(1, pong.opaque);
        return MessageType::Pong;
    }
    MessageType operator()(const Close& close) const {
        writer.field_u8(1, static_cast<uint8_t>(close.reason));
        writer.field_text(2, close.text, kMaxTextBytes);
        return MessageType::Close;
    }
    MessageType operator()(const Data& data) const {
        writer.require(!data.datagram.empty());
        writer.bytes(data.datagram);
        return MessageType::Data;
    }
    MessageType operator()(const Allowance& allowance) const {
        writer.field_u8(1, static_cast<uint8_t>(allowance.state));
        writer.field_u8(2, static_cast<uint8_t>(allowance.kind));
        writer.field_u64(3, allowance.quota_bytes);
        writer.field_u64(4, allowance.used_bytes);
        writer.field_u64(5, allowance.until_s);
        writer.field_u64(6, allowance.rate_bits_per_s);
        if (allowance.balance_ud) {
            writer.field_u64(7, static_cast<uint64_t>(*allowance.balance_ud));
        }
        if (allowance.credit) {
            writer.field(8, [&] {
                writer.u64(static_cast<uint64_t>(allowance.credit->limit_ud));
                writer.u64(static_cast<uint64_t>(allowance.credit->unbooked_ud));
            });
        }
        return MessageType::Allowance;
    }

    void write_entry(const DirectoryEntry& entry) const {
        const size_t addresses = entry.addresses.size() + entry.names.size();
        writer.require(!entry.snapt.empty() && addresses != 0 &&
                       addresses <= kMaxDirectoryAddresses);
        writer.field_text(1, entry.snapt, kMaxNameBytes);
        writer.field_text(2, entry.realm, kMaxNameBytes);
        for (const base::Endpoint& endpoint : entry.addresses) {
            writer.field(3, [&] {
                writer.bytes(endpoint.address.bytes());
                writer.u16(endpoint.port);
            });
        }
        writer.field_u16(4, entry.load_permille);
        writer.field_u32(5, entry.price_permille);
        for (const HostName& host : entry.names) {
            writer.require(!host.name.empty() && host.name.size() <= kMaxHostNameBytes);
            writer.field(6, [&] {
                writer.u16(host.port);
                writer.chars(host.name);
            });
        }
        if (entry.no_way_out != VersionSet{}) {  // older nodes skip it
            writer.field_u8(7, static_cast<uint8_t>((entry.no_way_out.ipv4 ? kBitIpv4 : 0U) |
                                                    (entry.no_way_out.ipv6 ? kBitIpv6 : 0U)));
        }
    }
    void write_usage(uint32_t request, std::string_view json) const {
        writer.require(json.size() <= kMaxUsageBytes);
        writer.field_u32(1, request);
        writer.field(2, [&] { writer.chars(json); });
    }
};

}  // namespace

std::optional<std::string> version_refusal(const Hello& hello) {
    std::string spoken;
    for (const uint8_t version : hello.versions) {
        if (version == kProtocolVersion) {
            return std::nullopt;
        }
        spoken += (spoken.empty() ? "" : " and ") + std::to_string(version);
    }
    return "this SNAPT speaks version " + std::to_string(kProtocolVersion) + ", the node " + spoken;
}

base::Result<void> append_message(std::vector<uint8_t>& to, const Message& message) {
    const size_t start = to.size();
    to.resize(start + kMessageHeaderBytes);
    FieldWriter writer(to);
    const MessageType type = std::visit(BodyWriter{writer}, message);
    const size_t length = to.size() - start - kMessageHeaderBytes;
    if (!writer.ok() || length > kMaxMessageBodyBytes) {
        to.resize(start);
        return base::Error{base::Errc::LimitReached, "control message"};
    }
    to[start] = static_cast<uint8_t>(type);
    base::store_big_endian(to.data() + start + 1, static_cast<uint16_t>(length));
    return {};
}

}  // namespace continuo::control
