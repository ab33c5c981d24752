// DnsSwitch: the daemon's side of the helper that changes the host's name resolution
// (dns_helper.hpp): sends the wanted state and knows the actual one. Belongs to the data loop.
#pragma once

#include "cnapt/names/dns_connection.hpp"
#include "cnapt/names/host_lookup.hpp"
#include "cnapt/names/resolver_watch.hpp"
#include "common/io/event_loop.hpp"
#include "common/report/json.hpp"

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::names {

class DnsSwitch {
  public:
    // `helper` may be closed: it could not be started. `loop` must outlive this. `on_change`:
    // is_resolved_told() is another.
    DnsSwitch(io::EventLoop& loop,
              std::vector<base::IpAddress> servers,
              DnsConnection helper,
              std::function<void()> on_change);
    DnsSwitch(const DnsSwitch&) = delete;
    DnsSwitch& operator=(const DnsSwitch&) = delete;
    ~DnsSwitch();

    // Names go through the tunnel. Takes effect soon. To be called now and then: a helper that is
    // lost is looked for again.
    // `is_usable`: some SNAPT answers.
    void set_in_tunnel(bool is_in_tunnel, bool is_usable);
    // systemd-resolved has been told to look names up there.
    bool is_resolved_told() const { return is_resolved_told_; }
    void on_network_changed() { lookup_.ask_soon(); }
    // Restores the host's own configuration before this returns; waits for kEndTimeout at most.
    void end();

    // The host's own name servers, without ours.
    const std::vector<base::IpAddress>& original_servers() const { return original_; }
    // The value of "dns" in `status`. `resolvers` may be null.
    void write_status(report::JsonWriter& json, const ResolverWatch* resolvers) const;

  private:
    void on_readable();
    bool receive();
    void on_message(std::string_view text);
    void watch();
    void lose();
    void set_resolved_told(bool is_told);
    void on_lookup();
    void connect_again();

    io::EventLoop& loop_;
    std::vector<base::IpAddress> servers_;
    io::UniqueFd helper_;
    std::string socket_;  // where another helper may be had; empty: nowhere
    std::unique_ptr<io::Poller> poller_;
    base::TimePoint connected_at_{};
    base::TimePoint connect_at_ = base::kNever;
    base::Duration rest_{};
    std::vector<base::IpAddress> original_;
    std::function<void()> on_change_;
    HostLookup lookup_;
    bool is_resolved_told_ = false;
    std::string state_ = "plain";
    std::string error_;
    bool has_asked_ = false;  // for the tunnel
    uint64_t set_again_ = 0;  // times that resolved had lost its settings
    std::time_t set_again_at_ = 0;
};

}  // namespace continuo::cnapt::names
