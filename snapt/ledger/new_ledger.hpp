// Replacement of a damaged database.
#pragma once

#include "common/base/result.hpp"

#include <optional>
#include <string>

namespace continuo::snapt::ledger {

// Reads all of ledger.db, of whatever version. When it is damaged, moves it with its log to
// ledger.db.damaged-SECONDS and puts an empty one in its place, and gives the path of the old one;
// nothing when it is not damaged, or there is none. Epochs and accounts are numbered from the
// seconds since 1970 on, beyond any that the old one gave: no record has the key of an earlier one.
// Counters in `live` belong to sessions that are not known any more, and are given up. InvalidState
// while a snapt uses the folder, Unsupported when it is of a newer version, System when the disk
// cannot be read.
base::Result<std::optional<std::string>>
set_damaged_ledger_aside(const std::string& state_directory, int64_t now_us);

}  // namespace continuo::snapt::ledger
