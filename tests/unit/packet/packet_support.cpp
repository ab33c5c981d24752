#include "tests/unit/packet/packet_support.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::packet::test {
namespace {

using base::store_big_endian;

size_t header_bytes_of_ip(base::ByteView packet) {
    return packet[0] >> 4 == 4 ? size_t{4} * (packet[0] & 15U) : 40;
}

uint8_t protocol_of(base::ByteView packet) {
    return packet[0] >> 4 == 4 ? packet[9] : packet[6];
}

uint32_t reference_pseudo(base::ByteView packet) {
    const bool is_v4 = packet[0] >> 4 == 4;
    const size_t transport_bytes = packet.size() - header_bytes_of_ip(packet);
    const uint8_t protocol = protocol_of(packet);
    if (protocol == 1) {
        return 0;
    }
    const base::ByteView addresses = is_v4 ? packet.subspan(12, 8) : packet.subspan(8, 32);
    return reference_sum(addresses, static_cast<uint32_t>(protocol + transport_bytes));
}

size_t checksum_field(base::ByteView packet) {
    const uint8_t protocol = protocol_of(packet);
    const size_t offset = protocol == 6 ? 16 : (protocol == 17 ? 6 : 2);
    return header_bytes_of_ip(packet) + offset;
}

}  // namespace

uint16_t reference_sum(base::ByteView bytes, uint32_t initial) {
    uint32_t sum = initial;
    for (size_t i = 0; i < bytes.size(); i += 2) {
        const uint32_t low = i + 1 < bytes.size() ? bytes[i + 1] : 0U;
        sum += static_cast<uint32_t>(bytes[i]) << 8 | low;
        sum = (sum & 0xFFFFU) + (sum >> 16);
    }
    return static_cast<uint16_t>((sum & 0xFFFFU) + (sum >> 16));
}

bool checksums_are_right(base::ByteView packet) {
    const size_t ip_bytes = header_bytes_of_ip(packet);
    if (packet[0] >> 4 == 4 && reference_sum(packet.first(ip_bytes)) != 0xFFFF) {
        return false;
    }
    const size_t field = checksum_field(packet);
    if (protocol_of(packet) == 17 && packet[field] == 0 && packet[field + 1] == 0) {
        return packet[0] >> 4 == 4;
    }
    return reference_sum(packet.subspan(ip_bytes), reference_pseudo(packet)) == 0xFFFF;
}

void set_checksums(Bytes& packet) {
    const size_t ip_bytes = header_bytes_of_ip(packet);
    if (packet[0] >> 4 == 4) {
        packet[10] = packet[11] = 0;
        const uint16_t sum = reference_sum(base::ByteView(packet).first(ip_bytes));
        store_big_endian(packet.data() + 10, static_cast<uint16_t>(~sum));
    }
    const size_t field = checksum_field(packet);
    packet[field] = packet[field + 1] = 0;
    const uint16_t sum =
        reference_sum(base::ByteView(packet).subspan(ip_bytes), reference_pseudo(packet));
    auto checksum = static_cast<uint16_t>(~sum);
    if (protocol_of(packet) == 17 && checksum == 0) {
        checksum = 0xFFFF;
    }
    store_big_endian(packet.data() + field, checksum);
}

Bytes random_bytes(base::Random& random, size_t count) {
    Bytes bytes(count);
    random.fill(bytes);
    return bytes;
}

