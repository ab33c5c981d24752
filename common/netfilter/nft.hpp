// nftables through libnftables: rule text is built elsewhere and applied here in one transaction.
// For start, stop and configuration only; takes milliseconds, so not on a data loop. One thread at
// a time per Nft object.
#pragma once

#include "common/base/result.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct nft_ctx;

namespace continuo::netfilter {

struct NftCounter {
    std::string name;
    uint64_t packets = 0;
    uint64_t bytes = 0;
};

class Nft {
  public:
    // Applies all of `ruleset_text` or nothing. Errors: System; error_text() has libnftables'
    // message.
    base::Result<void> apply(std::string_view ruleset_text);
    // Removes a table; no error when there is none. `table` as "inet continuo_cnapt_cnapt0".
    base::Result<void> remove_table(std::string_view table);
    // False where there is no such table, either. Errors: System.
    base::Result<bool> has_chain(std::string_view table, std::string_view chain);
    // All chains, with their hooks and policies and without rules, as nft's JSON.
    base::Result<std::string> list_chains_json();
    // The table as nft's JSON, without the elements of named sets. Errors: NotFound.
    base::Result<std::string> list_table_json(std::string_view table);
    // Named counters of a table. Errors: NotFound.
    base::Result<std::vector<NftCounter>> counters(std::string_view table);
    base::Result<NftCounter> counter(std::string_view table, std::string_view name);

    const std::string& error_text() const { return error_text_; }

  private:
    base::Result<std::string>
    run(std::string_view commands, unsigned output_flags, std::string_view where);

    std::string error_text_;
};

// A table that exists as long as this object and that no other program can change or flush: flag
// "owner", since Linux 5.12.
class OwnedTable {
  public:
    // `ruleset_text` creates one table with that flag. Errors: System.
    base::Result<void> make(std::string_view ruleset_text);
    void remove() { context_.reset(); }

  private:
    struct Free {
        void operator()(nft_ctx* context) const;
    };
    std::unique_ptr<nft_ctx, Free> context_;  // the owner
};

}  // namespace continuo::netfilter
