// Bits of the packet entry (docs/PROTOCOL.md section 6.3).
#pragma once

#include <cstdint>

namespace continuo::elision {

namespace head {
inline constexpr uint8_t kMask = 0x80;       // a mask byte follows
inline constexpr uint8_t kReference = 0x40;  // coded against reference 1
inline constexpr uint8_t kIndex = 0x3F;
inline constexpr uint8_t kLongIndex = 62;  // varint(index - 62) follows
inline constexpr uint8_t kSpecial = 63;    // subtype follows
}  // namespace head

namespace subtype {
inline constexpr uint8_t kWhole = 0x00;
inline constexpr uint8_t kOpen = 0x01;
inline constexpr uint8_t kSet = 0x02;
inline constexpr uint8_t kTemplate = 0x04;
inline constexpr uint8_t kSameSourcePort = 0x08;  // with a template: the destination port differs
inline constexpr uint8_t kContext = 0x08;         // without: no packet, only the flow; no length
inline constexpr unsigned kKindShift = 4;
}  // namespace subtype

// First entry of a UDP or ICMP echo flow in a section.
namespace plain {
inline constexpr uint8_t kLength = 0x01;
inline constexpr uint8_t kToEnd = 0x02;
inline constexpr uint8_t kId2 = 0x04;
inline constexpr uint8_t kTosTtl = 0x08;
inline constexpr uint8_t kSequence2 = 0x40;  // echo
inline constexpr uint8_t kSet = 0x80;
}  // namespace plain

// First entry of a TCP flow in a section. Width codes of sequence and acknowledgement: 0 same, 1 to
// 3: 2 to 4 bytes.
namespace tcp {
inline constexpr uint8_t kWidth = 0x03;
inline constexpr unsigned kAcknowledgementShift = 2;
inline constexpr uint8_t kTimestamps2 = 0x10;
inline constexpr uint8_t kLength = 0x20;
inline constexpr uint8_t kToEnd = 0x40;
inline constexpr uint8_t kExtension = 0x80;
}  // namespace tcp

namespace extension {
inline constexpr uint8_t kFlags = 0x01;
inline constexpr uint8_t kWindow = 0x02;
inline constexpr uint8_t kId2 = 0x04;
inline constexpr uint8_t kTosTtl = 0x08;
inline constexpr uint8_t kTimestamps4 = 0x10;
inline constexpr uint8_t kSet = 0x20;
inline constexpr uint8_t kPush = 0x40;  // toggled
inline constexpr uint8_t kReserved = 0x80;
}  // namespace extension

// Later entries of a flow in a section; UDP has the first three, echo the first four.
namespace later {
inline constexpr uint8_t kLength = 0x01;
inline constexpr uint8_t kToEnd = 0x02;
inline constexpr uint8_t kId2 = 0x04;
inline constexpr uint8_t kSequence = 0x08;  // echo: 2 bytes, TCP: 4
inline constexpr uint8_t kAcknowledgement = 0x10;
inline constexpr uint8_t kTimestamps = 0x20;
inline constexpr uint8_t kWindow = 0x40;
inline constexpr uint8_t kFlags = 0x80;
}  // namespace later

}  // namespace continuo::elision
