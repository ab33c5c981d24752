// The ledger's options, and those that snapt.toml gives.
#pragma once

#include "common/host/clock_sync.hpp"
#include "snapt/ledger/live_file.hpp"
#include "snapt/settings/destinations.hpp"
#include "snapt/settings/snapt_config.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace continuo::snapt::ledger {

inline constexpr const char* kLiveFileName = "live";
inline constexpr const char* kReserveFileName = "reserve";
// Enough for the records of some hundred thousand flows. A choice, not measured.
inline constexpr uint64_t kReserveBytes = uint64_t{32} << 20;

std::optional<uint64_t> free_disk_bytes(const std::string& folder);

struct LedgerOptions {
    std::string state_directory;
    std::string snapt_id;
    std::string boot_id;        // empty: the kernel's
    uint32_t interval_s = 60;   // 1 to 900, divides 900
    uint32_t checkpoint_s = 5;  // between checkpoints; 0: there are none
    uint32_t live_slots = kDefaultLiveSlots;
    settings::Destinations destinations = settings::Destinations::None;
    // Most records of a user in an interval, beside one for each session and class; 0: any number.
    uint32_t user_records = 1000;
    bool is_aggregate = false;       // only merged records
    uint32_t user_slots = 0;         // as LiveFileOptions
    uint64_t min_free_bytes = 0;     // below this flows are merged; 0: never
    uint32_t price_permille = 1000;  // share of the plan's prices, for the records of this run
    // Disk space held back for when the disk is full; 0: none.
    uint64_t reserve_bytes = 0;
    // Free bytes of the disk that holds a folder; nothing: unknown.
    std::function<std::optional<uint64_t>(const std::string& folder)> free_bytes = free_disk_bytes;
    // Whether the wall clock is synchronised; asked until it is. Records before that, and those of
    // that interval, are marked.
    std::function<bool()> is_clock_synchronised{};  // empty: always
    // Asked at each tick. Empty: only a wall clock that goes back is noticed.
    std::function<std::optional<host::Clocks>()> clocks{};
};

LedgerOptions ledger_options(const settings::SnaptConfig& config,
                             const std::string& state_directory);

}  // namespace continuo::snapt::ledger
