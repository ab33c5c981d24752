#include "snapt/ledger/live_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::snapt::ledger {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using flow::LiveSlot;
using flow::SlotState;

// Inverse of the share of slots reserved for sharing.
constexpr uint32_t kReserveShare = 16;

static_assert(sizeof(LiveFileHeader) <= kLiveHeaderBytes);

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    int get() const { return fd_; }

  private:
    int fd_;
};

Error system_error(std::string_view where, int code = errno) {
    return {Errc::System, where, code};
}

template <size_t N>
bool copy_text(char (&to)[N], const std::string& from) {
    if (from.size() >= N) {
        return false;
    }
    std::memcpy(to, from.data(), from.size());
    return true;
}

Result<void> sync_folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0 || ::fsync(fd.get()) != 0) {
        return system_error("live file: folder cannot be synced");
    }
    return {};
}

// Fills `bytes`; false at the end of the file or on an error.
bool read_at(int fd, base::MutableByteView bytes, size_t offset) {
    while (!bytes.empty()) {
        const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        bytes = bytes.subspan(static_cast<size_t>(got));
        offset += static_cast<size_t>(got);
    }
    return true;
}

SlotImage image_of(const LiveSlot& slot) {
    SlotImage image;
    // The state is read first: a closed slot does not change any more.
    image.state = static_cast<uint32_t>(slot.state.load(std::memory_order_acquire));
    image.session_number = slot.session_number;
    image.flow_id = slot.flow_id;
    image.traffic_class = slot.traffic_class;
    image.protocol = slot.protocol;
    image.app = slot.app;
    image.remote_port = slot.remote_port;
    image.remote_is_v6 = slot.remote_is_v6;
    image.close_cause = image.is_closed() ? slot.close_cause : uint8_t{0};
    image.opened_at_us = slot.opened_at_us;
    image.last_at_us = slot.last_at_us.load(std::memory_order_relaxed);
    std::copy(std::begin(slot.remote_address), std::end(slot.remote_address),
              image.remote_address.begin());
    image.counters = flow::read_counters(slot.counters);
    return image;
}

bool is_ours(const LiveFileHeader& header) {
    return header.magic == kLiveFileMagic && header.version == kLiveFileVersion &&
           header.slot_bytes == sizeof(LiveSlot) && header.slots > 0 &&
           header.slots <= kMaxLiveSlots && header.epoch >= 0 &&
           std::memchr(header.boot_id, 0, sizeof header.boot_id) != nullptr &&
           std::memchr(header.snapt_id, 0, sizeof header.snapt_id) != nullptr;
}

}  // namespace

Result<std::unique_ptr<LiveFile>> LiveFile::create(const std::string& path,
                                                   const LiveFileOptions& options) {
    LiveFileHeader header;
    header.slots = options.slots;
    header.epoch = options.epoch;
    if (options.slots == 0 || options.slots > kMaxLiveSlots ||
        !copy_text(header.boot_id, options.boot_id) ||
        !copy_text(header.snapt_id, options.snapt_id)) {
        return Error{Errc::InvalidConfig, "live file: number of slots or name out of range", 0};
    }
    const std::string fresh = path + ".new";
    const Descriptor fd(::open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd.get() < 0) {
        return system_error("live file cannot be created");
    }
    const size_t bytes = kLiveHeaderBytes + size_t{options.slots} * sizeof(LiveSlot);
    // Blocks are allocated now, so that writes through the mapping never meet a full disk.
    if (const int code = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); code != 0) {
        ::unlink(fresh.c_str());
        return system_error("live file: no room on the disk", code);
    }
    void* mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (mapping == MAP_FAILED) {
        return system_error("live file cannot be mapped");
    }
    std::unique_ptr<LiveFile> file(new LiveFile(mapping, bytes, options));
    std::memcpy(mapping, &header, sizeof header);
    if (::fsync(fd.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
        return system_error("live file cannot be put in place");
    }
    CTN_TRY(sync_folder_of(path));
    return file;
}

