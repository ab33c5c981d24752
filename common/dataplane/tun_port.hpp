// TunPort: moves packets between a TUN device and the data path of one loop. Reads go straight into
// pool buffers, restored segments leave through a Coalescer as super-packets. Owner and thread: the
// data loop.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/dataplane/pause_detector.hpp"
#include "common/host/tun_device.hpp"
#include "common/packet/coalescer.hpp"
#include "common/record/packet_recorder.hpp"

#include <functional>

namespace continuo::dataplane {

// Most frames taken from the device per wake-up before others get their turn.
inline constexpr size_t kTunBurst = 64;
inline constexpr size_t kTunBytesBetweenFlushes = size_t{128} * 1024;
// Packets between two clock readings.
inline constexpr size_t kTunPacketsAtOnce = 16;

class TunPort final : public packet::FrameSink {
  public:
    // Called for each frame that the kernel took (`written`) or refused.
    using Written = std::function<void(const packet::FrameInfo& info, bool written)>;

    // All must outlive this.
    TunPort(host::TunDevice& device,
            packet::PacketPool& pool,
            base::DropCounters& drops,
            Written on_written);
    TunPort(const TunPort&) = delete;
    TunPort& operator=(const TunPort&) = delete;
    ~TunPort() override;

    // Frees some of the pool's buffers, large or small ones, taking them from whoever holds most.
    using MakeRoom = std::function<bool(bool is_large)>;
    // Called when the pool is empty; without it, frames that come then are dropped.
    void set_make_room(MakeRoom make_room) { make_room_ = std::move(make_room); }
    // Called before each frame to the kernel; true: it has taken the frame over, for write_held().
    using HoldsBack = std::function<bool(base::ByteView frame, const packet::FrameInfo& info)>;
    void set_hold_back(HoldsBack holds_back) { holds_back_ = std::move(holds_back); }
    // Records what passes the device; null: nothing is recorded. It must outlive this.
    void record_to(record::PacketRecorder* recorder) { recorder_ = recorder; }

    // Takes up to `most` packets and returns their bytes. `each` owns the packet. `flush() -> bool`
    // is called after every kTunBytesBetweenFlushes, so that a burst of super-packets does not
    // overflow a class queue, and `has_time() -> bool` after every kTunPacketsAtOnce; false ends
    // the burst. A packet after a pause is taken as all for now, unless it belongs to a stream.
    template <typename Each, typename Flush, typename HasTime>
    size_t read_burst(base::TimePoint now,
                      bool is_stream,
                      size_t most,
                      Each&& each,
                      Flush&& flush,
                      HasTime&& has_time) {
        most = pause_.ends(now) && !is_stream ? 1 : most;
        size_t bytes = 0;
        size_t unflushed = 0;
        for (size_t i = 0; i < most; ++i) {
            packet::PacketPtr packet = read_one();
            if (packet == nullptr) {
                break;
            }
            bytes += packet->length;
            unflushed += packet->length;
            each(std::move(packet));
            if ((i + 1) % kTunPacketsAtOnce == 0 && !has_time()) {
                break;
            }
            if (unflushed >= kTunBytesBetweenFlushes) {
                if (!flush()) {
                    break;
                }
                unflushed = 0;
            }
        }
        return bytes;
    }

    packet::Coalescer& coalescer() { return coalescer_; }
    const packet::Coalescer& coalescer() const { return coalescer_; }
    // Writes one packet unchanged, with complete checksums, after the pending runs.
    void write_packet(base::ByteView packet, void* owner, uint64_t payload_bytes);
    const host::TunDevice& device() const { return device_; }

    void write_frame(base::ByteView frame, const packet::FrameInfo& info) override;
    void write_held(base::ByteView frame, const packet::FrameInfo& info);

  private:
    packet::PacketPtr read_one();
    packet::PacketPtr take(size_t capacity);

    host::TunDevice& device_;
    packet::PacketPool& pool_;
    base::DropCounters& drops_;
    Written on_written_;
    MakeRoom make_room_;
    HoldsBack holds_back_;
    record::PacketRecorder* recorder_ = nullptr;
    packet::Coalescer coalescer_;
    packet::PacketPtr spare_;              // large buffer for the next read
    std::unique_ptr<uint8_t[]> overflow_;  // takes a frame when the pool is empty
    PauseDetector pause_;
};

}  // namespace continuo::dataplane
