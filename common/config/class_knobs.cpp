#include "common/config/class_knobs.hpp"

#include "common/config/units.hpp"
#include "common/config/values.hpp"

#include <algorithm>
#include <charconv>

namespace continuo::config {
namespace {

using base::milliseconds;

constexpr std::array<int, base::kTrafficClasses> kDefaultHoldMs = {5, 10, 100, 20};
constexpr std::array<std::string_view, base::kTrafficClasses> kDefaultDscp = {"ef", "af41", "af21",
                                                                              "cs1"};
constexpr std::array<int, base::kTrafficClasses> kDefaultResequenceMs = {0, 0, 200, 200};
constexpr base::Duration kMaxResequence = base::seconds(5);
constexpr std::array<Choice<base::Striping>, 4> kStripings = {
    {{"packet", base::Striping::Packet},
     {"data+ack", base::Striping::DataAck},
     {"data", base::Striping::Data},
     {"ack", base::Striping::Ack}}};
constexpr base::Duration kMaxHold = base::seconds(10);
constexpr uint32_t kMaxDatagramBytes = 65535;
constexpr uint32_t kMinDatagramBytes = 256;

std::optional<Compression> parse_compression(const Node& node) {
    if (node.kind == NodeKind::Text && node.text == "auto") {
        return Compression{};
    }
    if (node.kind == NodeKind::Text && node.text == "off") {
        return Compression{Compression::Mode::Off, 0};
    }
    if (node.kind == NodeKind::Integer && node.integer >= 1 &&
        node.integer <= kMaxCompressionLevel) {
        return Compression{Compression::Mode::Level, static_cast<uint8_t>(node.integer)};
    }
    return std::nullopt;
}

void read_fill(Section& section, ClassKnobs& knobs) {
    const Node* node = section.find("fill");
    if (node == nullptr) {
        return;
    }
    if (node->kind == NodeKind::Text && node->text == "mtu") {
        knobs.fill_percent.reset();
        return;
    }
    const auto percent = node->kind == NodeKind::Text ? parse_percent(node->text) : std::nullopt;
    if (percent) {
        knobs.fill_percent = percent;
    } else {
        section.reject("fill", *node, R"("mtu" or "1%" to "100%")");
    }
}

void read_dscp(Section& section, ClassKnobs& knobs) {
    const Node* node = section.find("dscp");
    if (node == nullptr) {
        return;
    }
    std::optional<uint8_t> dscp;
    if (node->kind == NodeKind::Text) {
        dscp = parse_dscp(node->text);
    } else if (node->kind == NodeKind::Integer && node->integer >= 0 && node->integer <= 63) {
        dscp = static_cast<uint8_t>(node->integer);
    }
    if (dscp) {
        knobs.dscp = *dscp;
    } else {
        section.reject("dscp", *node, "a name such as \"ef\" or 0 to 63");
    }
}

void read_knobs(Section& section, ClassKnobs& knobs) {
    knobs.hold =
        section.duration("hold_ms", knobs.hold, milliseconds(1), base::Duration(0), kMaxHold);
    knobs.min_bytes = section.integer<uint32_t>("min_bytes", 0, 0, kMaxDatagramBytes);
    knobs.max_bytes = section.integer<uint32_t>("max_bytes", 0, 0, kMaxDatagramBytes);
    if (knobs.max_bytes != 0 && knobs.max_bytes < kMinDatagramBytes) {
        section.error("max_bytes", "\"max_bytes\" is " + std::to_string(knobs.max_bytes),
                      "0 or an integer from 256 to 65535");
    } else if (knobs.max_bytes != 0 && knobs.min_bytes > knobs.max_bytes) {
        section.error("min_bytes", R"("min_bytes" is more than "max_bytes")",
                      "at most " + std::to_string(knobs.max_bytes));
    }
    read_fill(section, knobs);
    read_dscp(section, knobs);
    if (const Node* node = section.find("compression")) {
        if (const auto compression = parse_compression(*node)) {
            knobs.compression = *compression;
        } else {
            section.reject("compression", *node, R"("auto", "off" or a level from 1 to 19)");
        }
    }
    knobs.resequence = section.duration("resequence_ms", knobs.resequence, milliseconds(1),
                                        base::Duration(0), kMaxResequence);
    knobs.striping = section.choice<base::Striping>("striping", knobs.striping, kStripings);
    section.finish();
}

std::string compression_text(const Compression& compression) {
    switch (compression.mode) {
    case Compression::Mode::Off:
        return "\"off\"";
    case Compression::Mode::Level:
        return std::to_string(compression.level);
    default:
        return "\"auto\"";
    }
}

std::string milliseconds_text(base::Duration duration) {
    std::array<char, 32> text{};
    const auto result =
        std::to_chars(text.data(), text.data() + text.size(),
                      static_cast<double>(duration.count()) / 1e6, std::chars_format::general, 12);
    return {text.data(), result.ptr};
}

std::string striping_text(base::Striping striping) {
    const auto named = std::find_if(kStripings.begin(), kStripings.end(),
                                    [&](const auto& choice) { return choice.value == striping; });
    return std::string(named->name);
}

std::string line(std::string text, std::string_view comment = {}) {
    constexpr size_t kCommentColumn = 35;
    return commented_line(std::move(text), comment, kCommentColumn);
}

std::string fill_text(const ClassKnobs& knobs) {
    return knobs.fill_percent ? "\"" + std::to_string(*knobs.fill_percent) + "%\"" : "\"mtu\"";
}

}  // namespace

ClassKnobTable default_class_knobs() {
    ClassKnobTable table;
    for (size_t i = 0; i < table.size(); ++i) {
        table[i].hold = milliseconds(kDefaultHoldMs[i]);
        table[i].resequence = milliseconds(kDefaultResequenceMs[i]);
        table[i].dscp = parse_dscp(kDefaultDscp[i]).value_or(0);
    }
    return table;
}

ClassKnobTable read_class_knobs(Section& root) {
    ClassKnobTable table = default_class_knobs();
    Section classes = root.child("class");
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        Section section = classes.child(base::token(traffic_class));
        read_knobs(section, table[base::index_of(traffic_class)]);
    }
    classes.finish();
    return table;
}

