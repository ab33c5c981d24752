#include "tests/unit/wire/describe.hpp"

#include "common/wire/ack_ranges.hpp"
#include "common/wire/listing.hpp"

#include <cstdio>
#include <type_traits>

namespace continuo::wire::test {

namespace {

template <typename T>
std::string number(T value) {
    return std::to_string(static_cast<uint64_t>(value));
}

std::string yes_no(bool value) {
    return value ? "yes" : "no";
}

std::string text_of(const Space& space) {
    return std::string(base::token(space.traffic_class)) + "/" + number(space.path) + "/" +
           number(space.lane);
}

std::string text_of(const SequenceRun& run) {
    return number(run.first) + "-" + number(run.last);
}

std::string epoch_of(bool previous) {
    return previous ? " epoch=previous" : " epoch=own";
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
    std::string text;
    for (const std::string& part : parts) {
        text += (text.empty() ? "" : separator) + part;
    }
    return text.empty() ? "none" : text;
}

std::string line(const Section& section) {
    static constexpr const char* kModes[] = {"raw", "raw-kept", "zstd"};
    return std::string("SECTION mode=") + kModes[static_cast<size_t>(section.head.mode)] +
           " slot=" + number(section.head.slot) + " generation=" + number(section.head.generation) +
           " last=" + yes_no(section.last) + " content=" + to_hex(section.content);
}

std::string line(const Pad& frame) {
    return "PAD bytes=" + number(frame.bytes);
}

std::string line(const Ack& frame) {
    std::vector<std::string> ranges;
    AckRangeReader reader(frame.ranges, frame.highest);
    while (reader.left() > 0) {
        const auto range = reader.next();
        if (!range) {
            return "ACK malformed";
        }
        ranges.push_back(text_of({range->first, range->last}) +
                         (range->kind == AckKind::Received ? "r" : ""));
    }
    return "ACK space=" + text_of(frame.space) + epoch_of(frame.previous_epoch) +
           " delay=" + number(frame.delay) + " interval=" + number(frame.interval_ms) +
           " clock=" + number(frame.clock) + " missing=" + number(frame.missing) +
           " ranges=" + joined(ranges, ",");
}

std::string line(const Copy& frame) {
    return "COPY space=" + text_of(frame.space) + epoch_of(frame.previous_epoch) +
           " sequence=" + number(frame.sequence);
}

std::string line(const Floor& frame) {
    return "FLOOR space=" + text_of(frame.space) + " sequence=" + number(frame.sequence);
}

std::string line(const Generation& frame) {
    std::vector<std::string> listed;
    ListingReader reader(frame.listing);
    for (auto run = reader.next(); run && *run; run = reader.next()) {
        listed.push_back(text_of((*run)->space) + ":" + text_of((*run)->run));
    }
    char hash[9];
    std::snprintf(hash, sizeof hash, "%08x", frame.hash);
    return "GENERATION slot=" + number(frame.slot) + " generation=" + number(frame.generation) +
           " oldest=" + number(frame.oldest) + " base=" + number(frame.base) +
           " keep=" + number(frame.keep_bytes) + " hash=" + hash + " listed=" + joined(listed, ",");
}

std::string line(const Confirm& frame) {
    return "CONFIRM slot=" + number(frame.slot) + " generation=" + number(frame.generation);
}

std::string line(const Refuse& frame) {
    return "REFUSE slot=" + number(frame.slot) + " generation=" + number(frame.generation) +
           " reason=" + number(frame.reason);
}

std::string line(const Fragment& frame) {
    return "FRAGMENT id=" + number(frame.id) + " index=" + number(frame.index) +
           " last=" + yes_no(frame.last) + " counted=" + yes_no(!frame.to_end) +
           " piece=" + to_hex(frame.piece);
}

std::string line(const Challenge& frame) {
    return "CHALLENGE token=" + to_hex(frame.token);
}

std::string line(const Response& frame) {
    return "RESPONSE token=" + to_hex(frame.token);
}

std::string line(const Announce& frame) {
    std::vector<std::string> flags;
    if (frame.active) {
        flags.emplace_back("active");
    }
    if (frame.copy_wanted) {
        flags.emplace_back("copy");
    }
    if (frame.withdrawn) {
        flags.emplace_back("withdrawn");
    }
    return "ANNOUNCE path=" + number(frame.path) + " kind=" + number(frame.kind) +
           " mtu=" + number(frame.mtu) + " flags=" + joined(flags, "+") +
           " number=" + number(frame.number);
}

std::string line(const Ping& /*frame*/) {
    return "PING";
}

std::string line(const Closed& frame) {
    std::vector<std::string> indexes;
    for (size_t i = 0; i < frame.count; ++i) {
        indexes.push_back(number(frame.indexes[i]));
    }
    return "CLOSED indexes=" + joined(indexes, ",");
}

std::string line(const Caps& frame) {
    return "CAPS kept=" + number(frame.kept_bytes) + " live=" + number(frame.live_generations);
}

std::string line(const Close& frame) {
    return "CLOSE reason=" + number(frame.reason) + " text=" + to_hex(frame.text);
}

std::string line(const Order& frame) {
    std::vector<std::string> places;
    for (size_t i = 0; i < frame.count; ++i) {
        places.push_back(number(frame.places[i].index) + ":" + number(frame.places[i].number));
    }
    return "ORDER paths=" + number(frame.paths) + " places=" + joined(places, ",");
}

std::string line(const UnknownFrame& frame) {
    const uint8_t type[] = {frame.type};
    return "UNKNOWN type=" + to_hex(type) + " content=" + to_hex(frame.content);
}

}  // namespace

std::string describe(const BodyItem& item) {
    return std::visit([](const auto& value) { return line(value); }, item);
}

void serialize(const BodyItem& item, base::ByteWriter& writer) {
    std::visit(
        [&writer](const auto& value) {
            using Item = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<Item, Section>) {
                if (value.last) {
                    value.head.serialize_last(writer);
                } else {
                    value.head.serialize_sized(writer, value.content.size());
                }
                writer.bytes(value.content);
            } else if constexpr (std::is_same_v<Item, UnknownFrame>) {
                writer.u8(value.type);
                writer.varint(value.content.size());
                writer.bytes(value.content);
            } else {
                value.serialize(writer);
            }
        },
        item);
}

size_t size_of(const BodyItem& item) {
    return std::visit(
        [](const auto& value) {
            using Item = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<Item, Section>) {
                return value.content.size() + (value.last
                                                   ? value.head.size_last()
                                                   : value.head.size_sized(value.content.size()));
            } else if constexpr (std::is_same_v<Item, UnknownFrame>) {
                return 1 + base::varint_bytes(value.content.size()) + value.content.size();
            } else {
                return value.size();
            }
        },
        item);
}

}  // namespace continuo::wire::test