namespace {

Result<LiveFileHeader> header_of(const Descriptor& fd) {
    if (fd.get() < 0) {
        return Error{errno == ENOENT ? Errc::NotFound : Errc::System, "live file", errno};
    }
    std::array<uint8_t, sizeof(LiveFileHeader)> bytes{};
    errno = 0;
    if (!read_at(fd.get(), bytes, 0)) {
        return errno != 0 ? system_error("live file cannot be read")
                          : Error{Errc::Malformed, "live file is too short", 0};
    }
    LiveFileHeader header;
    std::memcpy(&header, bytes.data(), bytes.size());
    if (!is_ours(header)) {
        return Error{Errc::Malformed, "live file is of another program or version", 0};
    }
    return header;
}

}  // namespace

Result<LiveFileHeader> LiveFile::read_header(const std::string& path) {
    return header_of(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
}

Result<LiveRemains> LiveFile::read_remains(const std::string& path) {
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    LiveRemains remains;
    remains.header = CTN_TRY(header_of(fd));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) {
        return system_error("live file cannot be read");
    }
    const auto slots = static_cast<size_t>(remains.header.slots);
    if (static_cast<uint64_t>(status.st_size) < kLiveHeaderBytes + slots * sizeof(LiveSlot)) {
        return Error{Errc::Malformed, "live file is too short", 0};
    }
    constexpr size_t kChunk = 1024;
    std::vector<LiveSlot> chunk(kChunk);
    for (size_t first = 0; first < slots; first += kChunk) {
        const size_t count = std::min(kChunk, slots - first);
        // LiveSlot is plain words in a fixed layout; this copy is private.
        const base::MutableByteView bytes{reinterpret_cast<uint8_t*>(chunk.data()),
                                          count * sizeof(LiveSlot)};
        if (!read_at(fd.get(), bytes, kLiveHeaderBytes + first * sizeof(LiveSlot))) {
            return system_error("live file cannot be read");
        }
        for (size_t i = 0; i < count; ++i) {
            const SlotImage image = image_of(chunk[i]);
            if (image.state == static_cast<uint32_t>(SlotState::Open) || image.is_closed()) {
                remains.slots.push_back(image);
            }
        }
    }
    return remains;
}

LiveFile::LiveFile(void* mapping, size_t mapped_bytes, const LiveFileOptions& options)
    : mapping_(mapping)
    , mapped_bytes_(mapped_bytes)
    , first_(reinterpret_cast<LiveSlot*>(static_cast<uint8_t*>(mapping) + kLiveHeaderBytes))
    , slot_count_(options.slots)
    , reserve_(std::min(options.slots - 1, std::max(options.slots / kReserveShare, 4U)))
    , user_slots_(options.user_slots != 0 ? options.user_slots : options.slots)
    , free_(options.slots) {
    for (uint32_t i = 0; i < options.slots; ++i) {
        free_[i] = options.slots - 1 - i;
    }
}

LiveFile::~LiveFile() {
    ::munmap(mapping_, mapped_bytes_);
}

LiveSlot* LiveFile::open_free(const flow::SlotRequest& request) {
    const uint32_t index = free_.back();
    free_.pop_back();
    if (index >= high_water_.load(std::memory_order_relaxed)) {
        high_water_.store(index + 1, std::memory_order_release);
    }
    in_use_.fetch_add(1, std::memory_order_relaxed);
    if (Owner* owner = owner_of(request.session_number)) {
        ++owner->slots;
    }
    flow::open_slot(first_[index], request);
    return &first_[index];
}

LiveSlot* LiveFile::take(const flow::SlotRequest& request) {
    const std::lock_guard lock(mutex_);
    const bool has_room = free_.size() > reserve_ && may_have_own(request.session_number);
    return has_room ? open_free(request) : share(request);
}

LiveFile::Owner* LiveFile::owner_of(uint32_t session_number) {
    const auto found = owner_of_.find(session_number);
    return found == owner_of_.end() ? nullptr : &found->second->second;
}

