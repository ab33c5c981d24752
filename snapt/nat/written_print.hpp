// written_print: a fingerprint of an nftables table just after writing it, though others may change
// or remove it at any time. Pure.
#pragma once

#include "common/base/result.hpp"

#include <cstdint>
#include <functional>

namespace continuo::snapt::nat {

// Most attempts to write a table without a concurrent change of nftables. A choice, not measured:
// with 20 changes of others a second, one attempt in five is disturbed.
inline constexpr unsigned kMaxWrites = 4;

struct TableAccess {
    // Generation of the whole nftables ruleset; rises by one with each change.
    std::function<base::Result<uint32_t>()> generation;
    // Changes made: 0 if the table existed, else 1.
    std::function<base::Result<uint32_t>()> write;
    // 0: there is no table.
    std::function<base::Result<uint64_t>()> print;
};

// Writes the table and returns its print; 0 when others disturbed each attempt, or the table is
// gone: its state is unknown, and it must be written again later.
inline base::Result<uint64_t> written_print(const TableAccess& table,
                                            unsigned max_writes = kMaxWrites) {
    for (unsigned i = 0; i < max_writes; ++i) {
        const uint32_t before = CTN_TRY(table.generation());
        const uint32_t changes = CTN_TRY(table.write());
        const uint64_t print = CTN_TRY(table.print());
        const uint32_t after = CTN_TRY(table.generation());
        if (after - before == changes && print != 0) {
            return print;
        }
    }
    return uint64_t{0};
}

}  // namespace continuo::snapt::nat
