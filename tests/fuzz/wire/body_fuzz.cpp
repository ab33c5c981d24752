// Input: a body after authentication. Items tile the body without gap, views lie inside it, and
// what parses can be written and parsed again to the same item.
#include "common/wire/body.hpp"
#include "common/wire/limits.hpp"
#include "common/wire/listing.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

using continuo::base::ByteReader;
using continuo::base::ByteView;
using continuo::base::ByteWriter;
namespace wire = continuo::wire;

namespace {

void expect_inside(ByteView part, ByteView body) {
    CTN_ASSERT(part.empty() || (part.data() >= body.data() &&
                                part.data() + part.size() <= body.data() + body.size()));
}

void check(const wire::Section& section, ByteView body) {
    CTN_ASSERT(!section.content.empty());
    expect_inside(section.content, body);
    std::vector<uint8_t> buffer(16);
    ByteWriter writer(buffer);
    if (section.last) {
        section.head.serialize_last(writer);
        CTN_ASSERT(writer.size() == section.head.size_last());
    } else {
        section.head.serialize_sized(writer, section.content.size());
        CTN_ASSERT(writer.size() == section.head.size_sized(section.content.size()));
    }
    CTN_ASSERT(std::ranges::equal(writer.written(),
                                  ByteView(section.content.data() - writer.size(), writer.size())));
}

void check(const wire::UnknownFrame& frame, ByteView body) {
    expect_inside(frame.content, body);
}

template <typename Frame>
void check(const Frame& frame, ByteView body) {
    if constexpr (std::is_same_v<Frame, wire::Fragment>) {
        expect_inside(frame.piece, body);
    } else if constexpr (std::is_same_v<Frame, wire::Close>) {
        expect_inside(frame.text, body);
        if (frame.text.size() > wire::kMaxCloseTextBytes) {
            return;
        }
    } else if constexpr (std::is_same_v<Frame, wire::Generation>) {
        expect_inside(frame.listing, body);
    }
    std::vector<uint8_t> buffer(frame.size());
    ByteWriter writer(buffer);
    frame.serialize(writer);
    CTN_ASSERT(writer.ok() && writer.size() == buffer.size());
    ByteReader reader(buffer);
    const auto again = Frame::parse(reader);
    CTN_ASSERT(again && *again == frame && reader.at_end());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ByteView body(data, size);
    wire::BodyReader reader(body);
    wire::BodyItem item;
    size_t left = size;
    bool good = true;
    for (;;) {
        const auto more = reader.next(item);
        good = more.has_value();
        if (!good || !*more) {
            break;
        }
        CTN_ASSERT(reader.rest().size() < left);
        left = reader.rest().size();
        std::visit([body](const auto& value) { check(value, body); }, item);
    }
    CTN_ASSERT(!good || left == 0);
    CTN_ASSERT(wire::check_body(body).has_value() == good);
    return 0;
}
