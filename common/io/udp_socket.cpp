#include "common/io/udp_socket.hpp"

#include "common/io/socket_address.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

namespace continuo::io {

namespace {

using base::ByteView;
using base::Errc;
using base::Error;
using base::IpAddress;
using base::MutableByteView;
using base::Result;

constexpr size_t kControlBytes = 128;
// Vectors of one sendmmsg: pieces of bytes over all its runs.
constexpr size_t kVectorsPerSend = 512;
constexpr unsigned kMaxSocketErrors = 8;

struct alignas(cmsghdr) Control {
    std::array<uint8_t, kControlBytes> bytes{};
};

bool set_option(int fd, int level, int name, int value) {
    return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// Appends one control message; gives the new length.
template <typename T>
size_t add_control(Control& control, size_t at, int level, int type, T value) {
    cmsghdr header{};
    header.cmsg_level = level;
    header.cmsg_type = type;
    header.cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(control.bytes.data() + at, &header, sizeof header);
    std::memcpy(control.bytes.data() + at + CMSG_LEN(0), &value, sizeof value);
    return at + CMSG_SPACE(sizeof value);
}

template <typename T>
T control_value(const cmsghdr* header) {
    T value{};
    if (header->cmsg_len >= CMSG_LEN(sizeof value)) {
        std::memcpy(&value, reinterpret_cast<const uint8_t*>(header) + CMSG_LEN(0), sizeof value);
    }
    return value;
}

size_t add_source(Control& control, size_t at, const IpAddress& from) {
    if (from.is_v4()) {
        in_pktinfo info{};
        std::memcpy(&info.ipi_spec_dst, from.octets.data(), sizeof info.ipi_spec_dst);
        return add_control(control, at, IPPROTO_IP, IP_PKTINFO, info);
    }
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, from.octets.data(), sizeof info.ipi6_addr);
    return add_control(control, at, IPPROTO_IPV6, IPV6_PKTINFO, info);
}

void set_buffers(int fd, size_t bytes) {
    const int wanted = static_cast<int>(bytes);
    if (!set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, wanted)) {
        set_option(fd, SOL_SOCKET, SO_RCVBUF, wanted);
    }
    if (!set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, wanted)) {
        set_option(fd, SOL_SOCKET, SO_SNDBUF, wanted);
    }
}

Result<void> set_options(int fd, const UdpSocketOptions& options, UdpOffloadSupport& offload) {
    const bool is_v4 = options.local.address.is_v4();
    const int level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6;
    bool ok = is_v4 || set_option(fd, level, IPV6_V6ONLY, 1);
    // Never fragment, and do not let the kernel's idea of the path MTU stop probes.
    static_assert(IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE);
    ok =
        ok && set_option(fd, level, is_v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    ok = ok && (!options.reuse_port || set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1));
    ok = ok &&
         (options.mark == 0 || set_option(fd, SOL_SOCKET, SO_MARK, static_cast<int>(options.mark)));
    ok = ok &&
         (options.tos == 0 || set_option(fd, level, is_v4 ? IP_TOS : IPV6_TCLASS, options.tos));
    ok = ok &&
         (!options.packet_info || set_option(fd, level, is_v4 ? IP_PKTINFO : IPV6_RECVPKTINFO, 1));
    if (!ok) {
        return Error{Errc::System, "set udp socket option", errno};
    }
    const auto leaves_by = static_cast<int>(htonl(options.leaves_by));
    if (options.leaves_by != 0 && !set_option(fd, IPPROTO_IP, IP_UNICAST_IF, leaves_by)) {
        return Error{Errc::System, "choose interface of udp socket", errno};
    }
    if (!options.device.empty() &&
        ::setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, options.device.c_str(),
                     static_cast<socklen_t>(options.device.size())) != 0) {
        return Error{Errc::System, "bind udp socket to interface", errno};
    }
    set_buffers(fd, options.buffer_bytes);
    offload.gro = options.offload.gro && set_option(fd, IPPROTO_UDP, UDP_GRO, 1);
    offload.segment = options.offload.segment;
    return {};
}

