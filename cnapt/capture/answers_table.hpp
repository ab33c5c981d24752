// AnswersTable: the nftables table by which UDP servers on this host answer from the address that
// was asked (capture_answers.hpp). It stays while other rules are replaced: what it has kept of a
// peer is all that leads that peer's datagrams to a socket which was connected since.
#pragma once

#include "common/netfilter/netfilter.hpp"
#include "common/netfilter/nft.hpp"

#include <string>

namespace continuo::cnapt::capture {

class AnswersTable {
  public:
    // Makes `table` by that text, unless it is there as it was made. Errors: System, on kernels
    // without nft_socket, too; the table is then removed.
    base::Result<void> set(const std::string& table, const std::string& text);
    base::Result<void> remove(const std::string& table);
    // False where somebody has taken it, or a part of it, away.
    base::Result<bool> is_whole(const std::string& table) const;

  private:
    base::Result<void> make(const std::string& table, const std::string& text);

    netfilter::Nft nft_;
    std::string text_;  // made the table; empty: there is none
    size_t rules_ = 0;
};

}  // namespace continuo::cnapt::capture
