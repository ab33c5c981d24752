// Random schedules of trouble in virtual time, in any mode of paths: loss, reordering, duplication,
// blackouts, moves with and without a moment on two uplinks, NAT rebinding, re-keys that one end
// gets late or never, restarts, and datagrams of a stranger. Whatever comes, nothing is delivered
// twice or altered, no (key, space, sequence) seals twice, a stranger changes nothing, no flow
// ends, and when the trouble is over everything arrives. CONTINUO_SCHEDULES (default 1000) and
// CONTINUO_FIRST_SCHEDULE choose the seeds; a failure names its own.
#include "tests/support/session_pair.hpp"

#include <array>
#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::Endpoint;
using base::milliseconds;
using base::seconds;
using base::TrafficClass;

const base::IpAddress kLease = *base::IpAddress::parse("100.64.0.2");

// (space, sequence) of what was sealed with one key.
using Sealed = std::set<std::pair<uint16_t, uint64_t>>;

class WatchedSealer final : public crypto::DatagramCipher {
  public:
    WatchedSealer(std::unique_ptr<crypto::DatagramCipher> sealer,
                  Sealed& sealed,
                  uint64_t& repeated)
        : sealer_(std::move(sealer)), sealed_(sealed), repeated_(repeated) {}
    size_t tag_bytes() const override { return sealer_->tag_bytes(); }
    void seal(std::span<crypto::SealedUnit> units) override {
        for (const crypto::SealedUnit& unit : units) {
            repeated_ += sealed_.insert({unit.space, unit.sequence}).second ? 0U : 1U;
        }
        sealer_->seal(units);
    }
    void open(std::span<crypto::SealedUnit> units) override { sealer_->open(units); }

  private:
    std::unique_ptr<crypto::DatagramCipher> sealer_;
    Sealed& sealed_;
    uint64_t& repeated_;
};

// One application flow: numbered packets whose content follows from their number.
struct Stream {
    packet::HeaderFields fields;  // from node to the other host
    packet::FiveTuple tuple;
    packet::FiveTuple leased;  // as SNAPT sees it
    TrafficClass traffic_class = TrafficClass::LtLd;
    std::array<uint32_t, 2> sent{};  // up, down
    std::array<std::set<uint32_t>, 2> arrived;
};

constexpr size_t kStreams = 4;  // one of each class

class Schedule {
  public:
    explicit Schedule(uint64_t seed) : chance(seed * 7919), pair(random_link(), seed) {
        pair.has_control = true;
        pair.wrap_sealer = [this](std::unique_ptr<crypto::DatagramCipher> sealer,
                                  const crypto::KeyMaterial& keys) {
            return std::make_unique<WatchedSealer>(std::move(sealer), sealed[keys.key],
                                                   sealed_twice);
        };
        mode_ = static_cast<base::PathMode>(below(base::kPathModes));
        pair.snapt.mode_of_opened = mode_;
        pair.restart(generation);  // with keys that are watched
        for (size_t i = 0; i < kStreams; ++i) {
            make_stream(i);
        }
        send_everywhere();
        pair.run_for(milliseconds(500));
        collect();
    }

    // What each end dropped, for a failure's message.
    std::string drops() const {
        std::string text;
        for (const auto& [name, end] : {std::pair{"node", &pair.node}, {"snapt", &pair.snapt}}) {
            const base::DropCounters& drops = end->session->drops();
            for (size_t i = 0; i < static_cast<size_t>(base::DropReason::Count); ++i) {
                const auto reason = static_cast<base::DropReason>(i);
                if (drops.count(reason) > 0) {
                    text += std::string(" ") + name + " " + std::string(base::to_string(reason)) +
                            " " + std::to_string(drops.count(reason));
                }
            }
        }
        return text;
    }

    // Some trouble, while every flow sends.
    void trouble() {
        for (uint32_t left = 8 + below(8); left > 0; --left) {
            something_happens();
            for (uint32_t ticks = 1 + below(10); ticks > 0; --ticks) {
                if (below(4) != 0) {
                    send_everywhere();
                }
                pair.run_for(milliseconds(5 + below(15)));
            }
            collect();
        }
    }

