#include "common/netlink/netlink.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <linux/netlink.h>
#include <sys/socket.h>

namespace continuo::netlink {

namespace {

using base::ByteView;
using base::Errc;
using base::Error;
using base::Result;

constexpr size_t kReceiveBytes = 65536;
constexpr size_t kAlignment = 4;
constexpr size_t kHeaderBytes = sizeof(nlmsghdr);
constexpr size_t kAttributeHeaderBytes = sizeof(nlattr);
constexpr unsigned kMaxInterruptions = 8;

constexpr size_t aligned(size_t size) {
    return (size + kAlignment - 1) & ~(kAlignment - 1);
}

Errc classify(int error) {
    const bool missing =
        error == ENODEV || error == ENOENT || error == ESRCH || error == EADDRNOTAVAIL;
    return missing ? Errc::NotFound : Errc::System;
}

struct Attribute {
    uint16_t type = 0;
    ByteView value;
};

// Removes the first one; nothing when there is no whole one.
std::optional<Attribute> next_attribute(ByteView& rest) {
    nlattr header{};
    if (rest.size() < sizeof header) {
        return std::nullopt;
    }
    std::memcpy(&header, rest.data(), sizeof header);
    if (header.nla_len < kAttributeHeaderBytes || header.nla_len > rest.size()) {
        return std::nullopt;
    }
    const Attribute attribute{
        static_cast<uint16_t>(header.nla_type & NLA_TYPE_MASK),
        rest.subspan(kAttributeHeaderBytes, header.nla_len - kAttributeHeaderBytes)};
    rest = rest.subspan(std::min(aligned(header.nla_len), rest.size()));
    return attribute;
}

}  // namespace

NetlinkRequest::NetlinkRequest(uint16_t type, uint16_t flags) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<uint16_t>(flags | NLM_F_REQUEST);
    append(&header, sizeof header);
}

void NetlinkRequest::append(const void* from, size_t count) {
    const size_t at = bytes_.size();
    bytes_.resize(at + aligned(count));
    if (count > 0) {
        std::memcpy(bytes_.data() + at, from, count);
    }
}

void NetlinkRequest::begin_attribute(uint16_t type, size_t value_bytes) {
    nlattr header{};
    header.nla_type = type;
    header.nla_len = static_cast<uint16_t>(kAttributeHeaderBytes + value_bytes);
    append(&header, sizeof header);
}

void NetlinkRequest::attribute(uint16_t type, ByteView value) {
    begin_attribute(type, value.size());
    append(value.data(), value.size());
}

void NetlinkRequest::text(uint16_t type, std::string_view value) {
    begin_attribute(type, value.size() + 1);
    append(std::string(value).c_str(), value.size() + 1);
}

ByteView NetlinkRequest::finish(uint32_t sequence, uint16_t more_flags) {
    nlmsghdr header{};
    std::memcpy(&header, bytes_.data(), sizeof header);
    header.nlmsg_flags = static_cast<uint16_t>(header.nlmsg_flags | more_flags);
    header.nlmsg_len = static_cast<uint32_t>(bytes_.size());
    header.nlmsg_seq = sequence;
    std::memcpy(bytes_.data(), &header, sizeof header);
    return bytes_;
}

ByteView NetlinkMessage::attributes(size_t fixed_bytes) const {
    const size_t skip = aligned(fixed_bytes);
    return skip <= payload.size() ? payload.subspan(skip) : ByteView();
}

void for_each_message(ByteView bytes, const std::function<void(const NetlinkMessage&)>& each) {
    while (bytes.size() >= kHeaderBytes) {
        nlmsghdr header{};
        std::memcpy(&header, bytes.data(), sizeof header);
        if (header.nlmsg_len < kHeaderBytes || header.nlmsg_len > bytes.size()) {
            return;
        }
        each(NetlinkMessage{header.nlmsg_type, header.nlmsg_flags, header.nlmsg_seq,
                            bytes.subspan(kHeaderBytes, header.nlmsg_len - kHeaderBytes)});
        bytes = bytes.subspan(std::min<size_t>(aligned(header.nlmsg_len), bytes.size()));
    }
}

void for_each_attribute(ByteView attributes,
                        const std::function<void(uint16_t type, ByteView value)>& each) {
    while (const auto attribute = next_attribute(attributes)) {
        each(attribute->type, attribute->value);
    }
}

std::optional<ByteView> find_attribute(ByteView attributes, uint16_t type) {
    while (const auto attribute = next_attribute(attributes)) {
        if (attribute->type == type) {
            return attribute->value;
        }
    }
    return std::nullopt;
}

std::optional<uint32_t> find_u32(ByteView attributes, uint16_t type) {
    const auto value = find_attribute(attributes, type);
    if (!value || value->size() < sizeof(uint32_t)) {
        return std::nullopt;
    }
    uint32_t number = 0;
    std::memcpy(&number, value->data(), sizeof number);
    return number;
}

std::string find_text(ByteView attributes, uint16_t type) {
    std::string text;
    if (const auto value = find_attribute(attributes, type)) {
        for (const uint8_t octet : *value) {
            if (octet == 0) {
                break;
            }
            text.push_back(static_cast<char>(octet));
        }
    }
    return text;
}

