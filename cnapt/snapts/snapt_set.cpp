#include "cnapt/snapts/snapt_set.hpp"

#include "cnapt/snapts/allowance_json.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace continuo::cnapt::snapts {

using base::log;
using base::LogLevel;
using daemon::describe;
using links::SnaptLink;
using settings::SnaptEntry;

namespace {

constexpr size_t kMaxWork = 4;  // look-ups, of which one is under way at most, and the file
constexpr base::Duration kLookupInterval = base::seconds(5);
// For flows of the previous run, which may be silent for a while.
constexpr base::Duration kRetiredKept = base::seconds(3600);
constexpr size_t kMaxLearnedBytes = size_t{64} * 1024;

std::set<std::string> names_of(const settings::NodeConfig& config) {
    std::set<std::string> names;
    for (const SnaptEntry& entry : config.snapts) {
        names.insert(entry.name);
    }
    return names;
}

}  // namespace

std::vector<base::Endpoint> SnaptSet::endpoints_of(const SnaptEntry& entry) {
    std::vector<base::Endpoint> endpoints;
    for (const config::HostPort& address : entry.addresses) {
        if (const auto endpoint = address.endpoint()) {
            endpoints.push_back(*endpoint);
        }
    }
    return endpoints;
}

SnaptSet::SnaptSet(const SnaptSetParts& parts,
                   const std::string& node_name,
                   const std::string& state)
    : parts_(parts)
    , file_(state + "/snapts")
    , learned_(parts.config.realm, names_of(parts.config))
    , identity_{node_name, settings::load_node_id(state + settings::kNodeIdFile, parts.random), {}}
    , worker_(std::make_unique<io::WorkerThread>(parts.loop, "cnapt-resolve", kMaxWork)) {
    parts_.random.fill(identity_.session_id);
    // The tick looks: who floods a network with advertisements makes one change a second.
    if (auto monitor = netlink::Pref64Monitor::start(parts.loop, [] {})) {
        pref64_ = std::move(*monitor);
    }
}

SnaptSet::~SnaptSet() {
    pref64_.reset();
    for (const Member& member : members_) {
        member.client->stop();
    }
    members_.clear();
    worker_->abandon();
}

void SnaptSet::start() {
    for (const SnaptEntry& entry : parts_.config.snapts) {
        add(entry, false);
    }
    if (const auto text = io::read_file(file_, kMaxLearnedBytes)) {
        learned_.restore(*text);
        follow_directories();
    }
    look_up_names();
}

// Addresses are used at once, names after their look-up.
void SnaptSet::add(SnaptEntry entry, bool is_learned) {
    auto addresses = endpoints_of(entry);
    const bool has_address = !addresses.empty() && !is_learned;  // use() judges those by hearsay
    SnaptLink& link =
        parts_.node.add_link(entry.name, has_address ? addresses.front() : base::Endpoint{});
    link.is_learned = is_learned;
    link.configured = entry.addresses.empty() ? "" : entry.addresses.front().to_string();
    SnaptClient::Answers answers;
    answers.on_usage = [this](const control::UsageReply& reply) { on_usage(reply); };
    answers.on_directory = [this](const std::string& teller, const control::Directory& directory) {
        on_directory(teller, directory);
    };
    answers.on_established = [this] { on_established(); };
    answers.on_unreached = [this](const base::Endpoint& remote) { on_unreached(remote); };
    members_.push_back(
        {std::move(entry), std::make_unique<SnaptClient>(parts_.node, link, control_thread_,
                                                         parts_.loop, std::move(answers))});
    use(members_.back(), std::move(addresses));
}

SnaptSet::Member* SnaptSet::find(const std::string& name) {
    const auto found = std::find_if(members_.begin(), members_.end(),
                                    [&name](const Member& any) { return any.entry.name == name; });
    return found == members_.end() ? nullptr : &*found;
}

bool SnaptSet::may_call_learned(const std::string& name, const base::IpAddress& address) const {
    const auto learned = learned_.all().find(name);
    const auto& own = parts_.node.network().addresses;
    return learned != learned_.all().end() && may_call(address, learned->second.may_be_private) &&
           std::none_of(own.begin(), own.end(),
                        [&](const netlink::UsableAddress& one) { return one.address == address; });
}

void SnaptSet::use(const Member& member, std::vector<base::Endpoint> addresses) {
    if (member.client->link().is_learned) {
        std::erase_if(addresses, [&](const base::Endpoint& endpoint) {
            return !may_call_learned(member.entry.name, endpoint.address);
        });
    }
    if (addresses.empty()) {
        return;
    }
    if (member.client->is_started()) {
        member.client->set_addresses(std::move(addresses));
        return;
    }
    if (const auto started =
            member.client->start(parts_.config, member.entry, identity_, std::move(addresses));
        !started) {
        log(LogLevel::Error, "%s: %s", member.entry.name.c_str(),
            describe(started.error()).c_str());
    }
}

