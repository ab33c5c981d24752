// NatWatch: keeps a NatLog of what the kernel translates for leases, on a thread of its own.
#pragma once

#include "common/io/connection_monitor.hpp"
#include "snapt/accounting/lease_store.hpp"
#include "snapt/nat_log.hpp"
#include "snapt/snapt_config.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace continuo::snapt {

// It stands back behind what carries data. A choice, not measured.
inline constexpr int kNatNiceness = 5;
// The list of all connections is compared with what is known: so often, as nobody tells the end of
// those that began before; and at once, but not sooner after the last time, when some were not
// read.
inline constexpr int64_t kNatListUs = 600'000'000;
inline constexpr int64_t kNatShortestListUs = 5'000'000;

class NatWatch {
  public:
    // `leases`: prefixes of the sources that are logged. `owners` must outlive this.
    NatWatch(NatLogOptions options, std::vector<base::IpPrefix> leases, const NatOwners& owners)
        : leases_(std::move(leases)), log_(std::move(options), owners) {}
    NatWatch(const NatWatch&) = delete;
    NatWatch& operator=(const NatWatch&) = delete;
    ~NatWatch() { stop(); }

    // Before capabilities are reduced to those of the data loop. Errors: System.
    base::Result<void> start();
    // Writes the end.
    void stop();
    // Of about a second ago. Any thread.
    NatLogCounters counters() const;

  private:
    void run();
    void list_all(int64_t now_us);
    bool is_meant(const io::TrackedConnection& connection) const;

    const std::vector<base::IpPrefix> leases_;
    NatLog log_;
    std::optional<io::ConnectionMonitor> monitor_;
    std::optional<io::NetfilterClient> client_;
    std::atomic<bool> is_ending_{false};
    mutable std::mutex mutex_;
    NatLogCounters counters_;
    std::thread thread_;
};

// As the configuration says, with the owners of all leases; null: nothing is to be logged. Before
// sessions carry anything. Errors: as of start(), and those of the database.
base::Result<std::unique_ptr<NatWatch>> start_nat_watch(const SnaptConfig& config,
                                                        LeaseStore& leases,
                                                        const std::string& state_directory,
                                                        NatOwners& owners);

}  // namespace continuo::snapt
