#include "tests/unit/elision/elision_link.hpp"

namespace continuo::elision {

using base::IpAddress;
using base::IpVersion;
using packet::Protocol;

Bytes from_hex(std::string_view text) {
    Bytes bytes;
    int high = -1;
    for (const char c : text) {
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) {
            continue;
        }
        if (high < 0) {
            high = digit;
        } else {
            bytes.push_back(static_cast<uint8_t>(high << 4 | digit));
            high = -1;
        }
    }
    return bytes;
}

std::string to_hex(ByteView bytes) {
    static constexpr std::string_view kDigits = "0123456789ABCDEF";
    std::string text;
    for (const uint8_t byte : bytes) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

HeaderFields udp4() {
    HeaderFields fields;
    fields.destination = IpAddress::v4(0xC6336407);
    fields.protocol = Protocol::Udp;
    fields.ttl = 64;
    fields.dont_fragment = true;
    fields.ip_id = 0x1000;
    fields.source_port = 40000;
    fields.destination_port = 53;
    return fields;
}

HeaderFields udp6() {
    HeaderFields fields = udp4();
    fields.source = IpAddress::any(IpVersion::V6);
    fields.destination = *IpAddress::parse("2001:db8::7");
    fields.dont_fragment = false;
    fields.ip_id = 0;
    fields.flow_label = 0x12345;
    return fields;
}

HeaderFields echo4() {
    HeaderFields fields = udp4();
    fields.protocol = Protocol::Icmp;
    fields.source_port = 0x0102;
    fields.destination_port = 0;
    fields.echo_sequence = 5;
    return fields;
}

HeaderFields tcp4() {
    HeaderFields fields = udp4();
    fields.protocol = Protocol::Tcp;
    fields.destination_port = 443;
    fields.sequence = 0x10000000;
    fields.acknowledgement = 0x20000000;
    fields.flags = packet::tcp_flag::kAck;
    fields.window = 0x0200;
    fields.has_timestamps = true;
    fields.timestamp_value = 0x30000000;
    fields.timestamp_echo = 0x40000000;
    return fields;
}

HeaderFields tcp6_without_timestamps() {
    HeaderFields fields = tcp4();
    const HeaderFields v6 = udp6();
    fields.source = v6.source;
    fields.destination = v6.destination;
    fields.dont_fragment = false;
    fields.ip_id = 0;
    fields.flow_label = v6.flow_label;
    fields.has_timestamps = false;
    fields.timestamp_value = 0;
    fields.timestamp_echo = 0;
    return fields;
}

Bytes ElisionLink::build(uint32_t index,
                         const HeaderFields& fields,
                         ByteView payload,
                         Extent extent) {
    Bytes section(payload.size() + kMaxOpenBytes);
    ByteWriter writer(section);
    now += base::milliseconds(1);
    encoder.begin_datagram(space, next, now);
    decoder.begin(space, next);
    for (const Floor& floor : encoder.floors()) {
        EXPECT_TRUE(decoder.apply_floor(floor.space, floor.sequence));
    }
    ++next;
    encoder.begin_section();
    EXPECT_TRUE(encoder.append(index, fields, payload, extent, writer));
    encoder.end_datagram();
    section.resize(writer.size());
    return section;
}

std::string
ElisionLink::send(uint32_t index, const HeaderFields& fields, size_t payload_bytes, Extent extent) {
    const Bytes payload(payload_bytes, 0xEE);
    const Bytes section = build(index, fields, payload, extent);
    EXPECT_TRUE(decoder.decode_section(section)) << to_hex(section);
    const auto entries = decoder.entries();
    EXPECT_EQ(entries.size(), 1U);
    if (entries.size() == 1) {
        EXPECT_EQ(entries[0].index, index);
        EXPECT_EQ(entries[0].fields, fields);
        EXPECT_EQ(to_hex(entries[0].payload), to_hex(payload));
    }
    EXPECT_TRUE(decoder.commit());
    EXPECT_TRUE(encoder.on_acknowledged(space, next - 1, next - 1, now));
    return to_hex(ByteView(section).first(section.size() - payload_bytes));
}

std::string ElisionLink::lose(uint32_t index, const HeaderFields& fields, size_t payload_bytes) {
    const Bytes payload(payload_bytes, 0xEE);
    const Bytes section = build(index, fields, payload, Extent::Counted);
    return to_hex(ByteView(section).first(section.size() - payload_bytes));
}

void ElisionLink::open(uint32_t index,
                       const HeaderFields& fields,
                       size_t payload_bytes,
                       OpenInfo info) {
    ASSERT_TRUE(encoder.add_flow(index, info));
    EXPECT_EQ(send(index, fields, payload_bytes).substr(0, 2), "3F");
}

base::Result<void> ElisionLink::decode(ByteView section) {
    decoder.begin(space, next);
    return decoder.decode_section(section);
}

}  // namespace continuo::elision