bool is_unreachable(int error) {
    return error == ENETUNREACH || error == EHOSTUNREACH || error == ENETDOWN ||
           error == EADDRNOTAVAIL || error == ENODEV || error == EINVAL || error == EHOSTDOWN;
}

}  // namespace

struct UdpReceiveArena::Inner {
    std::vector<uint8_t> bytes;
    std::vector<packet::PacketPtr> packets;  // instead of `bytes`
    std::vector<uint8_t*> buffers;           // in the one or the other
    std::vector<mmsghdr> messages;
    std::vector<iovec> vectors;
    std::vector<SocketAddress> addresses;
    std::vector<Control> controls;
    std::vector<ReceivedBatch> batches;

    Inner(size_t count, std::vector<packet::PacketPtr> of_pool)
        : bytes(of_pool.empty() ? count * kSuperBufferBytes : 0)
        , packets(std::move(of_pool))
        , buffers(count)
        , messages(count)
        , vectors(count)
        , addresses(count)
        , controls(count)
        , batches(count) {
        for (size_t i = 0; i < count; ++i) {
            buffers[i] =
                packets.empty() ? bytes.data() + i * kSuperBufferBytes : packets[i]->storage;
        }
    }

    // Sets the first `count` headers again: the kernel changed them in the last call.
    void prepare(size_t count) {
        for (size_t i = 0; i < count; ++i) {
            vectors[i] = {buffers[i], kSuperBufferBytes};
            msghdr& header = messages[i].msg_hdr;
            header = {};
            header.msg_name = addresses[i].data();
            header.msg_namelen = SocketAddress::capacity();
            header.msg_iov = &vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = controls[i].bytes.data();
            header.msg_controllen = kControlBytes;
        }
    }
};

UdpReceiveArena::UdpReceiveArena(size_t buffers)
    : inner_(std::make_unique<Inner>(buffers, std::vector<packet::PacketPtr>{})) {
    inner_->prepare(buffers);
}
UdpReceiveArena::UdpReceiveArena(std::vector<packet::PacketPtr> buffers) {
    const size_t count = buffers.size();
    CTN_ASSERT(count > 0);
    inner_ = std::make_unique<Inner>(count, std::move(buffers));
    inner_->prepare(count);
}
UdpReceiveArena::~UdpReceiveArena() = default;

packet::PacketPtr UdpReceiveArena::exchange(const ReceivedBatch& batch, packet::PacketPtr fresh) {
    const auto at = std::find(inner_->buffers.begin(), inner_->buffers.end(), batch.bytes.data());
    CTN_ASSERT(at != inner_->buffers.end() && !inner_->packets.empty());
    const auto index = static_cast<size_t>(at - inner_->buffers.begin());
    *at = fresh->storage;
    inner_->vectors[index].iov_base = *at;
    std::swap(inner_->packets[index], fresh);
    fresh->length = static_cast<uint32_t>(batch.bytes.size());
    return fresh;
}

// One sendmmsg under construction: runs, each a message of one or more equal datagrams.
struct UdpSocket::SendArrays {
    struct Run {
        size_t first_item = 0;  // where the run begins, to go on from there
        size_t first_offset = 0;
        size_t end_item = 0;  // and where it ends
        size_t end_offset = 0;
        size_t bytes = 0;
        size_t segment_bytes = 0;
        size_t segments = 0;
        bool is_open = false;  // accepts more: all datagrams so far are of full size
    };

    std::array<mmsghdr, kMessagesPerSend> messages{};
    std::array<SocketAddress, kMessagesPerSend> addresses{};
    std::array<Control, kMessagesPerSend> controls{};
    std::array<Run, kMessagesPerSend> runs{};
    std::array<iovec, kVectorsPerSend> vectors{};
    size_t run_count = 0;
    size_t vector_count = 0;

