// Node: new flows to public addresses in the network of an uplink.
#include "cnapt/node/node.hpp"

namespace continuo::cnapt::node {

namespace {

constexpr uint16_t kDnsPort = 53;

}  // namespace

// Flows in the tunnel stay there, whatever network the node has moved to. So do DNS questions:
// ResolverWatch decides by which way a name server answers.
bool Node::refuses_on_link(NodeFlow& node_flow, base::TimePoint now) {
    const packet::FiveTuple& tuple = node_flow.flow->tuple;
    const uplinks::OnLinkNetwork* network =
        tuple.remote_port == kDnsPort ? nullptr : on_link_.refusing(tuple.remote);
    if (network == nullptr || binder_.former(tuple) != nullptr) {
        return false;
    }
    refuse(node_flow, "in the network of " + network->interface + " (capture.on_link)", now);
    return true;
}

}  // namespace continuo::cnapt::node
