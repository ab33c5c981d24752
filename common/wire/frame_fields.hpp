// Fields that several frames share. Only for the sources of this folder.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/wire/constants.hpp"
#include "common/wire/space.hpp"

namespace continuo::wire::detail {

inline constexpr uint8_t kLaneFollows = 0x80;
inline constexpr uint8_t kPreviousEpoch = 0x40;

struct SpaceField {
    Space space;
    bool previous_epoch = false;
};

// 1 byte, 2 with a lane other than 0. Fails the reader when the lane byte is not canonical.
inline SpaceField read_space(base::ByteReader& reader) {
    const uint8_t head = reader.u8();
    SpaceField field;
    field.space.traffic_class = static_cast<base::TrafficClass>(head >> 4 & 3U);
    field.space.path = head & 0x0FU;
    field.previous_epoch = (head & kPreviousEpoch) != 0;
    if ((head & kLaneFollows) != 0) {
        field.space.lane = reader.u8();
        if (field.space.lane == 0 || field.space.lane >= kMaxLanes) {
            reader.fail();
        }
    }
    return field;
}

// For frames that speak of their own epoch only: the E bit fails the reader.
inline Space read_own_space(base::ByteReader& reader) {
    const SpaceField field = read_space(reader);
    if (field.previous_epoch) {
        reader.fail();
    }
    return field.space;
}

inline void write_space(base::ByteWriter& writer, const Space& space, bool previous_epoch = false) {
    const unsigned lane = space.lane & 7U;
    writer.u8(static_cast<uint8_t>(
        (lane != 0 ? kLaneFollows : 0U) | (previous_epoch ? kPreviousEpoch : 0U) |
        (static_cast<unsigned>(space.traffic_class) & 3U) << 4 | (space.path & 0x0FU)));
    if (lane != 0) {
        writer.u8(static_cast<uint8_t>(lane));
    }
}

constexpr size_t space_bytes(const Space& space) {
    return (space.lane & 7U) != 0 ? 2 : 1;
}

inline uint32_t read_sequence(base::ByteReader& reader) {
    const uint64_t value = reader.varint();
    if (value > kMaxSequence) {
        reader.fail();
        return 0;
    }
    return static_cast<uint32_t>(value);
}

// A slot as frames carry it (section heads have a shorter form).
inline uint16_t read_slot(base::ByteReader& reader) {
    const uint64_t value = reader.varint();
    if (value >= kMaxSlots) {
        reader.fail();
        return 0;
    }
    return static_cast<uint16_t>(value);
}

// Fails the reader unless the next byte is that type.
inline void expect_type(base::ByteReader& reader, FrameType type) {
    if (reader.u8() != static_cast<uint8_t>(type)) {
        reader.fail();
    }
}

inline void write_type(base::ByteWriter& writer, FrameType type) {
    writer.u8(static_cast<uint8_t>(type));
}

// Makes ok() false without writing.
inline void fail(base::ByteWriter& writer) {
    static_cast<void>(writer.reserve(writer.room() + 1));
}

template <typename T>
base::Result<T> finish(const base::ByteReader& reader, const T& value, std::string_view where) {
    if (!reader.ok()) {
        return base::Error{base::Errc::Malformed, where};
    }
    return value;
}

}  // namespace continuo::wire::detail
