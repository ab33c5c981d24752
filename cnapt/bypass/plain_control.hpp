// PlainControl: tells the capture which destinations stay outside the tunnel because nobody answers
// there through it (PlainPlaces), and when it may begin. Belongs to the data loop.
#pragma once

#include "cnapt/capture/capture_switch.hpp"
#include "cnapt/names/resolver_watch.hpp"
#include "cnapt/node/node.hpp"

#include <functional>

namespace continuo::cnapt::bypass {

class PlainControl {
  public:
    // `on_settled`: capture may begin. All references must outlive this.
    PlainControl(io::EventLoop& loop,
                 const node::Node& node,
                 capture::CaptureSwitch& capture,
                 const settings::NodeConfig& config,
                 std::function<void()> on_settled);

    // Traffic may pass through the tunnel: at least one SNAPT answers.
    void set_usable(bool is_usable);
    // Interfaces, addresses or routes have changed.
    void on_network_changed();
    void on_tick();
    // Names would resolve if capture began now.
    bool is_settled() const { return resolvers_.is_settled(); }
    const names::ResolverWatch& resolvers() const { return resolvers_; }
    // Private destinations that no SNAPT forwards: they go the host's own way, and with the kill
    // switch are refused. Without those that are not captured anyway.
    std::vector<base::IpPrefix> not_forwarded() const;

  private:
    std::vector<base::IpPrefix> denied() const;
    void tell();

    io::EventLoop& loop_;
    const node::Node& node_;
    capture::CaptureSwitch& capture_;
    const settings::CaptureConfig& config_;
    std::function<void()> on_settled_;
    uplinks::NetworkMarks marks_;
    base::TimePoint began_at_ = base::kNever;  // when the first SNAPT was heard
    names::ResolverWatch resolvers_;
};

}  // namespace continuo::cnapt::bypass
