// A capture file of packets that a test makes.
#pragma once

#include "common/packet/header_fields.hpp"
#include "common/packet/pcapng.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace continuo::cnapt::commands {

class CaptureFile {
  public:
    CaptureFile() : bytes_(packet::pcapng_beginning("test", "cnapt0")) {}

    void add(base::ByteView packet, uint64_t at_ns) {
        const size_t before = bytes_.size();
        bytes_.resize(before + packet::packet_block_bytes(packet.size()));
        const auto place = packet::write_packet_block(
            {packet::CaptureInterface::Inner, packet::CaptureDirection::Outbound, at_ns,
             static_cast<uint32_t>(packet.size())},
            base::MutableByteView(bytes_).subspan(before));
        std::copy(packet.begin(), packet.end(), place.begin());
    }
    void add(const packet::HeaderFields& fields, size_t payload_bytes, uint64_t at_ns) {
        add(fields, std::vector<uint8_t>(payload_bytes, 'x'), at_ns);
    }
    void
    add(const packet::HeaderFields& fields, const std::vector<uint8_t>& payload, uint64_t at_ns) {
        std::vector<uint8_t> packet(fields.header_bytes() + payload.size());
        packet::write_headers(fields, payload, false, packet);
        std::copy(payload.begin(), payload.end(),
                  packet.end() - static_cast<std::ptrdiff_t>(payload.size()));
        add(packet, at_ns);
    }
    std::string text() const { return {bytes_.begin(), bytes_.end()}; }

    static packet::HeaderFields fields_of(packet::Protocol protocol,
                                          const char* from,
                                          uint16_t from_port,
                                          const char* to,
                                          uint16_t to_port,
                                          uint8_t tcp_flags = 0) {
        packet::HeaderFields fields;
        fields.protocol = protocol;
        fields.source = *base::IpAddress::parse(from);
        fields.destination = *base::IpAddress::parse(to);
        fields.source_port = from_port;
        fields.destination_port = to_port;
        fields.flags = tcp_flags;
        fields.ttl = 64;
        return fields;
    }

  private:
    std::vector<uint8_t> bytes_;
};

}  // namespace continuo::cnapt::commands
