// Node: measured rates for reports.
#include "cnapt/node/node.hpp"

namespace continuo::cnapt::node {

void Node::look_at_rates(base::TimePoint now) {
    uint64_t up_bytes = 0;
    for (const report::ClassFigures& figures : sent()) {
        up_bytes += figures.inner_bytes;
    }
    rates_.look(up_bytes, received().inner_bytes, now);
    for (const auto& link : links_) {
        if (!link->session) {
            continue;
        }
        const session::Session& session = *link->session;
        link->rates.look(dataplane::inner_bytes_sent(session),
                         session.counters().inner_bytes_received, now);
        for (uint8_t i = 0; i < wire::kMaxPaths; ++i) {
            const session::Path& path = session.paths().path(i);
            link->path_rates[i].look(path.counters().sent_bytes, path.counters().received_bytes,
                                     now);
        }
    }
}

}  // namespace continuo::cnapt::node
