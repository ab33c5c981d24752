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

// Whoever told of it first says where it is, for as long as that one tells of it at all.
bool LearnedSnapts::learn(const std::string& name,
                          std::vector<config::HostPort> addresses,
                          const std::string& teller) {
    const auto known = all_.find(name);
    if (known == all_.end()) {
        if (all_.size() + configured_.size() >= kMaxSnapts) {
            ++left_out_;
            return false;
        }
        all_.emplace(name, LearnedSnapt{std::move(addresses), teller, true});
        return true;
    }
    LearnedSnapt& snapt = known->second;
    const auto first = told_.find(snapt.told_by);
    const bool is_still_told = first == told_.end() || first->second.contains(name);
    if (snapt.told_by != teller && is_still_told) {
        return false;
    }
    const bool is_other = snapt.addresses != addresses || snapt.told_by != teller;
    snapt.addresses = std::move(addresses);
    snapt.told_by = teller;
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
        if (entry.snapt == teller) {
            offers_[teller] = {std::min(entry.load_permille / kPermille, 1.0),
                               entry.price_permille / kPermille};
        } else if (may_teach && !configured_.contains(entry.snapt)) {
            has_changed = learn(entry.snapt, std::move(addresses), teller) || has_changed;
            told.insert(entry.snapt);
        }
    }
    if (may_teach) {
        told_[teller] = std::move(told);
    }
    for (auto& [name, snapt] : all_) {
        const bool is_told =
            std::any_of(told_.begin(), told_.end(),
                        [&name = name](const auto& any) { return any.second.contains(name); });
        const bool is_unheard = !told_.contains(snapt.told_by);
        const bool is_listed = is_told || (is_unheard && snapt.is_listed);
        has_changed = has_changed || is_listed != snapt.is_listed;
        snapt.is_listed = is_listed;
    }
    return has_changed;
}

bool LearnedSnapts::is_listed(const std::string& name) const {
    const auto learned = all_.find(name);
    return learned == all_.end() ? configured_.contains(name) : learned->second.is_listed;
}

SnaptOffer LearnedSnapts::offer(const std::string& name) const {
    const auto found = offers_.find(name);
    return found == offers_.end() ? SnaptOffer{} : found->second;
}

std::string LearnedSnapts::text() const {
    report::JsonWriter json;
    json.begin_array();
    for (const auto& [name, snapt] : all_) {
        json.begin_object();
        json.field("name", name);
        json.field("told_by", snapt.told_by);
        json.field("listed", snapt.is_listed);
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
        snapt.is_listed = row["listed"].boolean().value_or(true);
        for (const report::JsonValue& address : row["addresses"].items()) {
            if (auto parsed = config::HostPort::parse(address.string().value_or(""))) {
                snapt.addresses.push_back(std::move(*parsed));
            }
        }
        if (is_name(name) && !configured_.contains(name) && configured_.contains(snapt.told_by) &&
            !snapt.addresses.empty() && all_.size() + configured_.size() < kMaxSnapts) {
            all_.emplace(name, std::move(snapt));
        }
    }
}

}  // namespace continuo::cnapt
