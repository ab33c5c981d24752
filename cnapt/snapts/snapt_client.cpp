#include "cnapt/snapts/snapt_client.hpp"

#include "cnapt/snapts/allowance_json.hpp"
#include "common/base/log.hpp"
#include "common/crypto/datagram_cipher.hpp"
#include "common/daemon/startup.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace continuo::cnapt::snapts {

using base::log;
using base::LogLevel;
using control_link::ControlUplink;
using control_link::ControlUplinks;
using control_link::LinkEnd;
using daemon::describe;
using links::failure_of;
using links::FailureKind;
using node::Node;
using settings::NodeConfig;
using settings::SnaptEntry;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

// Well within the day of docs/PROTOCOL.md section 4.5.
constexpr base::Duration kFreshHandshake = base::seconds(20 * 3600);
// Least interval of rounds caused by changes of uplinks, for hosts whose network changes all the
// time.
constexpr base::Duration kFewestBetweenRounds = base::seconds(30);
// Time for which a SNAPT is doubted after it said that it does not know the session. A choice, not
// measured.
constexpr base::Duration kDoubtCounts = base::seconds(10);

std::vector<control::ProtectionOffer> offers_of(const NodeConfig& config) {
    using control::ProtectionKind;
    if (config.protection == settings::Protection::Authenticate) {
        return {{ProtectionKind::HmacSha256, config.tag_bytes}};
    }
    if (crypto::has_fast_aes()) {
        return {{ProtectionKind::Aes256Gcm, 16}, {ProtectionKind::ChaCha20Poly1305, 16}};
    }
    return {{ProtectionKind::ChaCha20Poly1305, 16}, {ProtectionKind::Aes256Gcm, 16}};
}

}  // namespace

std::vector<base::Endpoint> resolve(const SnaptEntry& entry,
                                    const names::LookupPlaces& places,
                                    std::vector<std::string>* unknown) {
    std::vector<base::Endpoint> endpoints;
    for (const config::HostPort& address : entry.addresses) {
        if (const auto endpoint = address.endpoint()) {
            endpoints.push_back(*endpoint);
            continue;
        }
        const std::vector<base::IpAddress> found = names::look_up(address.host, places);
        if (found.empty() && unknown != nullptr) {
            unknown->push_back(address.host);
        }
        for (const base::IpAddress& one : found) {
            endpoints.push_back({one, address.port});
        }
    }
    return endpoints;
}

control::ClientParameters login_parameters(const NodeConfig& config,
                                           const SnaptEntry& entry,
                                           const settings::NodeIdentity& identity) {
    control::ClientParameters parameters;
    parameters.identity = {config.identity.user, config.identity.key_id};
    parameters.key = *config.identity.key;
    parameters.realm = config.realm;
    parameters.identity_key = entry.identity_key;
    parameters.expected_snapt = entry.name;
    parameters.hello.versions = {control::kProtocolVersion};
    parameters.hello.node = identity.name;
    parameters.hello.node_id = identity.id;
    parameters.hello.snapt = entry.name;
    parameters.hello.software = "cnapt";
    parameters.hello.offers = offers_of(config);
    parameters.hello.limits = control::kOwnLimits;
    parameters.hello.want_ipv4 = config.capture.ipv4;
    parameters.hello.want_ipv6 = config.capture.ipv6;
    return parameters;
}

SnaptClient::SnaptClient(Node& node,
                         links::SnaptLink& link,
                         control_link::ControlThread& thread,
                         io::EventLoop& loop,
                         Answers answers)
    : node_(node)
    , link_(link)
    , loop_(loop)
    , answers_(std::move(answers))
    , client_(thread, loop, *this) {}

base::Result<void> SnaptClient::start(const NodeConfig& config,
                                      const SnaptEntry& entry,
                                      const settings::NodeIdentity& identity,
                                      std::vector<base::Endpoint> addresses) {
    control_link::ControlClientOptions options;
    options.parameters = login_parameters(config, entry, identity);
    options.parameters.hello.session_id = identity.session_id;
    node_name_ = identity.name;
    options.parameters.hello.wire_session_down = link_.local_id;
    addresses_ = addresses;
    node_.offer_addresses(link_, addresses);
    options.addresses = std::move(addresses);
    options.uplinks = uplinks();
    options.fwmark = config.capture.fwmark;
    options.is_hearsay = link_.is_learned;
    CTN_TRY(client_.start(std::move(options)));
    is_started_ = true;
    return {};
}

