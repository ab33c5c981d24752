// Writes the seeds that only the real code can make: control messages of every type, and what two
// sessions say to each other. `fuzz_seeds FOLDER`; the build calls it.
#include "tests/support/session_pair.hpp"
#include "tests/unit/control/sample_messages.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace {

using namespace continuo;
using Bytes = std::vector<uint8_t>;

constexpr size_t kTagBytes = 16;
constexpr size_t kBodiesOfASeed = 8;
constexpr size_t kSeedsOfADirection = 12;

constexpr std::array<const char*, 18> kNames = {"hello",         "accept",      "reject",
                                                "rekey",         "rekey_ok",    "rekey_wanted",
                                                "apps",          "directory",   "keepalive_request",
                                                "usage_query",   "usage_reply", "session_query",
                                                "session_state", "ping",        "pong",
                                                "close",         "data",        "allowance"};

void write_file(const std::string& path, const Bytes& bytes) {
    std::ofstream file(path, std::ios::binary);
    for (const uint8_t byte : bytes) {
        file.put(static_cast<char>(byte));
    }
}

// As control_fuzz takes them: a zero byte, the type, the body.
void write_messages(const std::string& folder) {
    std::filesystem::create_directories(folder);
    for (control::Message message : control::all_messages()) {
        if (auto* reply = std::get_if<control::UsageReply>(&message)) {
            reply->json = "{\"rows\":[]}";
        }
        Bytes bytes;
        CTN_ASSERT(control::append_message(bytes, message));
        Bytes seed = {0, bytes[0]};
        seed.insert(seed.end(), bytes.begin() + control::kMessageHeaderBytes, bytes.end());
        write_file(folder + "/message_" + kNames[message.index()], seed);
    }
}

std::vector<Bytes> drained(tests::SessionEnd& end, base::TimePoint now) {
    std::vector<Bytes> datagrams;
    session::TransmitBatch batch;
    for (bool more = true; more;) {
        batch.clear();
        more = end.session->poll_transmit(batch, now);
        for (const session::TransmitItem& item : batch.items()) {
            const base::ByteView bytes = batch.bytes(item);
            const size_t step = item.segment_bytes == 0 ? bytes.size() : item.segment_bytes;
            for (size_t at = 0; at < bytes.size(); at += step) {
                const auto one = bytes.subspan(at, std::min(step, bytes.size() - at));
                datagrams.emplace_back(one.begin(), one.end());
            }
            tunnel::Session::on_sent(batch, item);
        }
    }
    return datagrams;
}

// One record of session_fuzz from a readable datagram.
Bytes record_of(const Bytes& datagram) {
    base::ByteReader reader(datagram);
    const auto header = wire::TunnelHeader::parse(reader);
    CTN_ASSERT(header);
    const base::ByteView body = reader.rest().first(reader.remaining() - kTagBytes);
    Bytes record = {static_cast<uint8_t>(0x80U | unsigned{header->path} << 2U |
                                         static_cast<unsigned>(header->traffic_class)),
                    static_cast<uint8_t>(body.size() >> 8U), static_cast<uint8_t>(body.size())};
    record.insert(record.end(), body.begin(), body.end());
    return record;
}

class Conversation {
  public:
    Conversation() : pair_({}, 5, crypto::Protection::HmacSha256) {
        tuple_.local = *base::IpAddress::parse("192.0.0.5");
        tuple_.remote = *base::IpAddress::parse("198.51.100.2");
        tuple_.local_port = 40001;
        tuple_.remote_port = 80;
        tuple_.protocol = packet::Protocol::Udp;
    }

    void run() {
        flow::Flow& up = pair_.node.flow(tuple_, base::TrafficClass::HtLd);
        for (size_t i = 0; i < 200; ++i) {
            pair_.now += base::milliseconds(10);
            if (i % 2 == 0) {
                pair_.node.send(up, packet_of(true, i * 8), {}, pair_.now);
            } else if (!pair_.snapt.flows.empty()) {
                pair_.snapt.send(*pair_.snapt.flows.begin()->second, packet_of(false, i * 7), {},
                                 pair_.now);
            }
            exchange(pair_.node, pair_.snapt, up_);
            exchange(pair_.snapt, pair_.node, down_);
        }
    }
    void write(const std::string& folder) const {
        std::filesystem::create_directories(folder);
        write_direction(folder + "/to_snapt_", 1, up_);
        write_direction(folder + "/to_node_", 0, down_);
    }

  private:
    Bytes packet_of(bool is_up, size_t payload_bytes) {
        packet::HeaderFields fields;
        fields.source = is_up ? tuple_.local : tuple_.remote;
        fields.destination = is_up ? tuple_.remote : *base::IpAddress::parse("100.64.0.2");
        fields.source_port = is_up ? tuple_.local_port : tuple_.remote_port;
        fields.destination_port = is_up ? tuple_.remote_port : tuple_.local_port;
        fields.protocol = tuple_.protocol;
        fields.ttl = 64;
        Bytes payload(std::min<size_t>(payload_bytes, 1472), 'a');
        if (payload_bytes % 3 == 0) {
            pair_.random.fill(payload);
        }
        return tests::make_packet(fields, payload);
    }
    void exchange(tests::SessionEnd& from, tests::SessionEnd& to, std::vector<Bytes>& records) {
        from.session->on_timeout(pair_.now);
        for (Bytes& datagram : drained(from, pair_.now)) {
            records.push_back(record_of(datagram));
            session::ReceivedDatagram received;
            received.bytes = datagram;
            received.from = &from == &pair_.node ? pair_.node_address : pair_.snapt_address;
            received.to = {base::IpAddress::any(base::IpVersion::V4), 0};
            to.session->on_datagrams(std::span(&received, 1), pair_.now);
        }
    }
    static void
    write_direction(const std::string& prefix, uint8_t role, const std::vector<Bytes>& records) {
        const size_t step = std::max<size_t>(1, records.size() / kSeedsOfADirection);
        for (size_t first = 0, seed = 0; first < records.size() && seed < kSeedsOfADirection;
             first += step, ++seed) {
            Bytes bytes = {role};
            const size_t end = std::min(records.size(), first + kBodiesOfASeed);
            for (size_t i = first; i < end; ++i) {
                bytes.insert(bytes.end(), records[i].begin(), records[i].end());
            }
            write_file(prefix + std::to_string(seed), bytes);
        }
    }

    tests::SessionPair pair_;
    packet::FiveTuple tuple_;
    std::vector<Bytes> up_;
    std::vector<Bytes> down_;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) {
        std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
        return 64;
    }
    const std::string corpus = arguments[1];
    write_messages(corpus + "/control_fuzz");
    Conversation conversation;
    conversation.run();
    conversation.write(corpus + "/session_fuzz");
    return 0;
}
