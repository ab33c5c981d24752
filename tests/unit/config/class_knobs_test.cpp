#include "common/config/class_knobs.hpp"

#include <gtest/gtest.h>

namespace continuo::config {
namespace {

using base::milliseconds;
using base::TrafficClass;

ClassKnobTable read(std::string_view text, std::vector<Diagnostic>* diagnostics = nullptr) {
    DiagnosticSink sink("f.toml");
    ClassKnobTable knobs = default_class_knobs();
    if (const auto tree = parse_toml(text, sink)) {
        Section root(*tree, "", sink);
        knobs = read_class_knobs(root);
    }
    const auto found = sink.take();
    if (diagnostics != nullptr) {
        *diagnostics = found;
    } else {
        EXPECT_TRUE(found.empty()) << to_text(found.front());
    }
    return knobs;
}

TEST(ClassKnobs, HaveTheDefaultsOfTheDesign) {
    const ClassKnobTable knobs = default_class_knobs();
    EXPECT_EQ(knobs[base::index_of(TrafficClass::LtLd)].hold, milliseconds(5));
    EXPECT_EQ(knobs[base::index_of(TrafficClass::HtLd)].hold, milliseconds(10));
    EXPECT_EQ(knobs[base::index_of(TrafficClass::LtHd)].hold, milliseconds(100));
    EXPECT_EQ(knobs[base::index_of(TrafficClass::HtHd)].hold, milliseconds(20));
    EXPECT_EQ(knobs[0].dscp, 46);
    EXPECT_EQ(knobs[1].dscp, 34);
    EXPECT_EQ(knobs[2].dscp, 18);
    EXPECT_EQ(knobs[3].dscp, 8);
    EXPECT_EQ(knobs[0].resequence, base::Duration(0)) << "low delay waits for nothing";
    EXPECT_EQ(knobs[3].resequence, milliseconds(200));
    EXPECT_FALSE(knobs[0].fill_percent);
    EXPECT_EQ(knobs[0].compression.mode, Compression::Mode::Auto);
}

TEST(ClassKnobs, ReadEveryKey) {
    const ClassKnobs knobs =
        read("[class.ht-hd]\nhold_ms = 2.5\nmin_bytes = 500\nmax_bytes = 1500\n"
             "fill = \"70%\"\ndscp = 12\ncompression = 9\nresequence_ms = 350\n"
             "striping = \"data+ack\"\n")[3];
    EXPECT_EQ(knobs.hold, base::microseconds(2500));
    EXPECT_EQ(knobs.min_bytes, 500U);
    EXPECT_EQ(knobs.max_bytes, 1500U);
    EXPECT_EQ(knobs.fill_percent, 70);
    EXPECT_EQ(knobs.dscp, 12);
    EXPECT_EQ(knobs.resequence, milliseconds(350));
    EXPECT_EQ(knobs.striping, base::Striping::DataAck);
    EXPECT_EQ(knobs.compression, (Compression{Compression::Mode::Level, 9}));
    EXPECT_EQ(read("[class.lt-ld]\nhold_ms = \"50us\"\n")[0].hold, base::microseconds(50));
    EXPECT_EQ(read("[class.lt-ld]\ncompression = \"off\"\n")[0].compression.mode,
              Compression::Mode::Off);
}

TEST(ClassKnobs, KeepTheDefaultWhereTheValueIsWrong) {
    std::vector<Diagnostic> diagnostics;
    const ClassKnobTable knobs =
        read("[class.lt-ld]\nhold_ms = 1e300\ncompression = \"fast\"\n", &diagnostics);
    EXPECT_EQ(knobs, default_class_knobs());
    ASSERT_EQ(diagnostics.size(), 2U);
    EXPECT_EQ(to_text(diagnostics[0]),
              "f.toml:2:11: error: \"hold_ms\" is 1e300; expected a number of ms from 0 to 10000");
}

TEST(ClassKnobs, GoRoundThroughTheirText) {
    ClassKnobTable knobs = default_class_knobs();
    knobs[1] = {base::microseconds(2500),     100, 1400, uint8_t{70}, 12,
                {Compression::Mode::Level, 3}};
    knobs[2].compression.mode = Compression::Mode::Off;
    knobs[2].resequence = milliseconds(70);
    knobs[3].striping = base::Striping::DataAck;
    EXPECT_EQ(read(render_class_knobs(knobs, "up")), knobs);
}

TEST(ClassKnobs, NameWhatChanged) {
    ClassKnobTable changed = default_class_knobs();
    changed[0].hold = milliseconds(7);
    changed[3].compression.mode = Compression::Mode::Off;
    EXPECT_EQ(changed_class_knobs(default_class_knobs(), changed),
              (std::vector<std::string>{"class.lt-ld.hold_ms", "class.ht-hd.compression"}));
    EXPECT_TRUE(changed_class_knobs(changed, changed).empty());
}

TEST(ClassKnobs, NameEveryCodePointOrItsNumber) {
    EXPECT_EQ(dscp_text(46), "ef");
    EXPECT_EQ(dscp_text(12), "af12");
    EXPECT_EQ(dscp_text(63), "63");
}

}  // namespace
}  // namespace continuo::config
