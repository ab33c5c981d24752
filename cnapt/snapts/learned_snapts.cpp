#include "cnapt/snapts/learned_snapts.hpp"

#include "cnapt/uplinks/near_links.hpp"
#include "common/report/json.hpp"
#include "common/report/json_value.hpp"

#include <algorithm>
#include <array>

namespace continuo::cnapt::snapts {

namespace {

constexpr report::JsonLimits kFileLimits = {size_t{64} * 1024, 1024, 8};

bool is_name(const std::string& text) {
    return !config::check_name(text);
}

std::vector<config::HostPort> addresses_of(const control::DirectoryEntry& entry,
                                           bool may_be_private) {
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
        if (!endpoint || may_call(endpoint->address, may_be_private)) {
            addresses.push_back(*address);
        }
    }
    return addresses;
}

constexpr double kPermille = 1000;

// The IPv4 address that an IPv6 address contains: mapped or compatible (RFC 4291), NAT64 (RFC
// 6052).
std::optional<base::IpAddress> embedded_v4(const base::IpAddress& address) {
    static const std::array prefixes = {base::IpPrefix::parse("::/96").value(),
                                        base::IpPrefix::parse("::ffff:0:0/96").value(),
                                        base::IpPrefix::parse("64:ff9b::/96").value()};
    constexpr size_t kAt = 12;
    if (std::none_of(prefixes.begin(), prefixes.end(),
                     [&](const base::IpPrefix& prefix) { return prefix.contains(address); })) {
        return std::nullopt;
    }
    uint32_t value = 0;
    for (size_t i = kAt; i < address.octets.size(); ++i) {
        value = value << 8 | address.octets[i];
    }
    return base::IpAddress::v4(value);
}

}  // namespace

bool may_call(const base::IpAddress& address, bool may_be_private) {
    if (const auto embedded = embedded_v4(address)) {
        return may_call(*embedded, may_be_private);
    }
    constexpr uint8_t kFirstReserved = 240;
    const bool is_reserved =
        address.is_v4() && (address.octets[0] == 0 || address.octets[0] >= kFirstReserved);
    return config::is_unicast(address) && !is_reserved && !address.is_loopback() &&
           !address.is_link_local() && (may_be_private || !uplinks::is_private(address));
}

// The address comes from the SNAPT that listed it first, for as long as that one lists it.
bool LearnedSnapts::learn(const std::string& name, LearnedSnapt told) {
    const auto known = all_.find(name);
    if (known == all_.end()) {
        if (all_.size() + configured_.size() >= kMaxSnapts) {
            ++left_out_;
            return false;
        }
        all_.emplace(name, std::move(told));
        return true;
    }
    LearnedSnapt& snapt = known->second;
    const auto first = told_.find(snapt.told_by);
    const bool is_still_told = first == told_.end() || first->second.contains(name);
    if (snapt.told_by != told.told_by && is_still_told) {
        return false;
    }
    told.is_listed = snapt.is_listed;
    const bool is_other = snapt != told;
    snapt = std::move(told);
    return is_other;
}

bool LearnedSnapts::take(const std::string& teller,
                         const control::Directory& directory,
                         bool is_teller_private) {
    const bool may_teach = configured_.contains(teller);
    bool has_changed = false;
    std::set<std::string> told;
    for (const control::DirectoryEntry& entry : directory.entries) {
        auto addresses = addresses_of(entry, is_teller_private);
        if (entry.realm != realm_ || !is_name(entry.snapt) || addresses.empty()) {
            ++left_out_;
            continue;
        }
        if (entry.snapt == teller) {
            offers_[teller] = {std::min(entry.load_permille / kPermille, 1.0),
                               entry.price_permille / kPermille, entry.no_way_out};
        } else if (may_teach && !configured_.contains(entry.snapt)) {
            has_changed =
                learn(entry.snapt, {std::move(addresses), teller, is_teller_private, true}) ||
                has_changed;
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
        json.field("private", snapt.may_be_private);
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
        snapt.may_be_private = row["private"].boolean().value_or(false);
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

}  // namespace continuo::cnapt::snapts