    bool is_cut = false;  // this call sends single datagrams only

    void clear() { run_count = vector_count = 0; }

    static bool is_same_way(const SendItem& a, const SendItem& b) {
        return a.to == b.to && a.from == b.from && a.tos == b.tos;
    }

    // Takes as much of items[index] from `offset` on as fits one run; returns the bytes taken, 0
    // when full.
    size_t add(std::span<const SendItem> items, size_t index, size_t offset, bool may_segment);
    void begin_run(const SendItem& item, size_t index, size_t offset, size_t segment_bytes);
    // Writes the control messages of all runs.
    void finish(std::span<const SendItem> items);
};

size_t UdpSocket::SendArrays::add(std::span<const SendItem> items,
                                  size_t index,
                                  size_t offset,
                                  bool may_segment) {
    const SendItem& item = items[index];
    const size_t rest = item.bytes.size() - offset;
    const size_t segment = item.segment_bytes != 0 ? item.segment_bytes : item.bytes.size();
    CTN_ASSERT(rest > 0);
    if (vector_count == kVectorsPerSend) {
        return 0;
    }
    Run* run = run_count > 0 ? &runs[run_count - 1] : nullptr;
    const bool joins =
        run != nullptr && run->is_open && may_segment &&
        is_same_way(items[run->first_item], item) &&
        (segment == run->segment_bytes || (rest <= segment && rest < run->segment_bytes)) &&
        run->segments < kMaxSegments && run->bytes + std::min(rest, segment) <= kMaxSendBytes;
    if (!joins) {
        if (run_count == kMessagesPerSend) {
            return 0;
        }
        begin_run(item, index, offset, segment);
        run = &runs[run_count - 1];
    }
    const size_t room = kMaxSendBytes > run->bytes ? (kMaxSendBytes - run->bytes) / segment : 0;
    const size_t most = may_segment ? std::min(room, kMaxSegments - run->segments) : 1;
    // A single datagram too long for any run goes alone, and the kernel refuses it.
    const size_t take = std::min(rest, std::max<size_t>(most, 1) * segment);
    // sendmsg reads only; its interface predates const.
    vectors[vector_count++] = {const_cast<uint8_t*>(item.bytes.data() + offset), take};
    ++messages[run_count - 1].msg_hdr.msg_iovlen;
    run->bytes += take;
    run->segments += (take + segment - 1) / segment;
    run->is_open = may_segment && take % run->segment_bytes == 0;
    run->end_item = offset + take == item.bytes.size() ? index + 1 : index;
    run->end_offset = run->end_item == index ? offset + take : 0;
    return take;
}

void UdpSocket::SendArrays::begin_run(const SendItem& item,
                                      size_t index,
                                      size_t offset,
                                      size_t segment_bytes) {
    const size_t at = run_count++;
    runs[at] = Run{index, offset, index, offset, 0, segment_bytes, 0, true};
    addresses[at] = SocketAddress(item.to);
    msghdr& header = messages[at].msg_hdr;
    header = {};
    header.msg_name = addresses[at].data();
    header.msg_namelen = addresses[at].size();
    header.msg_iov = &vectors[vector_count];
}

void UdpSocket::SendArrays::finish(std::span<const SendItem> items) {
    for (size_t i = 0; i < run_count; ++i) {
        const Run& run = runs[i];
        size_t used = 0;
        if (run.segments > 1) {
            const auto segment = static_cast<uint16_t>(run.segment_bytes);
            used = add_control(controls[i], used, IPPROTO_UDP, UDP_SEGMENT, segment);
        }
        const IpAddress& from = items[run.first_item].from;
        if (!from.is_unspecified()) {
            used = add_source(controls[i], used, from);
        }
        if (const auto tos = items[run.first_item].tos) {
            const bool is_v4 = items[run.first_item].to.address.is_v4();
            used = add_control(controls[i], used, is_v4 ? IPPROTO_IP : IPPROTO_IPV6,
                               is_v4 ? IP_TOS : IPV6_TCLASS, int{*tos});
        }
        messages[i].msg_hdr.msg_control = used > 0 ? controls[i].bytes.data() : nullptr;
        messages[i].msg_hdr.msg_controllen = used;
    }
}

