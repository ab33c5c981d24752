// SnaptLink: the node's state of one SNAPT: its addresses, session, stream into the control link
// and choice of a path. Data loop only.
#pragma once

#include "cnapt/links/app_tags.hpp"
#include "cnapt/links/link_failures.hpp"
#include "cnapt/links/link_rates.hpp"
#include "cnapt/uplinks/snapt_addresses.hpp"
#include "common/control/message.hpp"
#include "common/control/no_forwarding.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/tunnel/session.hpp"
#include "policy/path_manager.hpp"

#include <memory>
#include <string>
#include <vector>

namespace continuo::cnapt::links {

// The SNAPTs for new flows; the best one is chosen. The data path does not notice the death of an
// idle SNAPT, but its control link is lost.
enum class Fitness : uint8_t { None, NotForwarding, Unlisted, WithoutControl, Good };

struct SnaptLink {
    std::string name;
    uplinks::SnaptAddresses addresses;
    // NAT64 prefix of the network, by which its IPv4 addresses are reached.
    std::optional<base::IpPrefix> nat64{};
    const base::Endpoint& address() const { return addresses.current(); }  // in use
    uint16_t local_id = 0;                     // wire session id that we listen for
    routing::PathMask hints = 0;               // slots of uplinks of which there is news
    std::unique_ptr<tunnel::Session> session;  // once accepted; lives over reconnects
    control::Accept accept;
    control::Allowance allowance;  // the latest one reported
    bool is_up = false;            // keys installed; a path has answered and not died since
    bool is_control_open = false;
    policy::PathManager choice;  // this session's
    // The uplink by which the data goes, and whether it goes over TCP.
    std::optional<uint8_t> active_slot() const {
        return choice.active() ? std::optional(choice.active()->uplink) : std::nullopt;
    }
    bool is_on_stream() const {
        return choice.active() && choice.active()->transport == policy::Transport::Tcp;
    }
    base::TimePoint choose_at = base::kNever;  // unless something changes before
    uint64_t traffic = 0;         // packets sent, queued and dropped, when looked at last
    base::TimePoint busy_at{};    // when packets last came, as seen then
    base::TimePoint needed_at{};  // when a packet came for it
    base::TimePoint moving_since = base::kNever;  // a handover is under way
    base::TimePoint control_asked_at{};           // when its connection was last tested
    std::string moving_from;
    double load = 0;                   // reported, 0 to 1
    double price = 1;                  // reported, of the plan
    control::VersionSet no_way_out{};  // reported
    // New flows of that version may go there.
    bool carries(base::IpVersion version) const {
        return accept.has_lease(version) && !no_way_out.has(version);
    }
    bool forwards() const { return price < control::kNoForwardingPrice / 1000.0; }  // reported
    // UDP is silent and data does not go over TCP.
    bool goes_nowhere() const;
    Fitness fitness() const;
    // The same for flows of that version.
    Fitness fitness(base::IpVersion version) const {
        return carries(version) ? fitness() : Fitness::None;
    }
    // For a flow of its session.
    uint16_t largest_segment(const flow::Flow& flow, base::TimePoint now) const;
    AppTags app_tags;
    uint64_t committed_bits_per_s = 0;  // needs of the flows bound to it
    uint64_t handovers = 0;
    LinkRates rates;
    std::vector<uint16_t> udp_ports;  // the SNAPT's; never empty once accepted
    dataplane::StreamPort stream;     // into the control link; none while that is not open
    base::Endpoint stream_address;    // the other end of that link
    base::TimePoint stream_opened_at{};
    bool is_stream_stuck = false;        // TCP gets nothing through
    std::optional<uint8_t> stream_slot;  // the uplink that it was made by
    bool has_route = false;        // the active uplink had one, at the last change of the network
    bool is_learned = false;       // from a directory: not kept alive without flows
    bool is_listed = true;         // gets new flows; otherwise only when no other is up
    base::TimePoint doubted_at{};  // SNAPT was asked whether it knows the session
    std::vector<base::Endpoint> offered;  // addresses that control tries
    std::string configured;  // address as the configuration has it: a name may not be found
    LinkFailures failure;
};

using SnaptLinks = std::vector<std::unique_ptr<SnaptLink>>;

// Those of SNAPTs with a session, or from the configuration.
std::vector<base::IpAddress> snapt_addresses(const SnaptLinks& links);
// At least one listed SNAPT is up.
bool has_listed_link(const SnaptLinks& links);
Fitness best_fitness(const SnaptLinks& links, base::IpVersion version);
// At least one SNAPT that answers carries that version.
bool carries(const SnaptLinks& links, base::IpVersion version);
// A SNAPT answers, but none that does carries that version: its flows are refused.
bool refuses(const SnaptLinks& links, base::IpVersion version);
// The flows that the hosts of a LAN may have together: the least limit of the SNAPTs that may get a
// new one, and `most`. A SNAPT takes all hosts for one user and at its limit refuses any of them,
// so room is made here before.
size_t flow_limit(const SnaptLinks& links, base::IpVersion version, size_t most);

}  // namespace continuo::cnapt::links
