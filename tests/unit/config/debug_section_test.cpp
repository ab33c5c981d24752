#include "common/config/debug_section.hpp"

#include <gtest/gtest.h>

namespace continuo::config {
namespace {

DebugConfig read(std::string_view text) {
    DiagnosticSink sink("f.toml");
    const auto tree = parse_toml(text, sink);
    Section root(*tree, "", sink);
    DebugConfig debug = read_debug(root);
    root.finish();
    EXPECT_FALSE(sink.has_errors());
    return debug;
}

TEST(DebugSection, RecordsNothingUnlessAsked) {
    EXPECT_EQ(read(""), DebugConfig());
    EXPECT_EQ(read("[debug]\n"), DebugConfig());
    EXPECT_TRUE(DebugConfig().capture_file.empty());
    EXPECT_TRUE(DebugConfig().capture_keys_file.empty());
}

TEST(DebugSection, KnowsWhereItsFilesAreNamed) {
    const DebugConfig debug = read("[debug]\n"
                                   "capture_file = \"/a\"\n"
                                   "capture_limit_bytes = \"1MiB\"\n"
                                   "  capture_keys_file = \"/b\"\n");
    EXPECT_EQ(debug.capture_file, "/a");
    EXPECT_EQ(debug.capture_limit_bytes, uint64_t{1} << 20);
    EXPECT_EQ(debug.capture_keys_file, "/b");
    EXPECT_EQ(debug.capture_file_place, (Place{2, 16}));
    EXPECT_EQ(debug.capture_keys_file_place, (Place{4, 23}));
}

TEST(DebugSection, IsTheSameWhereverItStands) {
    EXPECT_EQ(read("[debug]\ncapture_file = \"/a\"\n"),
              read("\n\n[debug]\n  capture_file = \"/a\"\n"));
}

TEST(DebugSection, NamesWhatChanged) {
    const DebugConfig from = read("[debug]\ncapture_file = \"/a\"\n");
    const DebugConfig to = read("[debug]\ncapture_limit_bytes = 65536\ncapture_keys_file = \"/b\"");
    EXPECT_TRUE(changed_debug_keys(from, from).empty());
    EXPECT_EQ(changed_debug_keys(from, to),
              (std::vector<std::string>{"debug.capture_file", "debug.capture_limit_bytes",
                                        "debug.capture_keys_file"}));
}

}  // namespace
}  // namespace continuo::config
