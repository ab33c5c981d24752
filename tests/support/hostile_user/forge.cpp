#include "tests/support/hostile_user/forge.hpp"

#include "common/dataplane/epoch_install.hpp"
#include "common/io/socket_address.hpp"
#include "common/wire/body.hpp"
#include "common/wire/tunnel_header.hpp"

#include <algorithm>

#include <sys/socket.h>
#include <sys/uio.h>

namespace continuo::tests {

namespace {

// Head of a raw section of slot 0 that reaches to the end.
constexpr uint8_t kRawSection = 0x40;
constexpr uint8_t kSubtype = 0x3F;
constexpr uint8_t kOpenUdpWithSet = 0x03;
constexpr uint8_t kDontFragment = 0x01;
constexpr uint8_t kTtl = 64;
// An address that answers nothing, and is not in the SNAPT's own network.
constexpr uint32_t kDestination = 0xCB00710A;  // 203.0.113.10

}  // namespace

Offered& Offered::operator+=(const Offered& other) {
    messages += other.messages;
    datagrams += other.datagrams;
    packets += other.packets;
    bytes += other.bytes;
    logins += other.logins;
    refused += other.refused;
    links += other.links;
    numbers += other.numbers;
    return *this;
}

Body::Body() {
    bytes_[used_++] = kRawSection;
}

Body::Body(base::ByteView bytes, size_t packets) : used_(bytes.size()), packets_(packets) {
    CTN_ASSERT(bytes.size() <= kMaxBytes);
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

void Body::open(uint32_t index,
                uint16_t source_port,
                uint16_t destination_port,
                size_t payload_bytes,
                bool continues) {
    base::ByteWriter writer(base::MutableByteView(bytes_).subspan(used_));
    writer.u8(kSubtype);
    writer.u8(kOpenUdpWithSet);
    writer.varint(index);
    writer.u32(kDestination);
    writer.u16(source_port);
    writer.u16(destination_port);
    writer.u8(kDontFragment);
    writer.u8(0);
    writer.u8(kTtl);
    writer.varint(continues ? 1 : 0);
    writer.varint(payload_bytes + 1);
    writer.u16(0);  // id
    writer.zeros(payload_bytes);
    CTN_ASSERT(writer.ok());
    used_ += writer.size();
    ++packets_;
}

void Body::repeat(uint32_t index, size_t payload_bytes) {
    CTN_ASSERT(room() > payload_bytes && packets_ < kMaxEntries);
    bytes_[used_] = static_cast<uint8_t>(index);
    used_ += 1 + payload_bytes;
    ++packets_;
}

io::UniqueFd udp_socket(const base::Endpoint& to) {
    const io::SocketAddress address(to);
    io::UniqueFd fd(::socket(address.data()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    CTN_ASSERT(::connect(fd.value(), address.data(), address.size()) == 0);
    return fd;
}

Forge::Forge(const Account& account, const HostileLink& link)
    : session_(link.established().accept.wire_session_up)
    , epoch_(static_cast<uint8_t>(link.established().keys.epoch % wire::kEpochModulus)) {
    to_ = account.snapt;
    const control::Established& established = link.established();
    if (!established.accept.udp_ports.empty()) {
        to_.port = established.accept.udp_ports.front();
    }
    fds_[0] = udp_socket(to_);
    session::EpochInstall keys =
        dataplane::make_install(path::Role::Node, established.accept.protection, established.keys)
            .value();
    sealer_ = std::move(keys.sealer);
    opener_ = std::move(keys.opener);
}

size_t
Forge::seal(Datagram& to, base::TrafficClass traffic_class, uint8_t path, base::ByteView body) {
    uint64_t& next = next_[base::index_of(traffic_class)][path];
    wire::TunnelHeader header;
    header.epoch = epoch_;
    header.traffic_class = traffic_class;
    header.path = path;
    header.session_id = session_;
    header.long_sequence = true;
    header.sequence = static_cast<uint32_t>(next);
    base::ByteWriter writer(to);
    header.serialize(writer);
    writer.bytes(body);
    writer.zeros(sealer_->tag_bytes());
    crypto::SealedUnit unit;
    unit.datagram = writer.written();
    unit.header_bytes = static_cast<uint8_t>(header.size());
    unit.space = header.space_number();
    unit.sequence = next++;
    sealer_->seal(std::span(&unit, 1));
    return writer.size();
}

void Forge::add(base::TrafficClass traffic_class, const Body& body) {
    lengths_[waiting_] = seal(datagrams_[waiting_], traffic_class, 0, body.bytes());
    ++offered_.datagrams;
    offered_.packets += body.packets();
    offered_.bytes += lengths_[waiting_];
    if (++waiting_ == kBatch) {
        flush();
    }
}

void Forge::send_on(uint8_t path, base::TrafficClass traffic_class, base::ByteView body) {
    if (!fds_[path].is_open()) {
        fds_[path] = udp_socket(to_);
    }
    Datagram datagram;
    const size_t length = seal(datagram, traffic_class, path, body);
    ++offered_.datagrams;
    offered_.bytes += length;
    static_cast<void>(::send(fds_[path].value(), datagram.data(), length, 0));
}

void Forge::answer() {
    std::array<uint8_t, 2048> buffer{};
    for (uint8_t path = 0; path < fds_.size(); ++path) {
        for (;;) {
            const ssize_t bytes = fds_[path].is_open() ? ::recv(fds_[path].value(), buffer.data(),
                                                                buffer.size(), MSG_DONTWAIT)
                                                       : -1;
            if (bytes <= 0) {
                break;
            }
            answer_one(base::MutableByteView(buffer).first(static_cast<size_t>(bytes)), path);
        }
    }
}

// Numbers of a space do not reach 2^15 here, so that the low 16 bits are the whole number.
void Forge::answer_one(base::MutableByteView datagram, uint8_t path) {
    base::ByteReader reader(datagram);
    const auto header = wire::TunnelHeader::parse(reader);
    if (!header || reader.remaining() < opener_->tag_bytes()) {
        return;
    }
    crypto::SealedUnit unit;
    unit.datagram = datagram;
    unit.header_bytes = static_cast<uint8_t>(header->size());
    unit.space = header->space_number();
    unit.sequence = header->sequence;
    opener_->open(std::span(&unit, 1));
    if (!unit.authentic) {
        return;
    }
    if (header->path == 0) {
        auto& highest = highest_[base::index_of(header->traffic_class)];
        highest = std::max(highest.value_or(0), header->sequence);
    }
    wire::BodyReader body(
        datagram.subspan(header->size(), datagram.size() - header->size() - opener_->tag_bytes()));
    wire::BodyItem item;
    for (auto more = body.next(item); more && *more; more = body.next(item)) {
        if (const auto* challenge = std::get_if<wire::Challenge>(&item)) {
            std::array<uint8_t, wire::Response::kBytes> answer{};
            base::ByteWriter writer(answer);
            wire::Response{challenge->token}.serialize(writer);
            send_on(path, header->traffic_class, answer);
        }
    }
}

base::ByteView Forge::seal_for_tcp(base::TrafficClass traffic_class, const Body& body) {
    lengths_[0] = seal(datagrams_[0], traffic_class, wire::kTcpPath, body.bytes());
    return base::ByteView(datagrams_[0]).first(lengths_[0]);
}

void Forge::count_tcp(bool was_taken) {
    offered_.datagrams += was_taken ? 1U : 0U;
    offered_.bytes += was_taken ? lengths_[0] : 0U;
}

void Forge::flush() {
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> parts{};
    for (size_t i = 0; i < waiting_; ++i) {
        parts[i] = {datagrams_[i].data(), lengths_[i]};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    for (size_t sent = 0; sent < waiting_;) {
        const int count =
            ::sendmmsg(fds_[0].value(), &messages[sent], static_cast<unsigned>(waiting_ - sent), 0);
        sent += count > 0 ? static_cast<size_t>(count) : 1;  // one that is refused is lost
    }
    waiting_ = 0;
}

}  // namespace continuo::tests
