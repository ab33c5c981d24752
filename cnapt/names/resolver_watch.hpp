// ResolverWatch: which of the host's own name servers answer through the tunnel. A server that
// serves only its own network is silent there and would leave the host without names: it is asked
// outside the tunnel until it answers inside, or the network changes. Not used with [dns], which
// has its own servers. Data loop; files are read and servers asked on a helper thread.
#pragma once

#include "cnapt/names/name_lookup.hpp"
#include "cnapt/names/resolver_probe.hpp"
#include "common/io/event_loop.hpp"
#include "common/io/worker_thread.hpp"
#include "common/report/json.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace continuo::cnapt::names {

// Interval of questions to a server that does not answer through the tunnel; doubles each time.
inline constexpr base::Duration kFirstAskAgain = base::seconds(2);
inline constexpr base::Duration kLongestAskAgain = base::seconds(60);

class ResolverWatch {
  public:
    struct Settings {
        bool is_off = false;          // [dns] names servers
        bool is_kill_switch = false;  // asks through the tunnel only
        bool captures_ipv4 = true;
        bool captures_ipv6 = true;
        LookupPlaces places;
        ResolverProbe probe;  // without servers
        // Datagrams received from SNAPTs so far: silence proves nothing while none arrives.
        std::function<uint64_t()> received;
        // At least one SNAPT that answers carries that version; otherwise silence proves nothing.
        std::function<bool(base::IpVersion)> carries;
    };
    // `on_change`: the set of bypassed servers has changed, or the first answer has come.
    ResolverWatch(io::EventLoop& loop, Settings settings, std::function<void()> on_change);
    ResolverWatch(const ResolverWatch&) = delete;
    ResolverWatch& operator=(const ResolverWatch&) = delete;
    ~ResolverWatch();

    // Sets the network's places, before the calls below: servers in `near` are asked outside the
    // tunnel anyway, those in `denied` are not reached through it.
    void set_places(std::vector<base::IpPrefix> near, std::vector<base::IpPrefix> denied);
    // Servers are asked once traffic may pass through the tunnel.
    void set_usable(bool is_usable);
    void on_network_changed();
    void on_tick();

    // Capture may begin: the servers have been asked, or need not be.
    bool is_settled() const;
    // Servers whose port 53 stays outside the tunnel, also those that the first, short look has not
    // decided and the next one will; none with the kill switch.
    std::vector<base::IpAddress> bypassed() const;
    // The host's own, as far as they are known.
    const std::vector<base::IpAddress>& servers() const { return servers_; }
    // Members of "dns" in `status`: "bypassed" and "unreachable".
    void write_status(report::JsonWriter& json) const;
    // The word for "dns.state" where [dns] is off: "off", "beside" or "unreachable".
    std::string_view state() const;

  private:
    std::vector<base::IpAddress> not_in_tunnel() const;
    std::array<bool, 2> carried_now() const;
    void look();
    void on_servers(std::vector<base::IpAddress> servers);
    void ask();
    struct Step;
    void on_answers(const Step& step);
    void say(const base::IpAddress& server, ResolverWay way) const;

    io::EventLoop& loop_;
    Settings settings_;
    std::function<void()> on_change_;
    std::vector<base::IpPrefix> near_;
    std::vector<base::IpPrefix> denied_;
    std::vector<base::IpAddress> servers_;
    std::map<base::IpAddress, ResolverWay> ways_;  // of servers_, as far as they were asked
    std::vector<base::IpAddress> undecided_;       // after the first look, until the second
    bool is_usable_ = false;
    bool is_busy_ = false;
    unsigned usable_changes_ = 0;
    // Questions after which a result from another network is dropped unless confirmed here.
    unsigned asks_for_new_network_ = 0;
    std::array<bool, 2> carried_{};  // IPv4 and IPv6, when the servers were asked
    bool is_to_ask_ = true;          // the servers or the network have changed
    bool has_answers_ = false;
    base::TimePoint ask_again_at_ = base::kNever;
    base::Duration rest_ = kFirstAskAgain;
    std::unique_ptr<io::WorkerThread> worker_;
};

}  // namespace continuo::cnapt::names
