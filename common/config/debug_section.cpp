#include "common/config/debug_section.hpp"

namespace continuo::config {

namespace {

constexpr uint64_t kMinCaptureBytes = 65'536;
constexpr uint64_t kMaxCaptureBytes = uint64_t{1} << 40U;

// The daemon's own folder must not be chosen.
std::optional<std::string_view> check_absolute_path(std::string_view text) {
    return text.starts_with('/') && !text.ends_with('/')
               ? std::nullopt
               : std::optional<std::string_view>("an absolute path of a file");
}

}  // namespace

DebugConfig read_debug(Section& root) {
    Section section = root.child("debug");
    DebugConfig debug;
    debug.capture_file = section.text("capture_file", "", check_absolute_path);
    debug.capture_limit_bytes = section.size_bytes("capture_limit_bytes", debug.capture_limit_bytes,
                                                   kMinCaptureBytes, kMaxCaptureBytes);
    debug.capture_keys_file = section.text("capture_keys_file", "", check_absolute_path);
    debug.capture_file_place = section.place_of("capture_file");
    debug.capture_keys_file_place = section.place_of("capture_keys_file");
    if (!debug.capture_file.empty() && debug.capture_file == debug.capture_keys_file) {
        section.error("capture_keys_file", R"("capture_keys_file" is the "capture_file")",
                      "another file");
    }
    section.finish();
    return debug;
}

std::vector<std::string> changed_debug_keys(const DebugConfig& from, const DebugConfig& to) {
    std::vector<std::string> keys;
    if (from.capture_file != to.capture_file) {
        keys.emplace_back("debug.capture_file");
    }
    if (from.capture_limit_bytes != to.capture_limit_bytes) {
        keys.emplace_back("debug.capture_limit_bytes");
    }
    if (from.capture_keys_file != to.capture_keys_file) {
        keys.emplace_back("debug.capture_keys_file");
    }
    return keys;
}

}  // namespace continuo::config