UdpSocket::UdpSocket() : arrays_(std::make_unique<SendArrays>()) {}
UdpSocket::UdpSocket(UdpSocket&&) noexcept = default;
UdpSocket& UdpSocket::operator=(UdpSocket&&) noexcept = default;
UdpSocket::~UdpSocket() = default;

Result<UdpSocket> UdpSocket::open(const UdpSocketOptions& options) {
    UdpSocket socket;
    const int family = options.local.address.is_v4() ? AF_INET : AF_INET6;
    socket.fd_.reset(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
    if (!socket.fd_.is_open()) {
        return Error{Errc::System, "open udp socket", errno};
    }
    CTN_TRY(set_options(socket.fd(), options, socket.offload_));
    const SocketAddress local(options.local);
    if (::bind(socket.fd(), local.data(), local.size()) != 0) {
        return Error{Errc::System, "bind udp socket", errno};
    }
    SocketAddress bound;
    socklen_t length = SocketAddress::capacity();
    if (::getsockname(socket.fd(), bound.data(), &length) != 0) {
        return Error{Errc::System, "name of udp socket", errno};
    }
    socket.local_ = bound.endpoint().value_or(options.local);
    return socket;
}

namespace {

void read_controls(const msghdr& header, ReceivedBatch& batch) {
    // CMSG_NXTHDR takes a mutable header and leaves it alone.
    msghdr copy = header;
    for (const cmsghdr* control = CMSG_FIRSTHDR(&copy); control != nullptr;
         control = CMSG_NXTHDR(&copy, const_cast<cmsghdr*>(control))) {
        if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == UDP_GRO) {
            batch.segment_bytes = static_cast<uint16_t>(control_value<int>(control));
        } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
            const auto info = control_value<in_pktinfo>(control);
            batch.to = IpAddress::v4(ntohl(info.ipi_addr.s_addr));
        } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
            const auto info = control_value<in6_pktinfo>(control);
            std::memcpy(batch.to.octets.data(), &info.ipi6_addr, sizeof info.ipi6_addr);
        }
    }
}

}  // namespace

Result<std::span<const ReceivedBatch>> UdpSocket::receive(UdpReceiveArena& arena) {
    UdpReceiveArena::Inner& inner = *arena.inner_;
    int count = -1;
    for (unsigned attempt = 0; count < 0; ++attempt) {
        ++counters_.receive_calls;
        count = ::recvmmsg(fd_.value(), inner.messages.data(),
                           static_cast<unsigned>(inner.messages.size()), MSG_DONTWAIT, nullptr);
        if (count >= 0 || errno == EINTR) {
            continue;
        }
        if (errno == EAGAIN) {
            return Error{Errc::WouldBlock, "receive udp", errno};
        }
        // An error of an earlier datagram; reading has cleared it.
        ++counters_.receive_errors;
        if (attempt >= kMaxSocketErrors) {
            return Error{Errc::System, "receive udp", errno};
        }
    }
    const auto received = static_cast<size_t>(count);
    size_t good = 0;
    for (size_t i = 0; i < received; ++i) {
        const msghdr& header = inner.messages[i].msg_hdr;
        const size_t length = inner.messages[i].msg_len;
        const auto from = inner.addresses[i].endpoint();
        if ((header.msg_flags & MSG_TRUNC) != 0 || !from) {
            ++counters_.receive_truncated;
            continue;
        }
        ReceivedBatch& batch = inner.batches[good++];
        batch.from = *from;
        batch.to = IpAddress::any(from->address.version);
        batch.segment_bytes = 0;
        batch.bytes = MutableByteView(inner.buffers[i], length);
        read_controls(header, batch);
        const size_t segment = batch.segment_bytes;
        if (segment >= length) {
            batch.segment_bytes = 0;
        }
        ++counters_.received_messages;
        counters_.received_bytes += length;
        counters_.received_datagrams +=
            batch.segment_bytes == 0 ? 1 : (length + segment - 1) / segment;
    }
    inner.prepare(received);
    return std::span<const ReceivedBatch>(inner.batches.data(), good);
}

