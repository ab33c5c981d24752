// CaptureFlows: the flows in a capture, each with the class that the policy gives it, as a node
// would that only sees packets: the process of a flow is not in a capture. Pure, for the commands
// on captures.
#pragma once

#include "classifier/ruleset.hpp"
#include "common/packet/capture_reader.hpp"
#include "common/packet/rewrite.hpp"
#include "policy/promotion_tracker.hpp"

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace continuo::cnapt::commands {

// Flows that are told apart; packets of further ones are only counted. Memory: some 30 MB.
inline constexpr size_t kMaxCaptureFlows = 100'000;

struct CaptureFlow {
    packet::FiveTuple tuple;  // local: the end that asked, which is the node
    classifier::Classification classification;
    // A rule that asks for the process might come first.
    bool may_depend_on_process = false;
    std::optional<base::TrafficClass> promoted;  // for its rate; the class afterwards
    uint64_t first_ns = 0;
    uint64_t last_ns = 0;
    uint64_t packets_up = 0;
    uint64_t packets_down = 0;
    uint64_t bytes_up = 0;  // of IP packets
    uint64_t bytes_down = 0;
    policy::PromotionTracker promotion;

    base::TrafficClass traffic_class() const {
        return promoted.value_or(classification.traffic_class);
    }
};

// Packets of no flow here.
struct CaptureRest {
    uint64_t fragments = 0;        // but the first of a packet
    uint64_t icmp_errors = 0;      // about a flow
    uint64_t other_protocols = 0;  // neither TCP, UDP nor ping
    uint64_t malformed = 0;
    uint64_t beyond_limit = 0;  // of flows above kMaxCaptureFlows
};

class CaptureFlows {
  public:
    // `hash_seed`: random, so that nobody can make a capture that takes for ever.
    CaptureFlows(std::shared_ptr<const classifier::Ruleset> ruleset, uint64_t hash_seed);

    // The flow of the packet; null where it has none. Valid until the next call.
    CaptureFlow* add(const packet::CapturedPacket& packet);

    // In the order of their first packets.
    const std::vector<CaptureFlow>& flows() const { return flows_; }
    const CaptureRest& rest() const { return rest_; }
    uint64_t packets() const { return packets_; }
    const classifier::Ruleset& ruleset() const { return *ruleset_; }
    // Whether the node sent the packet that was added last.
    bool is_up() const { return is_up_; }

  private:
    struct Hash {
        uint64_t seed;
        size_t operator()(const packet::FiveTuple& tuple) const;
    };
    std::optional<packet::PacketSummary> summary_of(const packet::CapturedPacket& packet);
    CaptureFlow* flow_of(const packet::PacketSummary& from_sender, uint64_t at_ns);
    void count(CaptureFlow& flow, const packet::CapturedPacket& packet);

    std::shared_ptr<const classifier::Ruleset> ruleset_;
    std::unordered_map<packet::FiveTuple, size_t, Hash> places_;  // in flows_
    std::vector<CaptureFlow> flows_;
    CaptureRest rest_;
    uint64_t packets_ = 0;
    bool is_up_ = false;
    std::vector<uint8_t> whole_;  // a packet, filled up to its length
};

}  // namespace continuo::cnapt::commands