// Looks up the names of unreachable SNAPTs on the helper thread, in turns, so that a name without
// an address does not delay the others.
void SnaptSet::look_up_names() {
    if (is_resolving_ || parts_.loop.now() < resolve_again_at_) {
        return;
    }
    for (size_t tried = 0; tried < members_.size(); ++tried) {
        const size_t number = (next_lookup_ + tried) % members_.size();
        const Member& member = members_[number];
        const SnaptEntry& entry = member.entry;
        const bool has_names = endpoints_of(entry).size() != entry.addresses.size();
        const bool asks_nat64 = wants_nat64(member);
        const bool is_new = asks_nat64 && !member.is_nat64_asked;
        if ((!has_names && !asks_nat64) ||
            (!is_new && member.client->is_started() && !member.client->take_failure())) {
            continue;
        }
        struct Found {
            std::vector<base::Endpoint> addresses;
            std::vector<std::string> unknown;
            std::optional<base::IpPrefix> nat64;
        };
        auto found = std::make_shared<Found>();
        names::LookupPlaces places;
        places.original = parts_.dns.original_servers();
        places.servers = parts_.config.dns.servers;
        places.fwmark = parts_.config.capture.fwmark;
        is_resolving_ = worker_->submit(
            [found, entry, places, asks_nat64] {
                if (asks_nat64) {
                    found->nat64 = names::find_nat64_prefix(places);
                } else {
                    found->addresses = resolve(entry, places, &found->unknown);
                }
            },
            [this, found, entry, asks_nat64, marks = marks_] {
                is_resolving_ = false;
                Member* const asked = find(entry.name);
                if (!asks_nat64) {
                    on_looked_up(entry, std::move(found->addresses), found->unknown);
                } else if (asked != nullptr && asked->entry == entry && marks == marks_) {
                    on_nat64_asked(*asked, found->nat64);
                }
            });
        next_lookup_ = number + 1;
        resolve_again_at_ = parts_.loop.now() + kLookupInterval;
        return;
    }
}

void SnaptSet::on_looked_up(const SnaptEntry& entry,
                            std::vector<base::Endpoint> found,
                            const std::vector<std::string>& unknown) {
    Member* const asked = find(entry.name);
    if (asked == nullptr || asked->entry != entry) {
        return;
    }
    std::string names;
    for (const std::string& name : unknown) {
        names += (names.empty() ? "" : ", ") + name;
    }
    if (std::exchange(asked->told_unknown, names) != names && !names.empty()) {
        log(LogLevel::Warning, "%s: cannot resolve %s", entry.name.c_str(), names.c_str());
    }
    if (found.empty() && !asked->client->is_started()) {
        const bool has_network = !parts_.node.uplinks().list().empty();
        asked->client->link().failure.note(
            has_network
                ? links::make_failure(links::FailureKind::NameNotFound, "name not found: " + names,
                                      std::time(nullptr))
                : links::make_failure(links::FailureKind::NoNetwork,
                                      "no network: no interface to the Internet has an address",
                                      std::time(nullptr)),
            std::nullopt);
    }
    use(*asked, std::move(found));
}

void SnaptSet::on_tick(base::TimePoint now) {
    follow_routers();
    look_up_names();
    drop_retired(now);
    if (must_remember_) {
        remember();
    }
    for (const Member& member : members_) {
        member.client->rekey_if_due(now);
    }
    while (!questions_.empty() && questions_.front().deadline <= now) {
        end_usage(0);
    }
}

void SnaptSet::on_directory(const std::string& teller, const control::Directory& directory) {
    const Member* told_by = find(teller);
    const bool is_private_teller =
        told_by != nullptr &&
        uplinks::is_private(told_by->client->link().addresses.current().address);
    const bool has_changed = learned_.take(teller, directory, is_private_teller);
    if (told_left_out_ == 0 && learned_.left_out() != 0) {
        told_left_out_ = learned_.left_out();
        log(LogLevel::Warning,
            "%s: some SNAPTs of its directory are left out: of another realm, without an address "
            "that can be used, or more than %zu in all",
            teller.c_str(), kMaxSnapts);
    }
    follow_directories();
    if (has_changed) {
        remember();
    }
}

// The identity is sealed for a learned SNAPT with the key of the one that listed it.
SnaptEntry SnaptSet::entry_of(const std::string& name, const LearnedSnapt& learned) const {
    const auto& configured = parts_.config.snapts;
    const auto teller =
        std::find_if(configured.begin(), configured.end(),
                     [&](const SnaptEntry& entry) { return entry.name == learned.told_by; });
    return {name, learned.addresses,
            teller == configured.end() ? std::nullopt : teller->identity_key};
}

