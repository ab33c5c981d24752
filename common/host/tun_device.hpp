// TunDevice: one queue of a TUN interface with virtio_net_hdr (10 bytes before each packet) and
// segmentation offload, so that one read or write moves a super-packet. One owner, one thread.
// Addresses, MTU and state: netlink_route.hpp.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <span>
#include <string>
#include <string_view>

namespace continuo::host {

// A buffer of this size holds every frame: virtio_net_hdr, 64 KiB of packet, and one byte that
// shows truncation.
inline constexpr size_t kTunFrameBytes = 10 + 65535 + 1;
inline constexpr size_t kMaxWritePieces = 8;

struct TunOptions {
    bool multi_queue = false;  // open() again with the same name gives the next queue
    bool persistent = false;   // the interface stays when the last queue is closed
    uint32_t mtu = 1500;       // 0: leave
    bool try_uso = true;       // false: as on kernels before 6.2
};

struct TunCounters {
    uint64_t reads = 0;
    uint64_t read_bytes = 0;
    uint64_t writes = 0;
    uint64_t written_bytes = 0;
    uint64_t write_errors = 0;  // the frame is lost
    uint64_t truncated = 0;
};

class TunDevice {
  public:
    // Opens or creates `name` ("cnapt%d" lets the kernel number it), owned by this process's user:
    // another user cannot attach to it, now or after the process has left it. Errors: System,
    // InvalidConfig (name too long).
    static base::Result<TunDevice> open(std::string_view name, const TunOptions& options);
    // Removes a persistent interface; NotFound when there is none.
    static base::Result<void> remove(std::string_view name);

    // Whether the interface stays when the last queue is closed. Errors: System.
    base::Result<void> set_persistent(bool is_persistent);

    int fd() const { return fd_.value(); }
    const std::string& name() const { return name_; }
    uint32_t interface_index() const { return interface_index_; }
    // UDP super-packets may be written (and will be read).
    bool supports_uso() const { return uso_; }
    // TCP super-packets; false only on kernels that refuse every offload.
    bool supports_tso() const { return tso_; }

    // Reads one frame; gives its length. Errors: WouldBlock, Truncated (frame dropped), System.
    base::Result<size_t> read(base::MutableByteView into);
    // Writes one frame. Errors: WouldBlock, System (counted; the frame is lost).
    base::Result<void> write(base::ByteView frame);
    // One frame in up to kMaxWritePieces pieces.
    base::Result<void> write(std::span<const base::ByteView> pieces);

    const TunCounters& counters() const { return counters_; }

  private:
    TunDevice() = default;
    base::Result<void> finish_write(int64_t written);

    io::UniqueFd fd_;
    std::string name_;
    uint32_t interface_index_ = 0;
    bool tso_ = false;
    bool uso_ = false;
    TunCounters counters_;
};

}  // namespace continuo::host