ControlUplink SnaptClient::control_uplink(const Uplink& uplink) const {
    return {uplink.interface, uplink.address,
            !node_.uplinks().shares_network(uplink, node_.network())};
}

// While no data flows, an uplink by which the SNAPT was not reached is replaced by the next.
ControlUplinks SnaptClient::uplinks() {
    if (!is_lost()) {
        unreached_.reset();
    }
    const Uplink* v4 = uplink(base::IpVersion::V4);
    const Uplink* v6 = uplink(base::IpVersion::V6);
    if (v4 == nullptr && v6 == nullptr && unreached_.any()) {
        unreached_.reset();  // the round begins anew
        v4 = uplink(base::IpVersion::V4);
        v6 = uplink(base::IpVersion::V6);
    }
    if (v4 != nullptr && v6 != nullptr && is_last_resort(*v4) != is_last_resort(*v6)) {
        (is_last_resort(*v4) ? v4 : v6) = nullptr;
    }
    tried_.reset();
    const auto taken = [this](const Uplink* from) -> std::optional<ControlUplink> {
        if (from == nullptr) {
            return std::nullopt;
        }
        tried_.set(from->slot);
        return control_uplink(*from);
    };
    ControlUplinks uplinks{taken(v4), taken(v6)};
    uplinks.is_race = is_lost();
    if (uplinks.is_race) {
        add_others(uplinks);
    }
    const Uplink* active = link_.active_slot() ? node_.uplinks().at(*link_.active_slot()) : nullptr;
    if (active != nullptr) {
        uplinks.preferred = active->address.version;
    }
    return uplinks;
}

bool SnaptClient::is_last_resort(const Uplink& uplink) const {
    return Uplinks::is_last_resort(uplink, link_.addresses, node_.network());
}

// Uplinks that lead to an address, by rank, beside those in use. One of last resort is used when
// the others failed.
void SnaptClient::add_others(ControlUplinks& uplinks) {
    for (const base::Endpoint& to : addresses_) {
        const uplinks::SnaptAddresses there(to);
        for (;;) {
            const Uplink* other =
                node_.uplinks().best_for(there, node_.network(), unreached_ | tried_);
            if (other == nullptr || !Uplinks::has_route(*other, there, node_.network()) ||
                (is_last_resort(*other) && tried_.any())) {
                break;
            }
            tried_.set(other->slot);
            uplinks.others.push_back(control_uplink(*other));
        }
    }
}

void SnaptClient::on_network_changed() {
    const base::TimePoint now = loop_.now();
    if (unreached_.none() || now - round_began_at_ < kFewestBetweenRounds) {
        return;
    }
    round_began_at_ = now;
    unreached_.reset();
    failed_by_.reset();
    failures_ = 0;
    path_moved();
}

void SnaptClient::connect_by(uint8_t slot) {
    if (const Uplink* uplink = node_.uplinks().at(slot)) {
        client_.connect_by(control_uplink(*uplink));
    }
}

// Follows the data; for the other IP version, and while no data flows, the best route.
const Uplink* SnaptClient::uplink(base::IpVersion version) const {
    const auto to =
        std::find_if(addresses_.begin(), addresses_.end(), [&](const base::Endpoint& endpoint) {
            return endpoint.address.version == version;
        });
    if (to == addresses_.end()) {
        return nullptr;
    }
    Uplinks& uplinks = node_.uplinks();
    const uplinks::SnaptAddresses there(*to);
    const auto leads_there = [&](const Uplink* uplink) {
        return uplink != nullptr && !unreached_.test(uplink->slot) &&
               Uplinks::has_route(*uplink, there, node_.network());
    };
    const Uplink* found = link_.active_slot() ? uplinks.at(*link_.active_slot()) : nullptr;
    if (!leads_there(found)) {
        found = uplinks.best_for(there, node_.network(), unreached_);
    }
    return leads_there(found) ? found : nullptr;
}