bool LiveFile::may_have_own(uint32_t session_number) {
    const Owner* owner = owner_of(session_number);
    return owner == nullptr || (owner->slots < user_slots_ && owner->unsealed < kMaxUnsealedSlots);
}

void LiveFile::set_owner(uint32_t session_number, const std::string& user) {
    const std::lock_guard lock(mutex_);
    const auto owner = owners_.try_emplace(user).first;
    if (owner_of_.emplace(session_number, owner).second) {
        ++owner->second.sessions;
    }
}

void LiveFile::forget_owner(uint32_t session_number) {
    const std::lock_guard lock(mutex_);
    const auto found = owner_of_.find(session_number);
    if (found == owner_of_.end()) {
        return;
    }
    if (--found->second->second.sessions == 0) {
        owners_.erase(found->second);
    }
    owner_of_.erase(found);
}

LiveSlot* LiveFile::share(const flow::SlotRequest& request) {
    const ShareKey key{request.session_number, request.traffic_class, request.writer};
    auto found = shares_.find(key);
    if (found == shares_.end()) {
        if (free_.empty()) {
            return nullptr;
        }
        flow::SlotRequest all = request;
        all.flow_id = next_shared_id_++;
        all.protocol = 0;
        all.app = 0;
        all.remote = {};
        all.remote_port = 0;
        LiveSlot* slot = open_free(all);
        found = shares_.emplace(key, Share{slot, 0}).first;
        share_of_.emplace(slot, key);
    }
    ++found->second.flows;
    shared_flows_.fetch_add(1, std::memory_order_relaxed);
    return found->second.slot;
}

void LiveFile::release(LiveSlot* slot, flow::Cause cause) {
    const std::lock_guard lock(mutex_);
    CTN_ASSERT(slot->state.load(std::memory_order_relaxed) == SlotState::Open);
    if (const auto shared = share_of_.find(slot); shared != share_of_.end()) {
        --shares_.find(shared->second)->second.flows;
        return;
    }
    close(*slot, cause);
}

void LiveFile::close(LiveSlot& slot, flow::Cause cause) {
    if (Owner* owner = owner_of(slot.session_number)) {
        ++owner->unsealed;
    }
    slot.close_cause = static_cast<uint8_t>(cause);
    slot.state.store(SlotState::Closed, std::memory_order_release);
}

void LiveFile::close_idle_shares() {
    const std::lock_guard lock(mutex_);
    for (auto share = shares_.begin(); share != shares_.end();) {
        if (share->second.flows > 0) {
            ++share;
            continue;
        }
        close(*share->second.slot, flow::Cause::Closed);
        share_of_.erase(share->second.slot);
        share = shares_.erase(share);
    }
}

bool LiveFile::read(uint32_t slot, SlotImage& image) const {
    if (first_[slot].state.load(std::memory_order_acquire) == SlotState::Free) {
        return false;
    }
    image = image_of(first_[slot]);
    return true;
}

uint32_t LiveFile::session_of(uint32_t slot) const {
    const bool is_free = first_[slot].state.load(std::memory_order_acquire) == SlotState::Free;
    return is_free ? 0 : first_[slot].session_number;
}

// Closed slots are the caller's alone until they are in `free_`: no loop waits for what is done of
// each.
void LiveFile::free_slots(std::span<const uint32_t> slots) {
    std::unordered_map<uint32_t, uint32_t> of_session;
    for (const uint32_t slot : slots) {
        CTN_ASSERT(first_[slot].state.load(std::memory_order_relaxed) == SlotState::Closed);
        ++of_session[first_[slot].session_number];
        first_[slot].state.store(SlotState::Free, std::memory_order_release);
    }
    const std::lock_guard lock(mutex_);
    free_.insert(free_.end(), slots.begin(), slots.end());
    for (const auto& [session_number, count] : of_session) {
        if (Owner* owner = owner_of(session_number)) {
            owner->slots -= count;
            owner->unsealed -= count;
        }
    }
    in_use_.fetch_sub(static_cast<uint32_t>(slots.size()), std::memory_order_relaxed);
}

}  // namespace continuo::snapt::ledger
