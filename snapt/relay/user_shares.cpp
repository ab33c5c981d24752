#include "snapt/relay/user_shares.hpp"

#include <algorithm>

namespace continuo::snapt::relay {

// A later session continues an account's meter, if its share was kept.
UserShare& UserShares::join(const SessionGrant& grant) {
    UserShare& share = shares_[grant.user];
    share.tracked = &connections_.share_of(grant.user);
    if (share.meter == nullptr || share.meter->account().id != grant.account_id) {
        share.meter = grant.meter != nullptr ? grant.meter
                                             : std::make_shared<accounting::UserMeter>(
                                                   store::Account{grant.account_id, grant.user});
        share.flows.count_into(&share.meter->counter());
    }
    apply_rate(share);
    return share;
}

void UserShares::remove(NodeSession& node) {
    std::erase(node.share->nodes, &node);
    if (node.share->nodes.empty()) {
        drop_idle();
    }
}

void UserShares::apply_rate(UserShare& share) {
    const uint64_t throttled = share.meter->throttled_bits_per_s();
    share.throttled_bits_per_s = throttled;
    uint64_t rate = bits_per_s_;
    rate = rate == 0 || throttled == 0 ? std::max(rate, throttled) : std::min(rate, throttled);
    if (rate == share.down_rate.bits_per_s()) {
        return;
    }
    // Debt at the former rate would delay the new one.
    share.down_rate = base::TokenBucket(kDownBurst);
    share.up_rate = base::TokenBucket(kUpBurst);
    share.down_rate.set_rate(rate);
    share.up_rate.set_rate(rate);
    for (NodeSession* node : share.nodes) {
        node->session.set_class_settings(classes_of(share));
        engine_.touch(node->session);
    }
}

void UserShares::follow_new_rate(UserShare& share) {
    apply_rate(share);
    if (share.throttled_bits_per_s != 0) {
        events_.on_credit_used();
    }
}

// A short queue: beyond what TCP needs it only adds delay.
UserShares::Classes UserShares::classes_of(const UserShare& share) const {
    Classes classes = classes_;
    const uint64_t rate = share.down_rate.bits_per_s();
    if (rate != 0) {
        const uint64_t bytes = rate / 8 * static_cast<uint64_t>(base::to_ms(kRateQueue)) / 1000;
        for (session::ClassSettings& one : classes) {
            one.queue_bytes = std::min(one.queue_bytes, std::max(bytes, kLeastRateQueue));
        }
    }
    return classes;
}

void UserShares::set_classes(const Classes& classes) {
    classes_ = classes;
    for (auto& entry : shares_) {
        for (NodeSession* node : entry.second.nodes) {
            node->session.set_class_settings(classes_of(entry.second));
        }
    }
}

void UserShares::look(const std::function<void(UserShare&)>& stop) {
    for (auto& entry : shares_) {
        UserShare& share = entry.second;
        apply_rate(share);
        if (!share.meter->is_stopped()) {
            share.is_stopped = false;
        } else if (!share.is_stopped) {
            stop(share);
        }
    }
    drop_idle();
}

void UserShares::drop_idle() {
    std::erase_if(shares_, [](const auto& entry) {
        const UserShare& share = entry.second;
        // Without it a user with a used-up quota would start with nothing used, until its records
        // are read.
        const bool acts = share.meter != nullptr &&
                          (share.meter->is_stopped() || share.meter->throttled_bits_per_s() != 0);
        return share.nodes.empty() && !acts;
    });
    connections_.drop_empty([this](const std::string& user) { return shares_.contains(user); });
}

size_t UserShares::running_flows() const {
    size_t count = 0;
    for (const auto& entry : shares_) {
        count += entry.second.flows.running();
    }
    return count;
}

}  // namespace continuo::snapt::relay
