#include "cnapt/settings/node_id.hpp"

#include "common/base/log.hpp"
#include "common/config/base64.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"

#include <algorithm>

namespace continuo::cnapt::settings {

namespace {

constexpr size_t kMaxFileBytes = 256;

std::optional<control::NodeId> parse_node_id(std::string_view text) {
    text = text.substr(0, std::min(text.find('\n'), text.size()));
    const auto bytes = config::from_base64(text);
    if (!bytes || bytes->size() != control::kNodeIdBytes) {
        return std::nullopt;
    }
    control::NodeId id{};
    std::copy(bytes->begin(), bytes->end(), id.begin());
    return id;
}

}  // namespace

std::optional<control::NodeId> read_node_id(const std::string& path) {
    const auto text = io::read_file(path, kMaxFileBytes);
    return text ? parse_node_id(*text) : std::nullopt;
}

control::NodeId load_node_id(const std::string& path, base::Random& random) {
    if (const auto id = read_node_id(path)) {
        return *id;
    }
    control::NodeId id{};
    random.fill(id);
    if (const auto written = io::write_file_atomically(path, config::to_base64(id) + "\n");
        !written) {
        base::log(base::LogLevel::Warning, "cannot write %s: %s", path.c_str(),
                  daemon::describe(written.error()).c_str());
    }
    return id;
}

}  // namespace continuo::cnapt::settings
