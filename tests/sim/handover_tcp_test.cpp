// A TCP download that fills its link while the node moves, break before make, in virtual time. What
// was under way fills the queue of the link that was left, and sent again that of the new one.
#include "tests/sim/two_paths.hpp"
#include "tests/support/tcp_model.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TrafficClass;

constexpr uint64_t kQueueMs = 30;
constexpr Duration kQueue = milliseconds(kQueueMs);

// One connection; each address of the node has links of its own, with a queue of kQueue down.
class FullDownload {
  public:
    FullDownload(uint64_t megabits_per_s, Duration one_way, uint64_t seed)
        : pair(link_of(one_way), seed), megabits_per_s_(megabits_per_s), one_way_(one_way) {
        pair.has_control = true;
        join(0);
        fields_.source = *base::IpAddress::parse("192.0.0.5");
        fields_.destination = *base::IpAddress::parse("198.51.100.2");
        fields_.protocol = packet::Protocol::Tcp;
        fields_.source_port = 8000;
        fields_.destination_port = 5201;
        fields_.ttl = 64;
        fields_.flags = packet::tcp_flag::kAck;
        fields_.has_timestamps = true;
        packet::FiveTuple tuple;
        tuple.local = fields_.source;
        tuple.remote = fields_.destination;
        tuple.local_port = fields_.source_port;
        tuple.remote_port = fields_.destination_port;
        tuple.protocol = fields_.protocol;
        node_flow_ = &pair.node.flow(tuple, TrafficClass::HtHd);
        pair.node.send(*node_flow_, make_packet(fields_, {}), {}, pair.now);
        pair.run_for(milliseconds(200));
        tuple.local = kLease;
        snapt_flow_ = pair.snapt.find(tuple);
        take_delivered();
    }

    void run_for(Duration span) {
        for (const base::TimePoint end = pair.now + span; pair.now < end;) {
            step();
            pair.run_for(kStep);
            take_delivered();
        }
    }

    // The old address is gone with what is under way there, and there is another.
    void move() {
        const uint8_t former = path_;
        path_ = static_cast<uint8_t>((path_ + 1) % wire::kTcpPath);
        pair.path_addresses.erase(former);
        pair.node.session->paths().remove(former);
        join(path_);
    }

    // Longest time without a byte in order, from the last one before `since` on.
    Duration longest_silence(base::TimePoint since) const {
        return longest_between(progress_, since);
    }
    // Longest time in which no segment came at all.
    Duration longest_without_data(base::TimePoint since) const {
        return longest_between(arrivals_, since);
    }

    LinkModel& down() { return pair.down_link(path_); }

    SessionPair pair;

  private:
    Duration longest_between(const std::vector<base::TimePoint>& times,
                             base::TimePoint since) const {
        Duration longest = pair.now - times.back();
        for (size_t i = 1; i < times.size(); ++i) {
            if (times[i] >= since) {
                longest = std::max<Duration>(longest, times[i] - times[i - 1]);
            }
        }
        return longest;
    }

    static constexpr Duration kStep = base::microseconds(100);
    static constexpr size_t kSegmentBytes = 1300;

    void join(uint8_t path) {
        SimLink link = link_of(one_way_, megabits_per_s_ * 1'000'000);
        link.queue_packets = 100'000;
        link.queue_bytes = megabits_per_s_ * 1'000'000 / 8 * kQueueMs / 1000;
        pair.add_path(
            path, *base::Endpoint::parse("198.51.100.7:" + std::to_string(41000 + moves_++)), link);
        LinkSettings up = pair.up_link(path).settings();
        up.bits_per_s = 0;
        pair.up_link(path).change(up, pair.now);
        pair.node.session->paths().activate(path, pair.now);
    }

    void step() {
        if (sender_.next_deadline() <= pair.now) {
            sender_.on_timeout(pair.now);
        }
        if (receiver_.next_deadline() <= pair.now) {
            if (const auto ack = receiver_.on_timeout(pair.now)) {
                send_ack(*ack);
            }
        }
        while (const auto number = sender_.next_segment(pair.now)) {
            std::vector<uint8_t> payload(kSegmentBytes);
            pair.random.fill(payload);
            base::store_big_endian<uint64_t>(
                payload.data(),
                static_cast<uint64_t>(pair.now.time_since_epoch() / base::microseconds(1)));
            packet::HeaderFields fields = fields_;
            fields.sequence = static_cast<uint32_t>(*number);
            fields.ip_id = sent_++;
            std::swap(fields.source, fields.destination);
            fields.destination = kLease;
            std::swap(fields.source_port, fields.destination_port);
            pair.snapt.send(*snapt_flow_, make_packet(fields, payload), {}, pair.now);
        }
    }