void SnaptClient::rekey_if_due(base::TimePoint now) {
    if (!link_.session || !link_.is_control_open || is_rekeying_) {
        return;
    }
    // Forward secrecy: an epoch is no newer than the connection that granted it.
    if (now - connected_at_ >= kFreshHandshake) {
        connected_at_ = now;
        client_.renew();
        return;
    }
    if (link_.session->epochs().wants_rekey() ||
        now - keyed_at_ >= base::seconds(link_.accept.rekey_s)) {
        is_rekeying_ = true;
        client_.request_rekey();
    }
}

void SnaptClient::on_established(const base::Endpoint& remote,
                                 const std::optional<ControlUplink>& from,
                                 const control::Established& established) {
    keyed_at_ = loop_.now();
    connected_at_ = keyed_at_;
    told_failures_.clear();
    is_rekeying_ = false;
    is_session_gone_ = false;
    fail_usage();          // questions asked over the replaced link
    link_.allowance = {};  // it is told anew
    // Another way than the wanted one was faster: that one gives way.
    const std::optional<uint8_t> by = slot_of(from);
    const Uplink* wanted = uplink(remote.address.version);
    if (by && wanted != nullptr && wanted->slot != *by) {
        unreached_.set(wanted->slot);
    }
    node_.on_reached(link_, remote, established.accept);
    if (const auto done = node_.establish(link_, established.accept, established.keys); !done) {
        log(LogLevel::Error, "%s: keys refused: %s", link_.name.c_str(),
            describe(done.error()).c_str());
        return;
    }
    link_.failure.note_login(by);
    node_.streams().open(link_, client_.stream(), remote, by);
    log(LogLevel::Info, "%s: session %s, epoch %u", link_.name.c_str(),
        established.accept.continued ? "continued" : "established", established.keys.epoch);
    const std::string& called = established.accept.node;
    if (!established.accept.continued && !called.empty() && called != node_name_) {
        log(LogLevel::Warning, "%s: another node of this user is called %s; this one is %s there",
            link_.name.c_str(), node_name_.c_str(), called.c_str());
    }
    answers_.on_established();
}

bool SnaptClient::is_untold() {
    if (told_failures_.size() >= kMaxToldFailures) {
        told_failures_.clear();
    }
    return told_failures_.insert(link_.failure.latest().text).second;
}

void SnaptClient::on_rejected(const control::Reject& reject) {
    link_.is_control_open = false;
    link_.failure.note(failure_of(reject, std::time(nullptr)), std::nullopt);
    if (is_untold()) {
        log(LogLevel::Warning, "%s refused: %s", link_.name.c_str(), reject.text.c_str());
    }
    if (reject.reason == control::RejectReason::UserDisabled) {
        node_.give_up(link_);
    }
}

void SnaptClient::on_rekeyed(const control::EpochKeys& keys) {
    keyed_at_ = loop_.now();
    is_rekeying_ = false;
    if (const auto done = node_.rekey(link_, keys); !done) {
        log(LogLevel::Error, "%s: re-key failed: %s", link_.name.c_str(),
            describe(done.error()).c_str());
    }
}

void SnaptClient::on_session_state(bool known) {
    if (!known) {
        is_session_gone_ = true;
        link_.is_control_open = false;
        client_.restart();
    }
}

void SnaptClient::on_allowance(const control::Allowance& allowance) {
    const bool is_other =
        allowance.state != link_.allowance.state || allowance.kind != link_.allowance.kind;
    link_.allowance = allowance;
    if (is_other) {
        const std::string_view state = to_string(allowance.state);
        log(LogLevel::Info, "%s: %s: %.*s", link_.name.c_str(),
            allowance.kind == control::AllowanceKind::Credit ? "credit" : "quota",
            static_cast<int>(state.size()), state.data());
    }
}

std::optional<uint8_t> SnaptClient::slot_of(const std::optional<ControlUplink>& from) const {
    for (const Uplink* uplink : node_.uplinks().list()) {
        if (from && uplink->interface == from->device && uplink->address == from->source) {
            return uplink->slot;
        }
    }
    return std::nullopt;
}

