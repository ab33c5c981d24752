#include "snapt/ledger/ledger_options.hpp"

#include <sys/statvfs.h>

namespace continuo::snapt::ledger {

namespace {

// Users that may use all their slots before others' flows must share.
constexpr uint32_t kUsersOfAllSlots = 8;

}  // namespace

std::optional<uint64_t> free_disk_bytes(const std::string& folder) {
    struct statvfs disk {};
    if (::statvfs(folder.c_str(), &disk) != 0) {
        return std::nullopt;
    }
    return uint64_t{disk.f_bavail} * disk.f_frsize;
}

LedgerOptions ledger_options(const settings::SnaptConfig& config,
                             const std::string& state_directory) {
    LedgerOptions options;
    options.state_directory = state_directory;
    options.snapt_id = config.name;
    options.interval_s = config.accounting.interval_s;
    options.checkpoint_s = config.accounting.checkpoint_s;
    options.live_slots = config.accounting.live_slots;
    options.destinations = config.accounting.destinations;
    options.user_records = config.accounting.user_records;
    options.is_aggregate = config.accounting.granularity == settings::Granularity::Aggregate;
    options.user_slots = config.accounting.live_slots / kUsersOfAllSlots;
    options.min_free_bytes = config.accounting.min_free_bytes;
    options.price_permille = config.accounting.price_permille;
    options.reserve_bytes = kReserveBytes;
    options.is_clock_synchronised = host::is_clock_synchronised;
    options.clocks = host::read_clocks;
    return options;
}

}  // namespace continuo::snapt::ledger
