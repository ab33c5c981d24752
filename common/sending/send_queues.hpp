// SendQueues: the packets that wait to be sent, by class; which class sends next, on which path,
// and how long packets are held so that others share their datagram (docs/PROTOCOL.md sections 5.9
// and 6.1). Pure.
#pragma once

#include "common/queueing/class_queue.hpp"
#include "common/queueing/hold.hpp"
#include "common/queueing/scheduler.hpp"
#include "common/routing/router.hpp"
#include "common/sending/split_packet.hpp"
#include "common/session/sent_datagrams.hpp"
#include "common/session/session_core.hpp"

#include <array>
#include <optional>

namespace continuo::sending {

using queueing::ClassQueue;
using queueing::HoldEstimator;
using queueing::HoldKnobs;
using queueing::Release;
using queueing::ReleaseReason;
using queueing::Scheduler;
using queueing::wait_of;

// One class: its waiting packets and the rules by which they leave.
struct SendClass {
    SendClass(base::TrafficClass of, const session::ClassSettings& given)
        : traffic_class(of), settings(given), queue(given.queue_bytes) {}

    // Something waits.
    bool has_any() const { return !queue.empty() || !split.is_empty(); }
    // The packet that leaves next as a whole; null: none.
    const packet::Packet* peek() { return split.is_empty() ? queue.peek() : nullptr; }

    base::TrafficClass traffic_class;
    const session::ClassSettings& settings;
    ClassQueue queue;
    SplitPacket split;
    HoldEstimator estimator;
    session::ClassCounters counters;
    double compressed_ratio = 1.0;  // moving average: section bytes per inner byte
    bool is_blocked = false;        // the next packet must not be sent yet (docs/PROTOCOL.md 5.4)
    // Where flows are spread: the path of the next packet, as of the latest pick().
    std::optional<path::Destination> goes_to;
};

class SendQueues {
  public:
    // All arguments must outlive this object.
    SendQueues(session::SessionCore& core,
               const routing::Router& router,
               const session::SentDatagrams& sent);

    SendClass& of(base::TrafficClass traffic_class) {
        return classes_[base::index_of(traffic_class)];
    }
    const SendClass& of(base::TrafficClass traffic_class) const {
        return classes_[base::index_of(traffic_class)];
    }
    const session::ClassCounters& counters(base::TrafficClass traffic_class) const {
        return of(traffic_class).counters;
    }
    uint64_t bytes() const;
    uint32_t packets() const;

    // --- Packets
    // Dropped packets are counted, this one or others of the class.
    void push(flow::Flow& flow, packet::PacketPtr packet, base::TimePoint now);
    // Whether packets reported with the same time from now on arrived over the time before.
    void set_arrivals_gathered(bool are_gathered) { are_arrivals_gathered_ = are_gathered; }
    // The flow's class was `former`: moves its queued packets, in order.
    void requeue(flow::Flow& flow, base::TrafficClass former);
    // The flow ends: its queued packets are dropped.
    void drop_flow(flow::Flow& flow);
    // Drops the newer half of the class with the most packets (or bytes); returns how many.
    size_t shed(bool by_bytes);
    // The settings of the classes have changed.
    void on_settings();
    // The active path has changed.
    void on_path_changed();

    // --- Choice of the next datagram
    std::optional<base::TrafficClass> pick(base::TimePoint now);
    // The way of the class's next packet, on which there is room; passes over flows that wait for
    // their path, since they do not hold up the others. Nothing: none can leave.
    std::optional<routing::Way> sendable_way(SendClass& state, base::TimePoint now);
    // The way of a packet, whose flow need not be attached.
    std::optional<routing::Way>
    way_of(const flow::Flow& flow, const packet::Packet& packet, base::TimePoint now) const;
    // Whether the next packet in the queue can share a datagram on that path; passes over some
    // flows that cannot.
    bool goes_along(const routing::Way& way, SendClass& state, base::TimePoint now) const;
    // The packet, taken from the queue, leaves on that path: its flow stays there if its own way
    // says so. A datagram may hold packets of flows in several modes.
    void
    pin(flow::Flow& flow, const packet::Packet& packet, uint8_t path, base::TimePoint now) const;
    // When and why the class's next datagram leaves if it goes there.
    Release release(const SendClass& state, const path::Destination& destination) const;
    // How long all held packets may still be held: zero when some wait for something else or need
    // not wait; nothing when none is held.
    std::optional<base::Duration> patience(base::TimePoint now) const;
    base::TimePoint next_deadline(base::TimePoint now) const;

  private:
    std::optional<routing::Way> next_way(SendClass& state, base::TimePoint now) const;
    std::optional<path::Destination> next_destination(const SendClass& state,
                                                      base::TimePoint now) const;
    HoldKnobs knobs(const SendClass& state, const path::Destination& destination) const;

    const session::SessionSettings& settings_;
    base::DropCounters& drops_;
    routing::PathSet& paths_;
    session::SessionFlows& flows_;
    const routing::Router& router_;
    const session::SentDatagrams& sent_;
    Scheduler scheduler_;
    std::array<SendClass, base::kTrafficClasses> classes_;
    bool are_arrivals_gathered_ = false;
};

}  // namespace continuo::sending
