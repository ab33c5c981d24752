// NodePath: what only a node does with one path: it asks, announces, gives up, and keeps the NAT
// mapping alive (docs/PROTOCOL.md sections 5.1 and 5.3). Pure.
#pragma once

#include "common/path/announcer.hpp"
#include "common/path/keepalive_learner.hpp"
#include "common/path/path_parts.hpp"

#include <optional>

namespace continuo::path {

class NodePath {
  public:
    using Asks = PathValidation::Asks;

    // `parts` must outlive this object.
    explicit NodePath(PathParts& parts) : parts_(parts) {}

    const Announcer& announcer() const { return announcer_; }
    KeepaliveLearner& keepalive() { return keepalive_; }
    const KeepaliveLearner& keepalive() const { return keepalive_; }

    // --- By the node
    void start(const base::Endpoint& remote, uint16_t mtu, base::TimePoint now);
    // The path carries nothing until retry() is answered.
    void give_up();
    void retry(const base::Endpoint& remote, base::TimePoint now);
    // Dead; asks at growing intervals, like one that fell silent.
    void mark_dead(base::TimePoint now);
    void announce(Asks asks, base::TimePoint now);
    void redirect(const base::Endpoint& remote) { parts_.validation.redirect(remote); }
    // Asks whether it works, unless a question is open.
    void probe(base::TimePoint now);
    // Asks a dead path at that time.
    void ask_again(base::TimePoint at);
    // Asks a usable path by a PING, unless a question is open.
    void ask(base::TimePoint now);
    // As NodePaths::on_request().
    bool on_request(base::TimePoint idle_since, base::TimePoint now);
    void on_keepalive(base::TimePoint idle_since, base::TimePoint now) {
        keepalive_.on_keepalive(now - idle_since, parts_.feedback.patience(), now);
    }
    void on_pause(bool is_active, base::TimePoint now);
    // An acknowledgement left: something follows it, until the next question.
    void expect_more(base::TimePoint now);

    // --- By Path
    // `was_silent`: nothing had come after what was sent last.
    void on_authenticated(base::TrafficClass traffic_class, bool was_silent, base::TimePoint now);
    // lt-ld has answered.
    void on_answered(bool is_active, base::TimePoint now);
    // True when the path just became doubtful or dead. `was_doubtful`: before time passed.
    bool follow_health(bool was_doubtful, bool is_active, base::TimePoint now);
    std::optional<Probe> announcement(bool is_active, base::TimePoint now);

  private:
    void question(bool is_active, base::TimePoint now);
    void hasten(base::TimePoint now);
    Tuple& lt_ld() { return parts_.validation.lt_ld(); }
    void challenge(Asks asks, base::TimePoint now) {
        parts_.validation.challenge(base::TrafficClass::LtLd, asks, now);
    }

    PathParts& parts_;
    bool was_asked_again_ = false;  // after its first answer
    Announcer announcer_;
    KeepaliveLearner keepalive_;
};

}  // namespace continuo::path