void UdpSocket::count_drop(SendResult& result, int error, uint64_t datagrams) {
    result.dropped_datagrams += datagrams;
    result.last_errno = error;
    if (error == EMSGSIZE) {
        result.too_big = true;
        counters_.dropped_too_big += datagrams;
    } else if (is_unreachable(error)) {
        counters_.dropped_unreachable += datagrams;
    } else if (error == EPERM || error == EACCES) {
        counters_.dropped_denied += datagrams;
    } else if (error == ECONNREFUSED) {
        counters_.dropped_refused += datagrams;
    } else if (error == ENOBUFS || error == ENOMEM) {
        counters_.dropped_no_buffer += datagrams;
    } else {
        counters_.dropped_other += datagrams;
    }
}

// Sends the runs in the arrays. Afterwards result.items and bytes_of_next tell how far it came.
void UdpSocket::flush(SendResult& result, std::span<const SendItem> items) {
    SendArrays& arrays = *arrays_;
    arrays.finish(items);
    size_t next = 0;
    while (next < arrays.run_count) {
        ++counters_.send_calls;
        const int sent = ::sendmmsg(fd_.value(), &arrays.messages[next],
                                    static_cast<unsigned>(arrays.run_count - next), MSG_DONTWAIT);
        const int error = errno;
        for (int i = 0; i < sent; ++i) {
            const SendArrays::Run& run = arrays.runs[next++];
            ++counters_.sent_messages;
            counters_.sent_datagrams += run.segments;
            counters_.sent_bytes += run.bytes;
            result.sent_datagrams += run.segments;
            result.items = run.end_item;
            result.bytes_of_next = run.end_offset;
        }
        if (sent > 0 || error == EINTR) {
            continue;
        }
        const SendArrays::Run& run = arrays.runs[next];
        if (error == EAGAIN) {
            ++counters_.send_would_block;
            result.would_block = true;
            break;
        }
        if (error == EIO && run.segments > 1 && offload_.segment) {
            // The device completes no checksums: the caller's loop cuts the rest into single
            // datagrams.
            ++counters_.segment_fallbacks;
            offload_.segment = false;
            break;
        }
        if (error == EINVAL && run.segments > 1 && !arrays.is_cut) {
            // Before Linux 6.13 a segment above the MTU gives EINVAL, like a wrong source: single
            // datagrams show which.
            arrays.is_cut = true;
            break;
        }
        count_drop(result, error, run.segments);
        const size_t end = run.end_offset > 0 ? run.end_item + 1 : run.end_item;
        for (size_t i = run.first_item; i < std::min(end, kMaxMarkedItems); ++i) {
            result.dropped_items.set(i);
        }
        result.items = run.end_item;
        result.bytes_of_next = run.end_offset;
        ++next;
    }
    arrays.clear();
}

SendResult UdpSocket::send(std::span<const SendItem> items) {
    SendResult result;
    SendArrays& arrays = *arrays_;
    arrays.clear();
    arrays.is_cut = false;
    size_t index = 0;
    size_t offset = 0;
    while (index < items.size() && !result.would_block) {
        const bool may_segment = offload_.segment && !arrays.is_cut;
        const size_t taken = arrays.add(items, index, offset, may_segment);
        offset += taken;
        if (offset == items[index].bytes.size()) {
            ++index;
            offset = 0;
        }
        if (taken == 0 || index == items.size()) {
            flush(result, items);
            index = result.items;
            offset = result.bytes_of_next;
        }
    }
    return result;
}

}  // namespace continuo::io
