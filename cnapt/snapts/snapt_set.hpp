// SnaptSet: the SNAPTs of a node, with a control link each: configured ones, and those that they
// list. Belongs to the data loop.
#pragma once

#include "cnapt/names/dns_switch.hpp"
#include "cnapt/snapts/learned_snapts.hpp"
#include "cnapt/snapts/snapt_client.hpp"
#include "cnapt/snapts/usage_sum.hpp"
#include "cnapt/uplinks/plain_places.hpp"
#include "common/io/worker_thread.hpp"
#include "common/netlink/pref64_monitor.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace continuo::cnapt::snapts {

inline constexpr base::Duration kUsageAnswerTime = base::seconds(5);

// All must outlive the set.
struct SnaptSetParts {
    io::EventLoop& loop;
    node::Node& node;
    const settings::NodeConfig& config;
    const names::DnsSwitch& dns;
    base::Random& random;
};

class SnaptSet {
  public:
    using OnUsage = std::function<void(std::string json)>;

    // `state`: the daemon's directory, for what is learned.
    SnaptSet(const SnaptSetParts& parts, const std::string& node_name, const std::string& state);
    SnaptSet(const SnaptSet&) = delete;
    SnaptSet& operator=(const SnaptSet&) = delete;
    // Sends CLOSE on every link; does not wait for a name look-up, which may take long.
    ~SnaptSet();

    void start();
    // Once a second: names are looked up, keys renewed.
    void on_tick(base::TimePoint now);

    // Null: no such SNAPT, or no open control link.
    SnaptClient* client_of(const links::SnaptLink& link);
    // Asks every SNAPT that has a session with this node, and adds the answers; names those that do
    // not answer in kUsageAnswerTime. Above kMaxUsageQuestions the oldest gets a partial answer.
    void ask_usage(const std::string& line, OnUsage on_usage);
    void on_network_changed();

  private:
    struct Member {
        settings::SnaptEntry entry;
        std::unique_ptr<SnaptClient> client;
        base::TimePoint retired_at = base::kNever;  // not listed since
        std::string told_unknown{};                 // names without an address, as logged
        // NAT64 prefix of the host's network: reaches the SNAPT's IPv4 addresses by IPv6.
        std::optional<base::IpPrefix> nat64{};
        bool is_nat64_asked = false;                  // in this network, or told
        std::optional<base::IpPrefix> asked_nat64{};  // the last answer in this network
        bool is_nat64_of_router = false;              // no name server said it
    };

    struct UsageQuestion {
        UsageSum sum;
        OnUsage on_usage;
        base::TimePoint deadline{};
        std::map<uint32_t, std::string> asked;  // SNAPTs, by the number of the request
    };

    void add(settings::SnaptEntry entry, bool is_learned);
    void on_usage(const control::UsageReply& reply);
    void end_usage(size_t question);
    Member* find(const std::string& name);
    void use(const Member& member, std::vector<base::Endpoint> addresses);
    // An address known from hearsay, possibly from a looked-up name.
    bool may_call_learned(const std::string& name, const base::IpAddress& address) const;
    void look_up_names();
    // The SNAPT has only IPv4 addresses, and an uplink has none.
    bool wants_nat64(const Member& member) const;
    void follow_nat64(Member& member, const std::optional<base::IpPrefix>& prefix);
    // A prefix that routers tell comes before one that name servers know, unless it has led
    // nowhere.
    void choose_nat64_of(Member& member);
    void on_nat64_asked(Member& member, const std::optional<base::IpPrefix>& found);
    // Data goes by the prefix in use.
    static bool is_reached_by_nat64(const Member& member);
    void forget_nat64_answers();
    std::optional<netlink::KnownPref64> told_by_router() const;
    void follow_routers();
    // Data goes nowhere, and TCP found nothing there.
    void on_unreached(const base::Endpoint& remote);
    void prove_nat64();
    void follow_connected();
    // Those of the configuration; names are left to be looked up.
    static std::vector<base::Endpoint> endpoints_of(const settings::SnaptEntry& entry);
    // Its addresses, and those that stand for them.
    static std::vector<base::Endpoint> with_nat64(const Member& member);
    void on_looked_up(const settings::SnaptEntry& entry,
                      std::vector<base::Endpoint> found,
                      const std::vector<std::string>& unknown);
    void on_directory(const std::string& teller, const control::Directory& directory);
    // Members, addresses and offers as they are known now.
    void follow_directories();
    settings::SnaptEntry entry_of(const std::string& name, const LearnedSnapt& learned) const;
    // SNAPTs that are not listed and have no flows.
    void drop_retired(base::TimePoint now);
    // The network works: waiting attempts may start.
    void on_established();
    void remember();

    SnaptSetParts parts_;
    std::string file_;
    std::vector<UsageQuestion> questions_;  // the oldest first
    uint32_t next_request_ = 1;
    LearnedSnapts learned_;
    uint64_t told_left_out_ = 0;
    settings::NodeIdentity identity_;
    control_link::ControlThread control_thread_;
    std::vector<Member> members_;  // first the configured ones
    std::unique_ptr<io::WorkerThread> worker_;
    bool is_resolving_ = false;
    bool must_remember_ = false;  // the file could not be written yet
    size_t next_lookup_ = 0;      // the SNAPT to ask for first
    base::TimePoint resolve_again_at_{};
    uplinks::NetworkMarks marks_;                     // the network in which NAT64 was looked for
    std::unique_ptr<netlink::Pref64Monitor> pref64_;  // may be absent: then name servers are asked
    std::optional<netlink::KnownPref64> told_nat64_;  // at the last look
};

}  // namespace continuo::cnapt::snapts