    // The links deliver again and the node announces itself, as after any change of the network.
    // What is sent from then on must arrive, and soon.
    void recover() {
        const LinkSettings good = SimLink{};
        pair.up.change(good, pair.now);
        pair.down.change(good, pair.now);
        finish_late_rekey();
        session::PathSet& paths = pair.node.session->paths();
        for (uint8_t path = 0; path < wire::kMaxPaths; ++path) {
            if (paths.active() != path && paths.path(path).tuples[0].is_known) {
                paths.remove(path);
            }
        }
        paths.announce_again(pair.now);
        pair.run_for(seconds(2));
        collect();
        std::array<std::array<uint32_t, 2>, kStreams> before{};
        for (size_t i = 0; i < kStreams; ++i) {
            before[i] = streams[i].sent;
        }
        for (int round = 0; round < 5; ++round) {
            send_everywhere();
            pair.run_for(milliseconds(100));
        }
        pair.run_for(milliseconds(400));
        collect();
        for (size_t i = 0; i < kStreams; ++i) {
            for (const size_t direction : {0U, 1U}) {
                // SNAPT sends when it has heard of the flow, after a restart only now; what goes up
                // may be held for 100 ms.
                EXPECT_GE(streams[i].sent[direction], before[i][direction] + 3);
                for (uint32_t number = before[i][direction] + 1;
                     number <= streams[i].sent[direction]; ++number) {
                    EXPECT_EQ(streams[i].arrived[direction].count(number), 1U)
                        << "number " << number << " of flow " << streams[i].tuple.local_port
                        << (direction == 0 ? " up" : " down") << " did not arrive;" << drops();
                }
            }
        }
    }

    void check() {
        collect();
        EXPECT_GE(sealed.size(), 2U);
        EXPECT_EQ(sealed_twice, 0U);
        EXPECT_EQ(pair.node.closed_flows + pair.snapt.closed_flows, 0U);
        EXPECT_EQ(altered, 0U);
        EXPECT_EQ(delivered_twice, 0U);
        EXPECT_EQ(changed_by_stranger, 0U);
    }

    uint64_t moves = 0;
    std::map<std::array<uint8_t, crypto::kKeyBytes>, Sealed> sealed;
    uint64_t sealed_twice = 0;
    uint64_t altered = 0;
    uint64_t delivered_twice = 0;
    uint64_t changed_by_stranger = 0;