void SnaptSet::follow_directories() {
    for (const auto& [name, learned] : learned_.all()) {
        Member* const known = find(name);
        if (known == nullptr) {
            log(LogLevel::Info, "%s: learned from %s", name.c_str(), learned.told_by.c_str());
            add(entry_of(name, learned), true);
        } else if (known->entry.addresses != learned.addresses) {
            known->entry.addresses = learned.addresses;
            use(*known, endpoints_of(known->entry));
        }
    }
    for (Member& member : members_) {
        const SnaptOffer offer = learned_.offer(member.entry.name);
        SnaptLink& link = member.client->link();
        link.is_listed = learned_.is_listed(member.entry.name);
        link.load = offer.load;
        link.price = offer.price;
        link.no_way_out = offer.no_way_out;
        if (link.is_listed) {
            member.retired_at = base::kNever;
        } else if (member.retired_at == base::kNever) {
            member.retired_at = parts_.loop.now();
        }
    }
}

// The last one that answers is better than none.
void SnaptSet::drop_retired(base::TimePoint now) {
    if (!has_listed_link(parts_.node.links())) {
        return;
    }
    for (size_t i = members_.size(); i-- > 0;) {
        Member& member = members_[i];
        const bool is_due =
            member.retired_at != base::kNever && now - member.retired_at >= kRetiredKept;
        SnaptLink& link = member.client->link();
        if (!is_due || parts_.node.admission().has_flows(link)) {
            continue;
        }
        log(LogLevel::Info, "%s: not listed any more, and without flows: left",
            member.entry.name.c_str());
        learned_.forget(member.entry.name);
        member.client->stop();
        members_.erase(members_.begin() + static_cast<ptrdiff_t>(i));
        parts_.node.remove_link(link);
        must_remember_ = true;
    }
}

void SnaptSet::on_established() {
    prove_nat64();
    for (const Member& member : members_) {
        if (!member.client->link().is_control_open) {
            member.client->try_now();
        }
    }
}

void SnaptSet::remember() {
    must_remember_ = !worker_->submit([file = file_, text = learned_.text()] {
        if (const auto written = io::write_file_atomically(file, text); !written) {
            log(LogLevel::Warning, "cannot write %s: %s", file.c_str(),
                describe(written.error()).c_str());
        }
    });
}

SnaptClient* SnaptSet::client_of(const SnaptLink& link) {
    for (const Member& member : members_) {
        if (&member.client->link() == &link) {
            return member.client.get();
        }
    }
    return nullptr;
}

void SnaptSet::on_network_changed() {
    uplinks::NetworkMarks marks = uplinks::network_marks(parts_.node.network());
    if (marks != marks_) {
        marks_ = std::move(marks);
        resolve_again_at_ = {};
        forget_nat64_answers();
    }
    follow_connected();
    follow_routers();
    for (const Member& member : members_) {
        member.client->on_network_changed();
    }
}

void SnaptSet::ask_usage(const std::string& line, OnUsage on_usage) {
    if (questions_.size() >= kMaxUsageQuestions) {
        end_usage(0);
    }
    const auto request = report::JsonValue::parse(line);
    UsageQuestion question{UsageSum(request ? *request : report::JsonValue()),
                           std::move(on_usage),
                           parts_.loop.now() + kUsageAnswerTime,
                           {}};
    std::vector<std::pair<SnaptClient*, uint32_t>> to_ask;
    for (const Member& member : members_) {
        const SnaptLink& link = member.client->link();
        report::JsonWriter allowance;
        write_allowance(allowance, link.allowance);
        report::JsonWriter money;
        write_money(money, link.allowance);
        question.sum.set_terms(link.name, {allowance.take(), money.take()});
        if (link.is_control_open) {
            question.sum.expect(link.name);
            question.asked[next_request_] = link.name;
            to_ask.emplace_back(member.client.get(), next_request_++);
        } else if (!link.is_learned || link.session) {
            question.sum.fail(link.name, "no control link");
        }
    }
    questions_.push_back(std::move(question));
    if (to_ask.empty()) {
        end_usage(questions_.size() - 1);
    }
    for (const auto& [client, number] : to_ask) {
        client->query_usage(number, line);
    }
}

void SnaptSet::on_usage(const control::UsageReply& reply) {
    for (size_t i = 0; i < questions_.size(); ++i) {
        const auto asked = questions_[i].asked.find(reply.request);
        if (asked == questions_[i].asked.end()) {
            continue;
        }
        questions_[i].sum.add(asked->second, reply.json);
        if (questions_[i].sum.is_complete()) {
            end_usage(i);
        }
        return;
    }
}

void SnaptSet::end_usage(size_t question) {
    const UsageQuestion ended = std::move(questions_[question]);
    questions_.erase(questions_.begin() + static_cast<ptrdiff_t>(question));
    ended.on_usage(ended.sum.json());
}

}  // namespace continuo::cnapt::snapts
