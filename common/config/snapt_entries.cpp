#include "common/config/snapt_entries.hpp"

#include "common/config/prefixes.hpp"

#include <algorithm>

namespace continuo::config {

std::vector<SnaptEntry>
read_snapt_entries(Section& root,
                   const std::function<void(Section& section, SnaptEntry& entry)>& read_more) {
    std::vector<SnaptEntry> entries;
    for (Section& section : root.tables("snapt")) {
        SnaptEntry entry;
        entry.name = section.required_text("name", "a SNAPT's name", check_name);
        entry.addresses = read_hosts(section, "addresses");
        if (!section.has("addresses")) {
            section.missing("addresses", "at least one address");
        }
        read_more(section, entry);
        const bool is_repeated =
            !entry.name.empty() &&
            std::any_of(entries.begin(), entries.end(),
                        [&entry](const SnaptEntry& other) { return other.name == entry.name; });
        if (is_repeated) {
            section.error("name", "second [[snapt]] named " + quote(entry.name), "each name once");
        }
        section.finish();
        entries.push_back(std::move(entry));
    }
    return entries;
}

}  // namespace continuo::config
