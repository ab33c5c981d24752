// LinkChoice: which way the data of each SNAPT takes. policy::PathManager decides; this tells it
// what is so, and carries out its plan. Data loop only.
#pragma once

#include "cnapt/node/link_paths.hpp"
#include "cnapt/node/node_events.hpp"
#include "common/dataplane/packet_engine.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt::node {

// All must outlive the LinkChoice.
struct ChoiceParts {
    io::EventLoop& loop;
    dataplane::PacketEngine& engine;
    const links::SnaptLinks& links;
    uplinks::Uplinks& uplinks;
    const netlink::NetMonitor& monitor;
    LinkPaths& paths;
    NodeEvents& events;
};

class LinkChoice {
  public:
    explicit LinkChoice(const ChoiceParts& parts);

    // After every change of the link or of the network. Does nothing without a session.
    void choose(SnaptLink& link, base::TimePoint now);
    // Packets after a pause do not wait for the next tick.
    void note_need(SnaptLink& link, base::TimePoint now);
    // Interface and address, or "tcp".
    std::string name_of(const policy::Candidate& candidate);

  private:
    void on_due();
    void set_timer();
    std::vector<policy::UplinkFacts> facts_of(const SnaptLink& link) const;
    std::vector<policy::PathView> views_of(const SnaptLink& link) const;
    static bool is_busy(SnaptLink& link, base::TimePoint now);
    bool is_spread(const SnaptLink& link, base::TimePoint now) const;
    void activate(SnaptLink& link,
                  const std::optional<policy::Candidate>& former,
                  const policy::Candidate& next,
                  base::TimePoint now);
    void enter_stream(SnaptLink& link, bool was_on_stream);
    void ask_dead_paths(SnaptLink& link, base::TimePoint now);
    void leave_stream(SnaptLink& link, uint8_t slot);
    void ask(SnaptLink& link, const policy::Candidate& candidate, base::TimePoint now);
    // Since when the way has been silent; now, if it is not.
    static base::TimePoint
    silent_since(const SnaptLink& link, const policy::Candidate& way, base::TimePoint now);

    ChoiceParts parts_;
    io::DeadlineTimer timer_;
};

}  // namespace continuo::cnapt::node
