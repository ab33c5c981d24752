// The ledger's options as snapt.toml has them.
#pragma once

#include "snapt/ledger/ledger.hpp"
#include "snapt/settings/snapt_config.hpp"

#include <string>

namespace continuo::snapt::ledger {

LedgerOptions ledger_options(const settings::SnaptConfig& config,
                             const std::string& state_directory);

}  // namespace continuo::snapt::ledger