    void send_ack(const TcpAck& ack) {
        packet::HeaderFields fields = fields_;
        fields.acknowledgement = static_cast<uint32_t>(acks_.size());
        fields.ip_id = sent_++;
        acks_.push_back(ack);
        pair.node.send(*node_flow_, make_packet(fields, {}), {}, pair.now);
    }

    void take_delivered() {
        for (size_t i = 0; i < pair.snapt.delivered.size(); ++i) {
            const auto ack = base::load_big_endian<uint32_t>(&pair.snapt.delivered[i][28]);
            if (ack < acks_.size()) {
                sender_.on_ack(acks_[ack], pair.snapt.delivered_at[i]);
            }
        }
        for (size_t i = 0; i < pair.node.delivered.size(); ++i) {
            take_data(pair.node.delivered[i], pair.node.delivered_at[i]);
        }
        for (SessionEnd* end : {&pair.node, &pair.snapt}) {
            end->delivered.clear();
            end->delivered_at.clear();
        }
    }

    void take_data(const std::vector<uint8_t>& packet, base::TimePoint at) {
        constexpr size_t kHeaders = 52;
        const auto sent_at =
            base::TimePoint{} + base::microseconds(static_cast<int64_t>(
                                    base::load_big_endian<uint64_t>(&packet[kHeaders])));
        arrivals_.push_back(at);
        const uint64_t before = receiver_.received();
        const auto number = base::load_big_endian<uint32_t>(&packet[24]);
        if (const auto ack = receiver_.on_segment(number, sent_at, at)) {
            send_ack(*ack);
        }
        if (receiver_.received() > before) {
            progress_.push_back(at);
        }
    }

    uint64_t megabits_per_s_;
    Duration one_way_;
    uint8_t path_ = 0;
    size_t moves_ = 0;
    packet::HeaderFields fields_;
    flow::Flow* node_flow_ = nullptr;
    flow::Flow* snapt_flow_ = nullptr;
    TcpSender sender_;
    TcpReceiver receiver_;
    std::vector<TcpAck> acks_;
    std::vector<base::TimePoint> arrivals_;
    std::vector<base::TimePoint> progress_;
    uint16_t sent_ = 0;
};

// The old queue and the way held it together, and the new queue is as long: it is full with what is
// sent again at once. Two or three packets are what TCP itself tries beyond both.
TEST(FullLinkHandoverSim, ADownloadGoesOnAfterARoundTripAndDoesNotOverrunTheNewQueue) {
    constexpr int kMoves = 6;
    for (const uint64_t rate : {20U, 100U}) {
        for (const auto one_way : {milliseconds(0), milliseconds(10)}) {
            SCOPED_TRACE(std::to_string(rate) + " Mbit/s, " + std::to_string(base::to_ms(one_way)) +
                         " ms each way");
            FullDownload tcp(rate, one_way, 1);
            tcp.run_for(seconds(2));
            std::vector<Duration> silences;
            for (int i = 0; i < kMoves; ++i) {
                tcp.run_for(milliseconds(613));
                const base::TimePoint began = tcp.pair.now;
                tcp.move();
                tcp.run_for(milliseconds(400));
                silences.push_back(tcp.longest_silence(began));
                EXPECT_LE(tcp.longest_without_data(began), 2 * one_way + milliseconds(3));
                EXPECT_LE(tcp.down().counters().dropped_by(LinkDrop::Queue), 3U);
            }
            EXPECT_GT(tcp.pair.snapt.session->counters().repeated_datagrams, 20U * kMoves)
                << "the link was full";
            std::sort(silences.begin(), silences.end());
            EXPECT_LE(silences[kMoves / 2], 2 * one_way + kQueue + milliseconds(10));
        }
    }
}

}  // namespace
}  // namespace continuo::tests
