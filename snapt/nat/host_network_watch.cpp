// Changes by others to the host's rules and parameters while the SNAPT runs. Our part is restored;
// until then packets of nodes cannot leave (nat_guard.hpp).
#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "common/netfilter/netfilter.hpp"
#include "snapt/nat/host_network.hpp"
#include "snapt/nat/nat.hpp"
#include "snapt/nat/nat_limit.hpp"
#include "snapt/nat/relay_check.hpp"
#include "snapt/nat/written_print.hpp"

#include <algorithm>
#include <chrono>

namespace continuo::snapt::nat {

using base::log;
using base::LogLevel;
using daemon::describe;

namespace {

// A check of others' rules lists whole chains: it may use a twentieth of a processor.
constexpr int kShareOfOthers = 20;
// Changes logged individually per interval; further ones are counted.
constexpr unsigned kMaxSaid = 8;
constexpr base::Duration kSayInterval = base::seconds(60);

std::string bare(const std::string& table) {
    return table.substr(table.find(' ') + 1);
}

base::Result<uint32_t> generation() {
    auto client = CTN_TRY(netfilter::NetfilterClient::open());
    return client.ruleset_generation();
}

std::function<base::Result<uint64_t>()> print_of(const std::string& table) {
    return [name = bare(table)]() -> base::Result<uint64_t> {
        auto client = CTN_TRY(netfilter::NetfilterClient::open());
        return client.fingerprint(name);
    };
}

}  // namespace

base::Result<HostNetwork::Prints> HostNetwork::prints() const {
    auto client = CTN_TRY(netfilter::NetfilterClient::open());
    Prints found;
    const std::string& device = config_.inner.device;
    found.relay = CTN_TRY(client.fingerprint(bare(relay_table(device))));
    found.limit = CTN_TRY(client.fingerprint(bare(limit_table(device))));
    return found;
}

base::Result<void> HostNetwork::write_relay() {
    prints_.relay = 0;
    const auto write = [this]() -> base::Result<uint32_t> {
        CTN_TRY(nft_.apply(build_relay_ruleset(nat_)));
        return 1;
    };
    prints_.relay =
        CTN_TRY(written_print({generation, write, print_of(relay_table(config_.inner.device))}));
    return {};
}

// Returns false if the table has changed and could not be restored.
base::Result<bool> HostNetwork::change_nat(const RelayOptions& nat) {
    bool is_whole = false;
    const auto write = [&]() -> base::Result<uint32_t> {
        is_whole = is_relay_whole();
        if (is_whole) {
            CTN_TRY(nft_.apply(build_nat_ruleset(nat)));
        }
        return is_whole ? 1 : 0;
    };
    const uint64_t print =
        CTN_TRY(written_print({generation, write, print_of(relay_table(config_.inner.device))}, 1));
    if (is_whole) {
        prints_.relay = print;
    }
    return is_whole;
}

// `keeps_counts`: a table with the same limit stays, with its counts.
base::Result<void> HostNetwork::write_limit(uint32_t user_flows, bool keeps_counts) {
    user_flows_ = user_flows;
    prints_.limit = 0;
    const std::string table = limit_table(config_.inner.device);
    if (user_flows == 0) {
        return nft_.remove_table(table);
    }
    const ConnectionCounts counts = connection_counts(user_flows);
    const auto write = [&]() -> base::Result<uint32_t> {
        const auto has = nft_.has_chain(table, limit_chain(counts));
        if (keeps_counts && has && *has) {
            return 0;
        }
        CTN_TRY(nft_.apply(build_limit_ruleset(config_.inner.device, counts)));
        return 1;
    };
    prints_.limit = CTN_TRY(written_print({generation, write, print_of(table)}));
    return {};
}

bool HostNetwork::is_relay_whole(const Prints& found) const {
    return prints_.relay != 0 && found.relay == prints_.relay;
}

bool HostNetwork::is_relay_whole() const {
    const auto now = prints();
    return now && is_relay_whole(*now);
}

bool HostNetwork::is_limit_whole(const Prints& found) const {
    return (prints_.limit != 0 || user_flows_ == 0) && found.limit == prints_.limit;
}

base::Result<void> HostNetwork::watch_tables() {
    const uint32_t now = CTN_TRY(generation());
    if (now == generation_) {
        return {};
    }
    const Prints found = CTN_TRY(prints());
    if (is_relay_whole(found) && is_limit_whole(found)) {
        generation_ = now;
        return {};
    }
    generation_ = 0;  // checked again: restoring is a change, too
    return put_back_tables(found);
}

base::Result<void> HostNetwork::put_back_tables(const Prints& found) {
    const std::string& device = config_.inner.device;
    // An existing table with an unknown print may be unchanged.
    const auto is_changed = [](uint64_t was, uint64_t is) { return was != 0 || is == 0; };
    if (!is_relay_whole(found)) {
        const bool is_said = is_changed(prints_.relay, found.relay);
        CTN_TRY(write_relay());
        if (is_said) {
            say_put_back("nftables table " + relay_table(device));
        }
    }
    if (!is_limit_whole(found)) {
        const bool is_said = is_changed(prints_.limit, found.limit) || user_flows_ == 0;
        CTN_TRY(write_limit(user_flows_, false));
        if (is_said) {
            say_put_back("nftables table " + limit_table(device));
        }
    }
    return {};
}

// Others may change it again and again.
void HostNetwork::say_put_back(const std::string& what) {
    const base::TimePoint now = std::chrono::steady_clock::now();
    if (now - said_from_ >= kSayInterval) {
        if (unsaid_ != 0) {
            log(LogLevel::Warning, "rules and kernel parameters were restored %u more times",
                unsaid_);
        }
        said_from_ = now;
        said_ = 0;
        unsaid_ = 0;
    }
    if (said_ < kMaxSaid) {
        ++said_;
        log(LogLevel::Warning, "%s was changed by another program: restored", what.c_str());
    } else {
        ++unsaid_;
    }
}

// Rules of others, and missing interfaces: only what certainly blocks everything.
std::string HostNetwork::watch_others() {
    const auto now = generation();
    const std::vector<ForwardingPath> paths = this->paths();
    Others others{now ? *now : 0, {}};
    for (const ForwardingPath& path : paths) {
        others.egress.push_back(path.egress);
        if (path.egress.empty() && !config_.relay.egress.empty()) {
            others_ = {};
            return "no interface of relay.egress is there";
        }
    }
    const base::TimePoint begin = std::chrono::steady_clock::now();
    const bool is_known = now && others == others_ && others_trouble_.empty();
    if (is_known || begin < others_free_at_) {
        return others_trouble_;
    }
    others_ = std::move(others);
    others_trouble_.clear();
    for (const ForwardingPath& path : paths) {
        if (others_trouble_.empty() && !path.egress.empty()) {
            others_trouble_ = closing_chain(path);
        }
    }
    const base::TimePoint end = std::chrono::steady_clock::now();
    others_free_at_ = end + kShareOfOthers * (end - begin);
    return others_trouble_;
}

// Hosts that reach all their places without a default route are meant so, and one that begins
// without IPv4 has its way out when it is first seen. IPv6 is told from the start, as leases have
// it by default, except where private places are served alone (`relay.allow`).
std::string HostNetwork::watch_way_out(const ForwardingPath& path) {
    bool& had_it = had_way_out_[path.version == base::IpVersion::V4 ? 0 : 1];
    const std::string why = no_way_out(config_, path.version);
    had_it = had_it || why.empty();
    const bool is_told =
        path.version == base::IpVersion::V6 && !serves_private(config_, path.version);
    return had_it || is_told ? why : "";
}

ForwardingTroubles HostNetwork::watch(bool is_thorough) {
    const std::lock_guard lock(mutex_);
    ForwardingTroubles found;
    if (!is_set_up_) {
        return found;
    }
    Troubles troubles;
    if (const auto tables = watch_tables(); !tables) {
        troubles.push_back("nftables rules are not as they should be (" + describe(tables.error()) +
                           ")");
    }
    watch_parameters(troubles);
    watch_guard(troubles);
    const std::string others = is_thorough ? watch_others() : others_trouble_;
    if (!others.empty()) {
        troubles.push_back(others);
    }
    for (const std::string& trouble : troubles) {
        found.all += (found.all.empty() ? "" : "; ") + trouble;
    }
    for (const ForwardingPath& path : paths()) {
        found.carried.push_back(path.version);
        if (!is_closed(path)) {
            found.of(path.version) = watch_way_out(path);
        }
    }
    found.had_ipv6 = had_way_out_[1];
    return found;
}

}  // namespace continuo::snapt::nat