std::vector<std::string> changed_class_knobs(const ClassKnobTable& from, const ClassKnobTable& to) {
    std::vector<std::string> keys;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const ClassKnobs& left = from[base::index_of(traffic_class)];
        const ClassKnobs& right = to[base::index_of(traffic_class)];
        const std::string path = "class." + std::string(base::token(traffic_class)) + ".";
        const auto compare = [&keys, &path](std::string_view key, bool is_equal) {
            if (!is_equal) {
                keys.push_back(path + std::string(key));
            }
        };
        compare("hold_ms", left.hold == right.hold);
        compare("min_bytes", left.min_bytes == right.min_bytes);
        compare("max_bytes", left.max_bytes == right.max_bytes);
        compare("fill", left.fill_percent == right.fill_percent);
        compare("dscp", left.dscp == right.dscp);
        compare("compression", left.compression == right.compression);
        compare("resequence_ms", left.resequence == right.resequence);
        compare("striping", left.striping == right.striping);
    }
    return keys;
}

std::string render_class_knobs(const ClassKnobTable& knobs, std::string_view direction) {
    std::string text;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const ClassKnobs& own = knobs[base::index_of(traffic_class)];
        const bool first = base::index_of(traffic_class) == 0;
        const auto comment = [first](std::string_view words) {
            return first ? words : std::string_view();
        };
        text += first ? "" : "\n";
        text += line("[class." + std::string(base::token(traffic_class)) + "]",
                     comment("what this end sends (" + std::string(direction) + ")"));
        text += line("hold_ms = " + milliseconds_text(own.hold),
                     comment("longest wait for more packets"));
        text += line("min_bytes = " + std::to_string(own.min_bytes),
                     comment("hold until this size or hold_ms"));
        text += line("max_bytes = " + std::to_string(own.max_bytes),
                     comment("outer datagram; 0: path MTU"));
        text += line("fill = " + fill_text(own), comment("or \"70%\""));
        text += line("dscp = " + quote(dscp_text(own.dscp)), comment("of outer datagrams"));
        text += line("compression = " + compression_text(own.compression),
                     comment("auto | off | 1 to 19"));
        text += line("resequence_ms = " + milliseconds_text(own.resequence),
                     comment("mode packet: longest wait for earlier packets that arrive here"));
        text += line("striping = " + quote(striping_text(own.striping)),
                     comment("packet | data+ack | data | ack"));
    }
    return text;
}

std::string dscp_text(uint8_t dscp) {
    constexpr std::array<std::string_view, 23> kNames = {
        "be",   "cs1",  "cs2",  "cs3",  "cs4",  "cs5",  "cs6",  "cs7",
        "ef",   "va",   "le",   "af11", "af12", "af13", "af21", "af22",
        "af23", "af31", "af32", "af33", "af41", "af42", "af43"};
    for (const std::string_view name : kNames) {
        if (parse_dscp(name) == dscp) {
            return std::string(name);
        }
    }
    return std::to_string(dscp);
}

}  // namespace continuo::config