HeaderFields random_fields(base::Random& random, Protocol protocol, bool is_v4) {
    HeaderFields fields;
    const Bytes addresses = random_bytes(random, 32);
    const base::ByteView view(addresses);
    fields.source =
        is_v4 ? base::IpAddress::v4(view.first(4)) : base::IpAddress::v6(view.first(16));
    fields.destination =
        is_v4 ? base::IpAddress::v4(view.subspan(16, 4)) : base::IpAddress::v6(view.subspan(16));
    fields.protocol = protocol;
    fields.tos = static_cast<uint8_t>(random.u64());
    fields.ttl = static_cast<uint8_t>(random.u64());
    fields.source_port = static_cast<uint16_t>(random.u64());
    if (is_v4) {
        fields.dont_fragment = random.below(2) == 1;
        fields.ip_id = static_cast<uint16_t>(random.u64());
    } else {
        fields.flow_label = static_cast<uint32_t>(random.below(1U << 20));
    }
    if (protocol == Protocol::Tcp || protocol == Protocol::Udp) {
        fields.destination_port = static_cast<uint16_t>(random.u64());
    } else {
        fields.is_reply = random.below(2) == 1;
        fields.echo_sequence = static_cast<uint16_t>(random.u64());
    }
    if (protocol == Protocol::Tcp) {
        fields.sequence = static_cast<uint32_t>(random.u64());
        fields.acknowledgement = static_cast<uint32_t>(random.u64());
        fields.flags = static_cast<uint8_t>(random.u64() & ~uint64_t{tcp_flag::kUrg});
        fields.window = static_cast<uint16_t>(random.u64());
        fields.has_timestamps = random.below(2) == 1;
    }
    if (fields.has_timestamps) {
        fields.timestamp_value = static_cast<uint32_t>(random.u64());
        fields.timestamp_echo = static_cast<uint32_t>(random.u64());
    }
    fields.zero_checksum = protocol == Protocol::Udp && is_v4 && random.below(4) == 0;
    return fields;
}

HeaderFields plain_fields(Protocol protocol, bool is_v4) {
    HeaderFields fields;
    fields.source = address(is_v4 ? "198.51.100.7" : "2001:db8:1::7");
    fields.destination = address(is_v4 ? "192.0.2.1" : "2001:db8::1");
    fields.protocol = protocol;
    fields.ttl = 61;
    fields.source_port = 443;
    if (is_v4) {
        fields.dont_fragment = true;
        fields.ip_id = 0xFFFE;  // wraps in every longer run
    } else {
        fields.flow_label = 0x12345;
    }
    if (protocol == Protocol::Tcp || protocol == Protocol::Udp) {
        fields.destination_port = 40000;
    }
    if (protocol == Protocol::Tcp) {
        fields.sequence = 0xFFFFF000U;  // wraps too
        fields.acknowledgement = 77;
        fields.flags = tcp_flag::kAck;
        fields.window = 501;
        fields.has_timestamps = true;
        fields.timestamp_value = 1000;
        fields.timestamp_echo = 2000;
    }
    return fields;
}

Bytes make_packet(const HeaderFields& fields, base::ByteView payload, bool partial) {
    Bytes packet(fields.header_bytes() + payload.size());
    const size_t header_bytes = write_headers(fields, payload, partial, packet);
    EXPECT_EQ(header_bytes, fields.header_bytes());
    std::copy(payload.begin(), payload.end(),
              packet.begin() + static_cast<std::ptrdiff_t>(header_bytes));
    return packet;
}

Bytes make_icmp_error(const base::IpAddress& from,
                      const base::IpAddress& to,
                      base::ByteView about,
                      size_t quoted_bytes) {
    HeaderFields fields;
    fields.source = from;
    fields.destination = to;
    fields.protocol = from.is_v4() ? Protocol::Icmp : Protocol::IcmpV6;
    fields.ttl = 60;
    const base::ByteView quote = about.first(std::min(about.size(), quoted_bytes));
    Bytes packet = make_packet(fields, quote);
    uint8_t* icmp = packet.data() + header_bytes_of_ip(packet);
    icmp[0] = from.is_v4() ? 3 : 1;
    icmp[1] = from.is_v4() ? 3 : 4;  // port unreachable
    set_checksums(packet);
    return packet;
}

Bytes with_extension(const Bytes& packet, uint8_t type, Bytes extension) {
    Bytes longer = packet;
    extension[0] = longer[6];
    longer[6] = type;
    longer.insert(longer.begin() + 40, extension.begin(), extension.end());
    store_big_endian(longer.data() + 4, static_cast<uint16_t>(longer.size() - 40));
    return longer;
}

