#include "snapt/settings/snapt_config.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::settings {
namespace {

void note(std::vector<std::string>& keys, std::string_view key, bool is_equal) {
    if (!is_equal) {
        keys.emplace_back(key);
    }
}

void compare_top(const SnaptConfig& from, const SnaptConfig& to, std::vector<std::string>& keys) {
    note(keys, "name", from.name == to.name);
    note(keys, "realm", from.realm == to.realm);
    note(keys, "identity_key", from.identity_key == to.identity_key);
    note(keys, "listen", from.listen == to.listen);
    note(keys, "public", from.public_addresses == to.public_addresses);
    note(keys, "protection", from.protection == to.protection);
    note(keys, "workers", from.workers == to.workers);
    note(keys, "spin_us", from.spin_us == to.spin_us);
}

void compare_network(const SnaptConfig& from,
                     const SnaptConfig& to,
                     std::vector<std::string>& keys) {
    note(keys, "inner.device", from.inner.device == to.inner.device);
    note(keys, "inner.ipv4", from.inner.ipv4 == to.inner.ipv4);
    note(keys, "inner.ipv6", from.inner.ipv6 == to.inner.ipv6);
    note(keys, "inner.mtu", from.inner.mtu == to.inner.mtu);
    note(keys, "inner.lease_s", from.inner.lease == to.inner.lease);
    note(keys, "relay.egress", from.relay.egress == to.relay.egress);
    note(keys, "relay.source_pool", from.relay.source_pool == to.relay.source_pool);
    note(keys, "relay.source_ports", from.relay.source_ports == to.relay.source_ports);
    note(keys, "relay.allow", from.relay.allow == to.relay.allow);
    note(keys, "relay.deny", from.relay.deny == to.relay.deny);
    note(keys, "relay.allow_self", from.relay.allow_self == to.relay.allow_self);
    note(keys, "relay.set_forwarding", from.relay.set_forwarding == to.relay.set_forwarding);
    note(keys, "session.rekey_s", from.session.rekey == to.session.rekey);
    note(keys, "session.rekey_datagrams",
         from.session.rekey_datagrams == to.session.rekey_datagrams);
    note(keys, "session.keepalive_s", from.session.keepalive == to.session.keepalive);
    note(keys, "session.idle_timeout_s", from.session.idle_timeout == to.session.idle_timeout);
}

void compare_accounting(const AccountingConfig& from,
                        const AccountingConfig& to,
                        std::vector<std::string>& keys) {
    note(keys, "accounting.interval_s", from.interval_s == to.interval_s);
    note(keys, "accounting.checkpoint_s", from.checkpoint_s == to.checkpoint_s);
    note(keys, "accounting.granularity", from.granularity == to.granularity);
    note(keys, "accounting.destinations", from.destinations == to.destinations);
    note(keys, "accounting.retention_days", from.retention_days == to.retention_days);
    note(keys, "accounting.live_slots", from.live_slots == to.live_slots);
    note(keys, "accounting.user_records", from.user_records == to.user_records);
    note(keys, "accounting.min_free_bytes", from.min_free_bytes == to.min_free_bytes);
    note(keys, "accounting.price_mult", from.price_permille == to.price_permille);
}

void compare_limits(const SnaptLimits& from,
                    const SnaptLimits& to,
                    std::vector<std::string>& keys) {
    note(keys, "limits.user_sessions", from.user_sessions == to.user_sessions);
    note(keys, "limits.user_flows", from.user_flows == to.user_flows);
    note(keys, "limits.user_rate_bits_per_s", from.user_rate_bits_per_s == to.user_rate_bits_per_s);
    note(keys, "limits.sessions", from.sessions == to.sessions);
    note(keys, "limits.queue_bytes", from.queue_bytes == to.queue_bytes);
}

}  // namespace

ConfigChanges changes_between(const SnaptConfig& running, const SnaptConfig& fresh) {
    ConfigChanges changes;
    compare_top(running, fresh, changes.needs_restart);
    compare_network(running, fresh, changes.needs_restart);
    compare_accounting(running.accounting, fresh.accounting, changes.needs_restart);
    const auto debug = config::changed_debug_keys(running.debug, fresh.debug);
    changes.needs_restart.insert(changes.needs_restart.end(), debug.begin(), debug.end());
    changes.applied = config::changed_class_knobs(running.classes, fresh.classes);
    compare_limits(running.limits, fresh.limits, changes.applied);
    note(changes.applied, "snapt", running.snapts == fresh.snapts);
    note(changes.needs_restart, "rest.listen", running.rest.listen == fresh.rest.listen);
    note(changes.needs_restart, "limits.flows", running.limits.flows == fresh.limits.flows);
    return changes;
}

}  // namespace continuo::snapt::settings