Result<NetlinkSocket> NetlinkSocket::open(int protocol) {
    NetlinkSocket socket;
    socket.fd_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
    if (!socket.fd_.is_open()) {
        return Error{Errc::System, "open netlink socket", errno};
    }
    const int on = 1;
    // Both are optional: error texts, and lists filtered by the kernel.
    ::setsockopt(socket.fd_.value(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
    ::setsockopt(socket.fd_.value(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof on);
    socket.buffer_.resize(kReceiveBytes);
    return socket;
}

Result<void> NetlinkSocket::send(NetlinkRequest& request, std::string_view where) {
    interrupted_ = false;
    return send(request.finish(++sequence_), where);
}

Result<void> NetlinkSocket::send(ByteView bytes, std::string_view where) {
    error_text_.clear();
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    const ssize_t sent = ::sendto(fd_.value(), bytes.data(), bytes.size(), 0,
                                  reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel);
    if (sent != static_cast<ssize_t>(bytes.size())) {
        return Error{Errc::System, where, errno};
    }
    return {};
}

Error NetlinkSocket::failure(const NetlinkMessage& message, std::string_view where) {
    const auto error = message.fixed<nlmsgerr>();
    // With a capped acknowledgement the attributes follow the header of the request, else the
    // request itself.
    const size_t capped = sizeof(nlmsgerr);
    const size_t whole = sizeof(int) + aligned(error.msg.nlmsg_len);
    const bool is_capped = (message.flags & NLM_F_CAPPED) != 0;
    if ((message.flags & NLM_F_ACK_TLVS) != 0) {
        error_text_ = find_text(message.attributes(is_capped ? capped : whole), NLMSGERR_ATTR_MSG);
    }
    if (error_text_.empty()) {
        error_text_ = std::strerror(-error.error);
    }
    return Error{classify(-error.error), where, -error.error};
}

Result<ByteView> NetlinkSocket::read(std::string_view where) {
    const ssize_t got = ::recv(fd_.value(), buffer_.data(), buffer_.size(), MSG_TRUNC);
    if (got < 0) {
        return errno == EINTR ? Result<ByteView>(ByteView()) : Error{Errc::System, where, errno};
    }
    if (static_cast<size_t>(got) > buffer_.size()) {
        return Error{Errc::System, where, EMSGSIZE};
    }
    return ByteView(buffer_).first(static_cast<size_t>(got));
}

Result<NetlinkSocket::Outcome> NetlinkSocket::receive(
    std::string_view where, bool is_list, const std::function<void(const NetlinkMessage&)>& each) {
    const ByteView bytes = CTN_TRY(read(where));
    Outcome outcome = Outcome::Continues;
    std::optional<Error> failed;
    for_each_message(bytes, [&](const NetlinkMessage& message) {
        if (message.sequence != sequence_ || outcome == Outcome::Done) {
            return;  // left from an abandoned request
        }
        if ((message.flags & NLM_F_DUMP_INTR) != 0) {
            interrupted_ = true;
        }
        const bool is_error =
            message.type == NLMSG_ERROR || (message.type == NLMSG_DONE && is_list);
        if (!is_error) {
            each(message);
            if (!is_list || (message.flags & NLM_F_MULTI) == 0) {
                outcome = Outcome::Done;
            }
            return;
        }
        if (message.fixed<int>() < 0) {
            failed = failure(message, where);
        }
        outcome = Outcome::Done;
    });
    if (failed) {
        return *failed;
    }
    return outcome;
}

Result<void> NetlinkSocket::change(NetlinkRequest& request, std::string_view where) {
    CTN_TRY(send(request, where));
    while (CTN_TRY(receive(where, false, [](const NetlinkMessage&) {})) != Outcome::Done) {
    }
    return {};
}

// The kernel answers what fails, and the last one, which asks for it.
Result<void> NetlinkSocket::change_all(std::span<NetlinkRequest> requests,
                                       std::string_view where,
                                       const std::function<void(const Error&)>& on_refused) {
    if (requests.empty()) {
        return {};
    }
    const uint32_t first = sequence_ + 1;
    batch_.clear();
    for (NetlinkRequest& request : requests) {
        const bool is_last = &request == &requests.back();
        const ByteView bytes = request.finish(++sequence_, is_last ? NLM_F_ACK : 0);
        batch_.insert(batch_.end(), bytes.begin(), bytes.end());
    }
    CTN_TRY(send(batch_, where));
    for (bool is_done = false; !is_done;) {
        for_each_message(CTN_TRY(read(where)), [&](const NetlinkMessage& message) {
            if (message.type != NLMSG_ERROR || message.sequence - first >= requests.size()) {
                return;  // left from an abandoned request
            }
            const int error = message.fixed<int>();
            if (error < 0) {
                on_refused(failure(message, where));
            }
            // Without CAP_NET_ADMIN nfnetlink answers the first message alone and drops the rest.
            is_done = is_done || message.sequence == sequence_ || error == -EPERM;
        });
    }
    return {};
}

Result<void> NetlinkSocket::list(NetlinkRequest& request,
                                 std::string_view where,
                                 const std::function<void(const NetlinkMessage&)>& each,
                                 const std::function<void()>& restart) {
    for (unsigned attempt = 0; attempt < kMaxInterruptions; ++attempt) {
        CTN_TRY(send(request, where));
        while (CTN_TRY(receive(where, true, each)) != Outcome::Done) {
        }
        if (!interrupted_) {
            return {};
        }
        if (restart) {
            restart();
        }
    }
    return Error{Errc::System, where, EINTR};
}

}  // namespace continuo::netlink