std::array<Bytes, 2> fragment(const Bytes& packet, size_t first_bytes, uint16_t id) {
    const bool is_v4 = packet[0] >> 4 == 4;
    const size_t ip_bytes = header_bytes_of_ip(packet);
    const auto middle = static_cast<std::ptrdiff_t>(ip_bytes + first_bytes);
    const auto header_end = packet.begin() + static_cast<std::ptrdiff_t>(ip_bytes);
    std::array<Bytes, 2> parts = {Bytes(packet.begin(), packet.begin() + middle),
                                  Bytes(packet.begin(), header_end)};
    parts[1].insert(parts[1].end(), packet.begin() + middle, packet.end());
    for (size_t i = 0; i < parts.size(); ++i) {
        Bytes& part = parts[i];
        const auto field = static_cast<uint16_t>(i == 0 ? 0 : first_bytes);
        if (!is_v4) {
            Bytes extension(8, 0);
            store_big_endian(extension.data() + 2, static_cast<uint16_t>(field | (i == 0 ? 1 : 0)));
            store_big_endian(extension.data() + 4, uint32_t{id});
            part = with_extension(part, 44, extension);
            continue;
        }
        store_big_endian(part.data() + 2, static_cast<uint16_t>(part.size()));
        store_big_endian(part.data() + 4, id);
        store_big_endian(part.data() + 6, static_cast<uint16_t>(field / 8 | (i == 0 ? 0x2000 : 0)));
        store_big_endian(part.data() + 10, uint16_t{0});
        const uint16_t sum = reference_sum(base::ByteView(part).first(ip_bytes));
        store_big_endian(part.data() + 10, static_cast<uint16_t>(~sum));
    }
    return parts;
}

std::vector<Bytes> cut(base::ByteView super_packet, const Offload& offload) {
    const bool is_v4 = super_packet[0] >> 4 == 4;
    const bool is_tcp = offload.gso != GsoType::Udp;
    const size_t ip_bytes = header_bytes_of_ip(super_packet);
    const size_t headers =
        ip_bytes + (is_tcp ? size_t{4} * (super_packet[ip_bytes + 12] >> 4) : size_t{8});
    const base::ByteView payload = super_packet.subspan(headers);
    std::vector<Bytes> packets;
    for (size_t at = 0; at < payload.size(); at += offload.segment_bytes) {
        const size_t bytes = std::min<size_t>(offload.segment_bytes, payload.size() - at);
        const base::ByteView part = payload.subspan(at, bytes);
        Bytes packet(super_packet.begin(),
                     super_packet.begin() + static_cast<std::ptrdiff_t>(headers));
        packet.insert(packet.end(), part.begin(), part.end());
        uint8_t* ip = packet.data();
        uint8_t* transport = ip + ip_bytes;
        if (is_v4) {
            store_big_endian(ip + 2, static_cast<uint16_t>(packet.size()));
            const uint16_t first_id = base::load_big_endian<uint16_t>(ip + 4);
            store_big_endian(ip + 4, static_cast<uint16_t>(first_id + packets.size()));
        } else {
            store_big_endian(ip + 4, static_cast<uint16_t>(packet.size() - 40));
        }
        if (is_tcp) {
            const uint32_t sequence = base::load_big_endian<uint32_t>(transport + 4);
            store_big_endian(transport + 4, static_cast<uint32_t>(sequence + at));
            if (at + bytes < payload.size()) {
                transport[13] &= static_cast<uint8_t>(~(tcp_flag::kPsh | tcp_flag::kFin));
            }
        } else {
            store_big_endian(transport + 4, static_cast<uint16_t>(8 + bytes));
        }
        set_checksums(packet);
        packets.push_back(packet);
    }
    return packets;
}

base::IpAddress address(const char* text) {
    const std::optional<base::IpAddress> parsed = base::IpAddress::parse(text);
    EXPECT_TRUE(parsed.has_value()) << text;
    return parsed.value_or(base::IpAddress{});
}

Bytes from_hex(std::string_view text) {
    const auto digit = [](char c) {
        return static_cast<uint8_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    };
    std::string digits;
    std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
                 [](char c) { return c != ' ' && c != '\n'; });
    Bytes bytes;
    for (size_t i = 0; i + 1 < digits.size(); i += 2) {
        bytes.push_back(static_cast<uint8_t>(digit(digits[i]) << 4 | digit(digits[i + 1])));
    }
    return bytes;
}

}  // namespace continuo::packet::test
