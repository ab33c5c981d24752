// Forge: datagrams of a session whose keys are known, with any content, sealed and sent as fast as
// possible. docs/PROTOCOL.md sections 3 and 6.
#pragma once

#include "common/crypto/datagram_cipher.hpp"
#include "common/io/unique_fd.hpp"
#include "common/wire/space.hpp"
#include "tests/support/hostile_user/hostile_link.hpp"

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace continuo::tests {

// Counts of all that was offered.
struct Offered {
    uint64_t messages = 0;  // of control
    uint64_t datagrams = 0;
    uint64_t packets = 0;  // in them
    uint64_t bytes = 0;    // UDP payload, or of messages
    uint64_t logins = 0;   // tried
    uint64_t refused = 0;  // of these
    uint64_t links = 0;    // most at once
    uint64_t numbers = 0;  // of a download of which nothing was acknowledged

    Offered& operator+=(const Offered& other);
};

// The body of one datagram.
class Body {
  public:
    static constexpr size_t kMaxBytes = 1400;
    static constexpr size_t kMaxEntries = 1024;

    Body();
    // As it is.
    Body(base::ByteView bytes, size_t packets);
    // A UDP packet of the flow, which is opened with it; `continues`: it is one that was open in
    // another class.
    void open(uint32_t index,
              uint16_t source_port,
              uint16_t destination_port,
              size_t payload_bytes,
              bool continues = false);
    // As the entry before, in one byte and the payload.
    void repeat(uint32_t index, size_t payload_bytes);

    base::ByteView bytes() const { return base::ByteView(bytes_).first(used_); }
    size_t packets() const { return packets_; }
    size_t room() const { return kMaxBytes - used_; }

  private:
    std::array<uint8_t, kMaxBytes> bytes_{};
    size_t used_ = 0;
    size_t packets_ = 0;
};

class Forge {
  public:
    static constexpr size_t kBatch = 32;

    // Seals with the keys that `link` got, and sends over UDP.
    Forge(const Account& account, const HostileLink& link);

    // Sent when kBatch of them are there.
    void add(base::TrafficClass traffic_class, const Body& body);
    // At once, by another socket for each path; path 0 has that of add().
    void send_on(uint8_t path, base::TrafficClass traffic_class, base::ByteView body);
    // Reads datagrams on all paths and answers their challenges, so that the paths are proven.
    void answer();
    // The highest number of that class that came on path 0; nothing: none.
    std::optional<uint32_t> highest(base::TrafficClass traffic_class) const {
        return highest_[base::index_of(traffic_class)];
    }
    // Sealed for TCP. Valid until the next call of this object.
    base::ByteView seal_for_tcp(base::TrafficClass traffic_class, const Body& body);
    void count_tcp(bool was_taken);
    void flush();
    const Offered& offered() const { return offered_; }

  private:
    using Datagram = std::array<uint8_t, Body::kMaxBytes + 64>;
    size_t seal(Datagram& to, base::TrafficClass traffic_class, uint8_t path, base::ByteView body);
    void answer_one(base::MutableByteView datagram, uint8_t path);

    base::Endpoint to_;
    std::array<io::UniqueFd, wire::kMaxPaths> fds_;
    std::unique_ptr<crypto::DatagramCipher> sealer_;
    std::unique_ptr<crypto::DatagramCipher> opener_;
    std::array<std::optional<uint32_t>, base::kTrafficClasses> highest_{};
    uint16_t session_ = 0;
    uint8_t epoch_ = 0;
    std::array<std::array<uint64_t, wire::kMaxPaths>, base::kTrafficClasses> next_{};
    std::vector<Datagram> datagrams_{kBatch};
    std::array<size_t, kBatch> lengths_{};
    size_t waiting_ = 0;
    Offered offered_;
};

// Connected to the SNAPT; blocking.
io::UniqueFd udp_socket(const base::Endpoint& to);

}  // namespace continuo::tests
