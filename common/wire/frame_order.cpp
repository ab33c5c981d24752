#include "common/wire/frame.hpp"
#include "common/wire/frame_fields.hpp"

#include <algorithm>

namespace continuo::wire {

using base::ByteReader;
using base::ByteWriter;
using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr size_t kHeadBytes = 3;  // paths and n
constexpr size_t kNumberBytes = 2;

size_t counted_bytes(const Order& order) {
    size_t bytes = kHeadBytes;
    for (size_t i = 0; i < order.count; ++i) {
        bytes += base::varint_bytes(order.places[i].index) + kNumberBytes;
    }
    return bytes;
}

}  // namespace

bool Order::add(uint32_t index, uint16_t number) {
    if (count == places.size()) {
        return false;
    }
    places[count++] = {index, number};
    return true;
}

Result<Order> Order::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Order);
    const uint64_t length = reader.varint();
    if (!reader.ok() || length > reader.remaining()) {
        return Error{Errc::Truncated, "ORDER"};
    }
    ByteReader inside(reader.bytes(static_cast<size_t>(length)));
    Order frame;
    frame.paths = inside.u16();
    const uint8_t places = inside.u8();
    if (places == 0 || places > kMaxOrderedFlows) {
        inside.fail();
    }
    for (uint8_t i = 0; inside.ok() && i < places; ++i) {
        const uint64_t index = inside.varint();
        const uint16_t number = inside.u16();
        if (index >= kMaxFlowIndexes || frame.find(static_cast<uint32_t>(index)) != nullptr ||
            !frame.add(static_cast<uint32_t>(index), number)) {
            inside.fail();
        }
    }
    return detail::finish(inside, frame, "ORDER");
}

void Order::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Order);
    writer.varint(counted_bytes(*this));
    writer.u16(paths);
    writer.u8(count);
    for (size_t i = 0; i < count; ++i) {
        writer.varint(places[i].index);
        writer.u16(places[i].number);
    }
}

size_t Order::size() const {
    const size_t counted = counted_bytes(*this);
    return 1 + base::varint_bytes(counted) + counted;
}

bool Order::operator==(const Order& other) const {
    return paths == other.paths &&
           std::equal(places.begin(), places.begin() + count, other.places.begin(),
                      other.places.begin() + other.count);
}

}  // namespace continuo::wire
