// The owner of a flow: a process of this host, or, on a gateway, another host of the LAN.
#include "cnapt/node/node.hpp"

#include <utility>

namespace continuo::cnapt::node {

using base::TimePoint;
using flow::Flow;

void Node::look_up(NodeFlow& node_flow) {
    struct Answer {
        process::SocketOwner owner;
        std::string user;
        std::optional<base::IpAddress> host;
    };
    auto answer = std::make_shared<Answer>();
    const packet::FiveTuple tuple = node_flow.flow->tuple;
    worker_->submit(
        [lookup = lookup_, tracking = tracking_, tuple, answer] {
            if (auto owner = lookup->find(tuple)) {
                answer->owner = std::move(*owner);
                answer->user = process::user_name(answer->owner.user_id);
            } else if (tracking != nullptr) {
                if (const auto host = tracking->source_of(tuple)) {
                    answer->host = *host;
                }
            }
        },
        [this, tuple, answer] {
            count_for_host(tuple, answer->owner, answer->host);
            on_process_found(tuple, answer->owner, std::move(answer->user));
        });
}

// On a gateway a flow belongs to this host or to one of its LAN.
void Node::count_for_host(const packet::FiveTuple& tuple,
                          const process::SocketOwner& owner,
                          const std::optional<base::IpAddress>& host) {
    Flow* flow = is_gateway() ? flows_.find(tuple) : nullptr;
    if (flow != nullptr && (owner.inode != 0 || host)) {
        flow::FlowTable::set_share(*flow, owner.inode != 0 ? hosts_.own() : hosts_.of(*host));
    }
}

void Node::on_process_found(const packet::FiveTuple& tuple,
                            const process::SocketOwner& owner,
                            std::string user) {
    Flow* flow = flows_.find(tuple);
    if (flow == nullptr) {
        return;
    }
    const TimePoint now = loop_.now();
    auto& node_flow = *flow::details_as<NodeFlow>(*flow);
    node_flow.owner = owner;
    node_flow.user = std::move(user);
    if (node_flow.waits_until != base::kNever) {
        release_waiting(node_flow, now);
    } else if (node_flow.flow->state != flow::FlowState::Refused) {
        classify(node_flow, now);
    }
    engine_.pump(now);
}

}  // namespace continuo::cnapt::node
