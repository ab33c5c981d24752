#include "cnapt/commands/capture_flows.hpp"

#include "common/flow/flow_table.hpp"
#include "common/packet/header_fields.hpp"
#include "common/packet/rewrite.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::commands {

using packet::CapturedPacket;
using packet::FiveTuple;
using packet::PacketSummary;
using packet::Protocol;

namespace {

constexpr size_t kMaxIpBytes = 65535;

FiveTuple turned(const FiveTuple& tuple) {
    FiveTuple other = tuple;
    std::swap(other.local, other.remote);
    const bool has_ports = tuple.protocol == Protocol::Tcp || tuple.protocol == Protocol::Udp;
    if (has_ports) {
        std::swap(other.local_port, other.remote_port);
    }
    return other;
}

// Whether the sender of a flow's first packet in the capture is the node: it opens the connection,
// or has the higher port where the capture began later. `is_request`: of a ping.
bool is_from_node(const PacketSummary& summary, bool is_request) {
    namespace flag = packet::tcp_flag;
    const FiveTuple& tuple = summary.tuple;
    if (tuple.protocol == Protocol::Tcp && (summary.tcp_flags & flag::kSyn) != 0) {
        return (summary.tcp_flags & flag::kAck) == 0;
    }
    if (tuple.protocol == Protocol::Tcp || tuple.protocol == Protocol::Udp) {
        return tuple.local_port >= tuple.remote_port;
    }
    return is_request;
}

bool is_echo_request(uint8_t type) {
    return type == 8 || type == 128;  // RFC 792, RFC 4443
}

base::TimePoint time_of(uint64_t ns) {
    constexpr uint64_t kMost = INT64_MAX;
    return base::TimePoint(base::Duration(static_cast<int64_t>(std::min(ns, kMost))));
}

}  // namespace

size_t CaptureFlows::Hash::operator()(const FiveTuple& tuple) const {
    return flow::keyed_hash(tuple, seed);
}

CaptureFlows::CaptureFlows(std::shared_ptr<const classifier::Ruleset> ruleset, uint64_t hash_seed)
    : ruleset_(std::move(ruleset)), places_(0, Hash{hash_seed}), whole_(kMaxIpBytes) {}

// As if its sender were the node. A capture often has the beginnings of packets only: headers are
// enough here.
std::optional<PacketSummary> CaptureFlows::summary_of(const CapturedPacket& packet) {
    const size_t length = std::min(packet.length, kMaxIpBytes);
    const size_t known = std::min(packet.bytes.size(), length);
    std::copy_n(packet.bytes.begin(), known, whole_.begin());
    std::fill(whole_.begin() + static_cast<std::ptrdiff_t>(known),
              whole_.begin() + static_cast<std::ptrdiff_t>(length), uint8_t{0});
    const bool is_v4 = packet.bytes[0] >> 4 == 4;
    const size_t declared = is_v4 ? length : length - std::min<size_t>(length, 40);
    base::store_big_endian<uint16_t>(&whole_[is_v4 ? 2 : 4], static_cast<uint16_t>(declared));
    const base::ByteView whole = base::ByteView(whole_).first(length);
    const auto result = packet::summarize(whole, packet::NodeSide::Source);
    if (!result.summary) {
        ++(result.error == packet::SummaryError::UnsupportedProtocol ? rest_.other_protocols
                                                                     : rest_.malformed);
        return std::nullopt;
    }
    if (result.summary->is_icmp_error) {
        ++rest_.icmp_errors;
        return std::nullopt;
    }
    if (!result.summary->is_first_fragment) {
        ++rest_.fragments;
        return std::nullopt;
    }
    return result.summary;
}

CaptureFlow* CaptureFlows::flow_of(const PacketSummary& from_sender, uint64_t at_ns) {
    for (const bool is_up : {true, false}) {
        const auto known = places_.find(is_up ? from_sender.tuple : turned(from_sender.tuple));
        if (known != places_.end()) {
            is_up_ = is_up;
            return &flows_[known->second];
        }
    }
    if (flows_.size() >= kMaxCaptureFlows) {
        ++rest_.beyond_limit;
        return nullptr;
    }
    is_up_ = is_from_node(from_sender, is_echo_request(whole_[from_sender.transport_offset]));
    classifier::FlowFacts facts;
    facts.tuple = is_up_ ? from_sender.tuple : turned(from_sender.tuple);
    facts.dscp = is_up_ ? from_sender.tos >> 2 : uint8_t{0};
    CaptureFlow flow;
    flow.tuple = facts.tuple;
    flow.classification = ruleset_->classify(facts);
    flow.may_depend_on_process = ruleset_->needs_process(facts);
    flow.first_ns = at_ns;
    places_.emplace(flow.tuple, flows_.size());
    flows_.push_back(flow);
    return &flows_.back();
}

void CaptureFlows::count(CaptureFlow& flow, const CapturedPacket& packet) {
    ++(is_up_ ? flow.packets_up : flow.packets_down);
    (is_up_ ? flow.bytes_up : flow.bytes_down) += packet.length;
    flow.last_ns = std::max(flow.last_ns, packet.at_ns);
    const auto& rule = ruleset_->promotion();
    const bool is_counted = is_up_ && rule.is_enabled &&
                            base::is_low_throughput(flow.traffic_class()) &&
                            flow.classification.action == classifier::Action::Serve;
    const auto bytes = static_cast<uint32_t>(std::min(packet.length, kMaxIpBytes));
    if (is_counted && flow.promotion.on_bytes(rule, bytes, time_of(flow.last_ns))) {
        flow.promoted = policy::promoted(flow.traffic_class());
    }
}

CaptureFlow* CaptureFlows::add(const CapturedPacket& packet) {
    ++packets_;
    const auto summary = summary_of(packet);
    CaptureFlow* flow = summary ? flow_of(*summary, packet.at_ns) : nullptr;
    if (flow != nullptr) {
        count(*flow, packet);
    }
    return flow;
}

}  // namespace continuo::cnapt::commands
