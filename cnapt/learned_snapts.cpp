#include "cnapt/learned_snapts.hpp"

#include "common/report/json.hpp"
#include "common/report/json_value.hpp"

#include <algorithm>

namespace continuo::cnapt {

namespace {

constexpr report::JsonLimits kFileLimits = {size_t{64} * 1024, 1024, 8};

bool is_name(const std::string& text) {
    return !config::check_name(text);
}

// What says something to this host alone is nothing that a SNAPT could know.
bool is_reachable(const base::IpAddress& address) {
    return config::is_unicast(address) && !address.is_loopback() && !address.is_link_local();
}

std::vector<config::HostPort> addresses_of(const control::DirectoryEntry& entry) {
    std::vector<std::string> texts;
    for (const base::Endpoint& endpoint : entry.addresses) {
        texts.push_back(endpoint.to_string());
    }
    for (const control::HostName& host : entry.names) {
        texts.push_back(host.name + ":" + std::to_string(host.port));
    }
    std::vector<config::HostPort> addresses;
    for (const std::string& text : texts) {
        const auto address = config::HostPort::parse(text);
        if (!address ||
            std::find(addresses.begin(), addresses.end(), *address) != addresses.end()) {
            continue;
        }
        const auto endpoint = address->endpoint();
        if (!endpoint || is_reachable(endpoint->address)) {
            addresses.push_back(*address);
        }
    }
    return addresses;
}

constexpr double kPermille = 1000;

}  // namespace

bool LearnedSnapts::learn(const std::string& name, LearnedSnapt snapt) {
    const auto known = all_.find(name);
    if (known == all_.end()) {
        if (all_.size() == kMaxLearnedSnapts) {
            ++left_out_;
            return false;
        }
        all_.emplace(name, std::move(snapt));
        return true;
    }
    const bool is_other = known->second.addresses != snapt.addresses;
    known->second.addresses = std::move(snapt.addresses);
    return is_other;
}

bool LearnedSnapts::take(const std::string& teller, const control::Directory& directory) {
    const bool may_teach = configured_.contains(teller);
    bool has_changed = false;
    std::set<std::string> told;
    for (const control::DirectoryEntry& entry : directory.entries) {
        auto addresses = addresses_of(entry);
        if (entry.realm != realm_ || !is_name(entry.snapt) || addresses.empty()) {
            ++left_out_;
            continue;
        }
        if (may_teach && !configured_.contains(entry.snapt)) {
            has_changed = learn(entry.snapt, {std::move(addresses), teller}) || has_changed;
        }
        if (is_known(entry.snapt)) {
            told.insert(entry.snapt);
            offers_[entry.snapt] = {std::min(entry.load_permille / kPermille, 1.0),
                                    entry.price_permille / kPermille};
        }
    }
    if (may_teach) {
        std::set<std::string>& before = told_[teller];
        has_changed = has_changed || told != before;
        before = std::move(told);
    }
    return has_changed;
}

bool LearnedSnapts::is_listed(const std::string& name) const {
    const auto learned = all_.find(name);
    if (learned == all_.end()) {
        return configured_.contains(name);
    }
    return !told_.contains(learned->second.told_by) ||
           std::any_of(told_.begin(), told_.end(),
                       [&name](const auto& teller) { return teller.second.contains(name); });
}

SnaptOffer LearnedSnapts::offer(const std::string& name) const {
    const auto found = offers_.find(name);
    return found == offers_.end() ? SnaptOffer{} : found->second;
}

std::string LearnedSnapts::text() const {
    report::JsonWriter json;
    json.begin_array();
    for (const auto& [name, snapt] : all_) {
        if (!is_listed(name)) {
            continue;
        }
        json.begin_object();
        json.field("name", name);
        json.field("told_by", snapt.told_by);
        json.key("addresses").begin_array();
        for (const config::HostPort& address : snapt.addresses) {
            json.string(address.to_string());
        }
        json.end_array();
        json.end_object();
    }
    json.end_array();
    return json.take() + "\n";
}

void LearnedSnapts::restore(std::string_view text) {
    const auto list = report::JsonValue::parse(text, kFileLimits);
    if (!list) {
        return;
    }
    for (const report::JsonValue& row : list->items()) {
        const std::string name = row.text("name");
        LearnedSnapt snapt;
        snapt.told_by = row.text("told_by");
        for (const report::JsonValue& address : row["addresses"].items()) {
            if (auto parsed = config::HostPort::parse(address.string().value_or(""))) {
                snapt.addresses.push_back(std::move(*parsed));
            }
        }
        if (is_name(name) && !configured_.contains(name) && configured_.contains(snapt.told_by) &&
            !snapt.addresses.empty()) {
            static_cast<void>(learn(name, std::move(snapt)));
        }
    }
}

}  // namespace continuo::cnapt
