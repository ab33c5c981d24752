// The ledger's options as snapt.toml has them.
#pragma once

#include "snapt/accounting/ledger.hpp"
#include "snapt/snapt_config.hpp"

#include <string>

namespace continuo::snapt {

LedgerOptions ledger_options(const SnaptConfig& config, const std::string& state_directory);

}  // namespace continuo::snapt