  private:
    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(chance.u64() % bound); }

    SimLink random_link() {
        SimLink link;
        link.delay = milliseconds(1 + below(60));
        link.jitter = milliseconds(below(30));
        link.keeps_order = below(2) == 0;
        link.loss_ppm = below(4) == 0 ? 0 : below(300'000);
        link.reorder_ppm = below(3) == 0 ? below(200'000) : 0;
        link.duplicate_ppm = below(3) == 0 ? below(100'000) : 0;
        return link;
    }

    void make_stream(size_t index) {
        Stream& stream = streams[index];
        stream.fields.source = *base::IpAddress::parse("192.0.0.5");
        stream.fields.destination = *base::IpAddress::parse("198.51.100.2");
        stream.fields.protocol = index % 2 == 0 ? packet::Protocol::Udp : packet::Protocol::Tcp;
        stream.fields.source_port = static_cast<uint16_t>(5000 + index);
        stream.fields.destination_port = 443;
        stream.fields.ttl = 64;
        stream.tuple.local = stream.fields.source;
        stream.tuple.remote = stream.fields.destination;
        stream.tuple.local_port = stream.fields.source_port;
        stream.tuple.remote_port = stream.fields.destination_port;
        stream.tuple.protocol = stream.fields.protocol;
        stream.leased = stream.tuple;
        stream.leased.local = kLease;
        stream.traffic_class = base::kAllTrafficClasses[index % base::kTrafficClasses];
    }

    static std::vector<uint8_t> content(uint16_t flow, uint32_t number, uint8_t direction) {
        base::SeededRandom random((uint64_t{flow} << 40) + (uint64_t{number} << 1) + direction);
        // Some longer than a datagram has room for, some that compress.
        std::vector<uint8_t> bytes(20 + random.u64() % 1430);
        if (number % 3 != 0) {
            random.fill(bytes);
        }
        bytes[0] = direction;
        base::store_big_endian<uint32_t>(&bytes[1], number);
        return bytes;
    }

    void send_everywhere() {
        for (Stream& stream : streams) {
            send(stream, 0);
            send(stream, 1);
        }
    }

    void send(Stream& stream, uint8_t direction) {
        packet::HeaderFields fields = stream.fields;
        SessionEnd& end = direction == 0 ? pair.node : pair.snapt;
        flow::Flow* flow = direction == 0 ? &pair.node.flow(stream.tuple, stream.traffic_class)
                                          : pair.snapt.find(stream.leased);
        if (flow == nullptr || flow->owner == nullptr) {
            return;  // SNAPT has not heard of it, or not since its restart
        }
        if (direction == 0) {
            end.session->set_mode(*flow, mode_);
        }
        if (direction == 1) {
            std::swap(fields.source, fields.destination);
            fields.destination = kLease;
            std::swap(fields.source_port, fields.destination_port);
        }
        const uint32_t number = ++stream.sent[direction];
        fields.ip_id = static_cast<uint16_t>(number);
        fields.sequence = number * 1460;
        end.send(*flow, make_packet(fields, content(stream.tuple.local_port, number, direction)),
                 {}, pair.now);
    }

    void something_happens() {
        switch (below(11)) {
        case 0:
            pair.up.change(random_link(), pair.now);
            pair.down.change(random_link(), pair.now);
            break;
        case 1:
            black_out();
            break;
        case 2:
        case 3:
            pair.path_addresses.clear();
            pair.move_node(next_address(), next_path());
            ++moves;
            break;
        case 4:
            move_with_both();
            break;
        case 5:  // NAT gives another port, nobody tells
            pair.node_address = next_address();
            break;
        case 6:
        case 7:
            rekey();
            break;
        case 8:
            if (below(3) == 0) {
                late_rekey = 0;
                epoch = 1;
                pair.restart(++generation);
            }
            break;
        default:
            stranger_interferes();
            break;
        }
    }

    void black_out() {
        for (LinkModel* link : {&pair.up, &pair.down}) {
            LinkSettings settings = link->settings();
            settings.is_up = below(2) == 0;
            link->change(settings, pair.now);
        }
    }

    void move_with_both() {
        const auto before = pair.node.session->paths().active();
        const uint8_t path = next_path();
        if (!before || path == *before) {
            return;
        }
        pair.path_addresses[*before] = pair.node_address;
        pair.node_address = next_address();
        pair.node.session->paths().add(path, pair.snapt_address, 1500, pair.now);
        pair.node.session->paths().activate(path, pair.now);
        ++moves;
    }

    // As the control link does: SNAPT has the keys first; the node gets them at once, later, or
    // never, and then the same number is granted anew.
    void rekey() {
        finish_late_rekey();
        if (!pair.snapt.session->may_grant(epoch + 1)) {
            return;
        }
        if (below(4) == 0) {
            pair.install_epoch_at(pair.snapt, epoch + 1, ++generation);
            if (!pair.snapt.session->may_grant(epoch + 1)) {
                pair.install_epoch_at(pair.node, ++epoch, generation);
                return;
            }
        }
        pair.install_epoch_at(pair.snapt, epoch + 1, ++generation);
        if (below(2) == 0) {
            late_rekey = epoch + 1;
            return;
        }
        pair.install_epoch_at(pair.node, ++epoch, generation);
    }

    void finish_late_rekey() {
        if (late_rekey != 0) {
            pair.install_epoch_at(pair.node, ++epoch, generation);
            late_rekey = 0;
        }
    }

    // Altered and truncated datagrams, noise, and what was recorded earlier, from an address of the
    // stranger's own. A recorded one that had been lost is as good as new and may make SNAPT ask
    // there, but never believe it.
    void stranger_interferes() {
        pair.record = true;
        pair.run_for(milliseconds(20));
        pair.record = false;
        const size_t asked_before = tuples_of_stranger(false);
        for (const auto& recorded : pair.recorded_up) {
            const std::vector<uint8_t> datagram = spoil(recorded);
            if (datagram != recorded) {
                pair.inject(pair.snapt, datagram, stranger_);
            }
        }
        changed_by_stranger += tuples_of_stranger(false) - asked_before;
        for (const auto& recorded : recorded_) {
            pair.inject(pair.snapt, recorded, stranger_);
        }
        changed_by_stranger += tuples_of_stranger(true);
        std::swap(recorded_, pair.recorded_up);
        pair.recorded_up.clear();
    }

    std::vector<uint8_t> spoil(std::vector<uint8_t> datagram) {
        const auto size = static_cast<uint32_t>(datagram.size());
        switch (below(3)) {
        case 0:
            datagram[below(size)] ^= static_cast<uint8_t>(1U << below(8));
            break;
        case 1:
            datagram.resize(1 + below(size));
            break;
        default:
            std::fill(datagram.begin() + 1, datagram.end(), static_cast<uint8_t>(below(256)));
            break;
        }
        return datagram;
    }

    // Where SNAPT may send to the stranger.
    size_t tuples_of_stranger(bool only_proven) {
        size_t count = 0;
        for (uint8_t path = 0; path < wire::kMaxPaths; ++path) {
            for (const session::Tuple& tuple : pair.snapt.session->paths().path(path).tuples) {
                const bool is_counted = tuple.is_known && (tuple.is_proven || !only_proven);
                count += is_counted && tuple.remote == stranger_ ? 1U : 0U;
            }
        }
        return count;
    }

    void collect() {
        collect(pair.snapt, 0);
        collect(pair.node, 1);
    }

    void collect(SessionEnd& end, uint8_t direction) {
        for (const auto& packet : end.delivered) {
            const bool is_udp = packet[9] == 17;
            const size_t header = 20 + (is_udp ? 8 : 20);
            const auto port = base::load_big_endian<uint16_t>(&packet[direction == 0 ? 20 : 22]);
            const size_t index = port - 5000U;
            if (index >= kStreams || packet.size() < header + 5) {
                ++altered;
                continue;
            }
            const auto number = base::load_big_endian<uint32_t>(&packet[header + 1]);
            const auto expected = content(port, number, direction);
            altered += std::equal(packet.begin() + static_cast<ptrdiff_t>(header), packet.end(),
                                  expected.begin(), expected.end())
                           ? 0U
                           : 1U;
            delivered_twice += streams[index].arrived[direction].insert(number).second ? 0U : 1U;
        }
        end.delivered.clear();
    }

    uint8_t next_path() { return static_cast<uint8_t>(below(wire::kMaxPaths)); }
    Endpoint next_address() {
        ++addresses;
        return *Endpoint::parse("198.51.100." + std::to_string(addresses % 250) + ":" +
                                std::to_string(40000 + addresses));
    }

    base::SeededRandom chance;
    base::PathMode mode_ = base::PathMode::Handover;
    uint8_t generation = 1;  // of keys
    uint32_t epoch = 1;
    uint32_t late_rekey = 0;  // granted, not at the node yet
    uint32_t addresses = 0;
    const Endpoint stranger_ = *Endpoint::parse("203.0.113.66:6666");
    std::vector<std::vector<uint8_t>> recorded_;
    std::array<Stream, kStreams> streams;

  public:
    SessionPair pair;
};

uint64_t number_from(const char* name, uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(ScheduleSim, NothingStallsRepeatsOrEndsWhateverHappens) {
    const uint64_t first = number_from("CONTINUO_FIRST_SCHEDULE", 1);
    const uint64_t count = number_from("CONTINUO_SCHEDULES", 1000);
    uint64_t moves = 0;
    for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
        SCOPED_TRACE("CONTINUO_FIRST_SCHEDULE=" + std::to_string(seed) + " CONTINUO_SCHEDULES=1");
        Schedule schedule(seed);
        schedule.trouble();
        schedule.recover();
        schedule.check();
        moves += schedule.moves;
    }
    RecordProperty("moves", std::to_string(moves));
    EXPECT_TRUE(count < 100 || moves > count) << "the schedules have moves";
}

}  // namespace
}  // namespace continuo::tests