// The network has only IPv6, and no address of the SNAPT is of that version.
bool SnaptClient::lacks_version() const {
    const auto& uplinks = node_.uplinks().list();
    const auto is_v4 = [](const auto& one) { return one.address.is_v4(); };
    return !uplinks.empty() && node_.uplinks().lacks_ipv4() &&
           std::all_of(addresses_.begin(), addresses_.end(), is_v4) &&
           std::none_of(uplinks.begin(), uplinks.end(),
                        [](const Uplink* uplink) { return uplink->address.is_v4(); });
}

void SnaptClient::on_closed(const LinkEnd& end) {
    const bool was_open = std::exchange(link_.is_control_open, false);
    links::Failure failure = failure_of(end, was_open, std::time(nullptr));
    if (failure.kind == FailureKind::NoNetwork && lacks_version()) {
        failure.text = "no network: this one has IPv6 alone, and no NAT64 that leads to the "
                       "SNAPT's IPv4 address; give it a name or an IPv6 address";
    }
    link_.failure.note(std::move(failure), slot_of(end.uplink));
    const FailureKind kind = link_.failure.latest().kind;
    const bool is_over = kind == FailureKind::Ended || kind == FailureKind::Replaced;
    if (is_over) {
        log(LogLevel::Warning, "%s: %s", link_.name.c_str(), link_.failure.latest().text.c_str());
    } else if (was_open) {
        log(LogLevel::Info, "%s: %s; data goes on", link_.name.c_str(),
            link_.failure.latest().text.c_str());
    } else {
        on_failed_attempt(end);
    }
    if (kind == FailureKind::Ended) {
        node_.give_up(link_);
    } else if (was_open) {
        node_.ask(link_);  // an idle one would not be missed
    }
    is_rekeying_ = false;
    node_.streams().close(link_);
    fail_usage();
}

void SnaptClient::on_way_failed(const LinkEnd& end) {
    link_.failure.note_way(failure_of(end, false, std::time(nullptr)), slot_of(end.uplink));
}

void SnaptClient::on_failed_attempt(const LinkEnd& end) {
    has_failed_ = true;
    // A node that is refused and whose session is gone gives the SNAPT up: the user may be
    // disabled.
    const bool is_doubted =
        link_.doubted_at != base::TimePoint{} && loop_.now() - link_.doubted_at < kDoubtCounts;
    if (link_.failure.latest().kind == FailureKind::LoginRefused &&
        (is_doubted || is_session_gone_)) {
        node_.give_up(link_);
    }
    for (const ControlUplink& by : end.failed_by) {
        if (const auto slot = slot_of(by)) {
            failed_by_.set(*slot);
        }
    }
    if (is_lost() && !end.is_connected && end.remote) {
        answers_.on_unreached(*end.remote);
    }
    if (!is_lost()) {
        client_.set_uplinks(uplinks());  // where the data goes
    } else if (++failures_ >= addresses_.size()) {
        failures_ = 0;
        unreached_ |= std::exchange(failed_by_, {});
        client_.set_uplinks(uplinks());
    }
    if (is_untold()) {
        const std::string_view kind = to_string(link_.failure.latest().kind);
        log(LogLevel::Warning, "%s: no control link to %s (%.*s): %s; trying again",
            link_.name.c_str(), end.remote.value_or(link_.address()).to_string().c_str(),
            static_cast<int>(kind.size()), kind.data(), link_.failure.latest().text.c_str());
    }
}

void SnaptClient::query_usage(uint32_t number, std::string json) {
    if (usage_asked_.size() >= kMaxUsageQuestions) {
        usage_asked_.erase(usage_asked_.begin());
    }
    usage_asked_.push_back(number);
    client_.query_usage(number, std::move(json));
}

void SnaptClient::on_usage(const control::UsageReply& reply) {
    if (std::erase(usage_asked_, reply.request) != 0) {  // otherwise nobody asked
        answers_.on_usage(reply);
    }
}

void SnaptClient::fail_usage() {
    for (const uint32_t number : std::exchange(usage_asked_, {})) {
        answers_.on_usage(
            {number, report::error_json("the link to " + link_.name + " was lost; ask again")});
    }
}

}  // namespace continuo::cnapt::snapts
