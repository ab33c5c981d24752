// LiveFile: the counters of all live flows of a SNAPT in a preallocated, shared mapping, so that a
// crash of the process loses no counts. Loops take and release slots; the ledger's thread reads
// them and frees closed ones after their usage is committed. take, release and free_slots lock
// briefly; counting does not.
#pragma once

#include "common/base/result.hpp"
#include "common/flow/counter_values.hpp"
#include "common/flow/slot_source.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace continuo::snapt::ledger {

inline constexpr uint64_t kLiveFileMagic = 0x45564C4F55544E43;  // "CNTUOLVE" in memory order
inline constexpr uint32_t kLiveFileVersion = 1;
inline constexpr size_t kLiveHeaderBytes = 4096;
inline constexpr uint32_t kDefaultLiveSlots = 131'072;
inline constexpr uint32_t kMaxLiveSlots = 16'777'216;
// First id of shared slots; ids of flows are lower.
inline constexpr uint64_t kSharedFlowIdBase = uint64_t{1} << 62;
// Most slots of a user's closed flows that the ledger has not sealed yet; further flows share one.
inline constexpr uint32_t kMaxUnsealedSlots = 2048;

// Integers in the host's order: the file never leaves the machine.
struct LiveFileHeader {
    uint64_t magic = kLiveFileMagic;
    uint32_t version = kLiveFileVersion;
    uint32_t slot_bytes = sizeof(flow::LiveSlot);
    uint64_t slots = 0;
    int64_t epoch = 0;
    char boot_id[64] = {};
    char snapt_id[64] = {};
};

// A plain copy of one slot. Also the form in which open_flow keeps it.
struct SlotImage {
    uint32_t state = 0;
    uint32_t session_number = 0;
    uint64_t flow_id = 0;
    uint8_t traffic_class = 0;
    uint8_t protocol = 0;
    uint16_t app = 0;
    uint16_t remote_port = 0;
    uint8_t remote_is_v6 = 0;
    uint8_t close_cause = 0;
    int64_t opened_at_us = 0;
    int64_t last_at_us = 0;
    std::array<uint8_t, 16> remote_address{};
    flow::CounterValues counters;

    bool is_closed() const { return state == static_cast<uint32_t>(flow::SlotState::Closed); }
};
static_assert(sizeof(SlotImage) == 216);

struct LiveFileOptions {
    std::string snapt_id;
    std::string boot_id;
    int64_t epoch = 0;
    uint32_t slots = kDefaultLiveSlots;
    uint32_t user_slots = 0;  // most slots of a user's flows; 0: any number
};

// Slots that an earlier process left.
struct LiveRemains {
    LiveFileHeader header;
    std::vector<SlotImage> slots;  // open and closed ones
};

class LiveFile final : public flow::SlotSource {
  public:
    // Writes a new file beside `path` and renames it over it.
    static base::Result<std::unique_ptr<LiveFile>> create(const std::string& path,
                                                          const LiveFileOptions& options);
    // NotFound without a file, Malformed when it is not one of ours, short or of another version.
    // The header of one whose slots are missing is read all the same.
    static base::Result<LiveRemains> read_remains(const std::string& path);
    static base::Result<LiveFileHeader> read_header(const std::string& path);
    ~LiveFile() override;

    // When slots run out, or the user's share, flows of one session, class and loop share one; null
    // only if not even that is possible.
    flow::LiveSlot* take(const flow::SlotRequest& request) override;
    void release(flow::LiveSlot* slot, flow::Cause cause) override;

    // For the ledger. Slots at or above high_water() were never used. The image of a closed slot is
    // consistent; of an open slot each counter is a value that it had.
    uint32_t high_water() const { return high_water_.load(std::memory_order_acquire); }
    bool read(uint32_t slot, SlotImage& image) const;  // false: free
    uint32_t session_of(uint32_t slot) const;          // 0: free
    void free_slots(std::span<const uint32_t> slots);
    // The owner of a session's slots: set before the first is taken, until the last is free.
    void set_owner(uint32_t session_number, const std::string& user);
    void forget_owner(uint32_t session_number);
    // A shared slot without flows stays open until here, so that short flows do not take one each.
    void close_idle_shares();

    uint32_t slots() const { return slot_count_; }
    uint32_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
    uint64_t shared_flows() const { return shared_flows_.load(std::memory_order_relaxed); }

  private:
    LiveFile(void* mapping, size_t mapped_bytes, const LiveFileOptions& options);
    flow::LiveSlot* open_free(const flow::SlotRequest& request);
    flow::LiveSlot* share(const flow::SlotRequest& request);

    using ShareKey = std::tuple<uint32_t, base::TrafficClass, uint8_t>;  // session, class, loop
    struct Share {
        flow::LiveSlot* slot = nullptr;
        uint64_t flows = 0;
    };
    struct Owner {
        uint32_t sessions = 0;
        uint32_t slots = 0;
        uint32_t unsealed = 0;  // closed and not sealed
    };
    using Owners = std::map<std::string, Owner>;
    Owner* owner_of(uint32_t session_number);
    bool may_have_own(uint32_t session_number);
    void close(flow::LiveSlot& slot, flow::Cause cause);

    void* mapping_;
    size_t mapped_bytes_;
    flow::LiveSlot* first_;
    uint32_t slot_count_;
    uint32_t reserve_;  // slots kept for sharing
    uint32_t user_slots_;
    std::mutex mutex_;
    std::vector<uint32_t> free_;  // lowest last
    std::map<ShareKey, Share> shares_;
    std::map<flow::LiveSlot*, ShareKey> share_of_;
    Owners owners_;
    std::unordered_map<uint32_t, Owners::iterator> owner_of_;  // by session
    uint64_t next_shared_id_ = kSharedFlowIdBase;
    std::atomic<uint32_t> high_water_{0};
    std::atomic<uint32_t> in_use_{0};
    std::atomic<uint64_t> shared_flows_{0};
};

}  // namespace continuo::snapt::ledger
