#include "snapt/settings/directory.hpp"

#include "common/base/log.hpp"
#include "common/control/no_forwarding.hpp"

#include <algorithm>

namespace continuo::snapt::settings {

namespace {

constexpr size_t kLoadSteps = 10;
constexpr size_t kFullLoad = 1000;
static_assert(kMaxOtherSnapts + 1 == control::kMaxDirectoryEntries);

control::DirectoryEntry entry_of(const std::string& name,
                                 const std::string& realm,
                                 const std::vector<config::HostPort>& addresses) {
    control::DirectoryEntry entry;
    entry.snapt = name;
    entry.realm = realm;
    for (const config::HostPort& address : addresses) {
        if (entry.addresses.size() + entry.names.size() == control::kMaxDirectoryAddresses) {
            base::log(base::LogLevel::Warning, "directory: %s: no more than %zu addresses are told",
                      name.c_str(), control::kMaxDirectoryAddresses);
            break;
        }
        if (const auto endpoint = address.endpoint()) {
            entry.addresses.push_back(*endpoint);
        } else {
            entry.names.push_back({address.host, address.port});
        }
    }
    return entry;
}

bool fits(const control::Directory& directory) {
    std::vector<uint8_t> bytes;
    return control::append_message(bytes, directory).has_value();
}

}  // namespace

uint16_t load_permille(size_t sessions, size_t limit) {
    const size_t steps = limit == 0 ? 0 : std::min(sessions * kLoadSteps / limit, kLoadSteps);
    return static_cast<uint16_t>(steps * kFullLoad / kLoadSteps);
}

control::Directory
make_directory(const SnaptConfig& config, uint16_t load, control::VersionSet no_way_out) {
    control::Directory directory;
    directory.entries.push_back(entry_of(config.name, config.realm, config.public_addresses));
    directory.entries.front().load_permille = load;
    directory.entries.front().price_permille = config.accounting.price_permille;
    directory.entries.front().no_way_out = no_way_out;
    for (const config::SnaptEntry& other : config.snapts) {
        directory.entries.push_back(entry_of(other.name, config.realm, other.addresses));
    }
    size_t left_out = 0;
    for (; directory.entries.size() > 1 && !fits(directory); ++left_out) {
        directory.entries.pop_back();
    }
    if (left_out != 0) {
        base::log(base::LogLevel::Warning, "directory: too long, the last %zu SNAPTs are left out",
                  left_out);
    }
    return directory;
}

void set_no_forwarding(control::Directory& directory) {
    directory.entries.front().load_permille = kFullLoad;
    directory.entries.front().price_permille = control::kNoForwardingPrice;
}

}  // namespace continuo::snapt::settings
