// Netlink messages and a synchronous netlink socket, for the other files of this layer. RFC 3549;
// linux/netlink.h.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace continuo::netlink {

// A message under construction: header, fixed part, attributes.
class NetlinkRequest {
  public:
    NetlinkRequest(uint16_t type, uint16_t flags);

    template <typename T>
    void fixed(const T& part) {
        static_assert(std::is_trivially_copyable_v<T>);
        append(&part, sizeof part);
    }
    void attribute(uint16_t type, base::ByteView value);
    template <typename T>
    requires std::is_trivially_copyable_v<T>
    void attribute(uint16_t type, const T& value) {
        begin_attribute(type, sizeof value);
        append(&value, sizeof value);
    }
    // With the terminating zero.
    void text(uint16_t type, std::string_view value);
    // The finished message. `more_flags` go beside those that it has.
    base::ByteView finish(uint32_t sequence, uint16_t more_flags = 0);

  private:
    void begin_attribute(uint16_t type, size_t value_bytes);
    void append(const void* from, size_t count);

    std::vector<uint8_t> bytes_;
};

// One received message; views lie in the receiver's buffer.
struct NetlinkMessage {
    uint16_t type = 0;
    uint16_t flags = 0;
    uint32_t sequence = 0;
    base::ByteView payload;

    // Copies the fixed part, zero-filled where the message is too short.
    template <typename T>
    T fixed() const {
        T part{};
        if (payload.size() >= sizeof part) {
            std::memcpy(&part, payload.data(), sizeof part);
        }
        return part;
    }
    // The attributes after a fixed part of that size.
    base::ByteView attributes(size_t fixed_bytes) const;
};

// Calls `each` for every whole message in `bytes`.
void for_each_message(base::ByteView bytes, const std::function<void(const NetlinkMessage&)>& each);
// Likewise for every whole attribute, nested ones included as they are.
void for_each_attribute(base::ByteView attributes,
                        const std::function<void(uint16_t type, base::ByteView value)>& each);
// The value of the first attribute of that type.
std::optional<base::ByteView> find_attribute(base::ByteView attributes, uint16_t type);
std::optional<uint32_t> find_u32(base::ByteView attributes, uint16_t type);
std::string find_text(base::ByteView attributes, uint16_t type);

class NetlinkSocket {
  public:
    // `protocol`: NETLINK_ROUTE and so on.
    static base::Result<NetlinkSocket> open(int protocol);

    // Sends a change and waits for its acknowledgement.
    // Errors: NotFound (ENODEV, ENOENT, ESRCH, EADDRNOTAVAIL), System; sys_errno says which.
    base::Result<void> change(NetlinkRequest& request, std::string_view where);
    // Sends changes without NLM_F_ACK with one system call, and waits until the kernel has handled
    // all of them, in order. `on_refused` gets the error of each that failed, as above; without the
    // privilege for any of them once.
    // Most of them: what the kernel's buffer holds of errors; some hundred.
    base::Result<void> change_all(std::span<NetlinkRequest> requests,
                                  std::string_view where,
                                  const std::function<void(const base::Error&)>& on_refused);
    // Sends a request and passes on each answer, until the last. An interrupted list starts again,
    // after a call to `restart`.
    base::Result<void> list(NetlinkRequest& request,
                            std::string_view where,
                            const std::function<void(const NetlinkMessage&)>& each,
                            const std::function<void()>& restart = {});

    const std::string& error_text() const { return error_text_; }

  private:
    enum class Outcome : uint8_t { Continues, Done };
    NetlinkSocket() = default;
    base::Result<void> send(NetlinkRequest& request, std::string_view where);
    base::Result<void> send(base::ByteView bytes, std::string_view where);
    // Empty: interrupted.
    base::Result<base::ByteView> read(std::string_view where);
    base::Result<Outcome> receive(std::string_view where,
                                  bool is_list,
                                  const std::function<void(const NetlinkMessage&)>& each);
    base::Error failure(const NetlinkMessage& message, std::string_view where);

    io::UniqueFd fd_;
    uint32_t sequence_ = 0;
    bool interrupted_ = false;  // the list changed while it was read
    std::vector<uint8_t> buffer_;
    std::vector<uint8_t> batch_;  // messages that change_all() sends
    std::string error_text_;
};

}  // namespace continuo::netlink
