// ConnectionRoom: how many connections of nodes the kernel's connection tracking may have. Its
// table is shared: with this host's own connections, and between users. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace continuo::snapt::nat {

// The part of the table, as its divisor, that nodes leave to this host's own connections. A choice.
inline constexpr size_t kHostPartDivisor = 8;
// The part of the rest that one user may have, over all its sessions, leases and both IP versions.
// A choice.
inline constexpr size_t kUserPartDivisor = 4;
// Most connections of a user that the kernel has still to forget (GoneFlows), also as a part of
// what the user may have.
inline constexpr size_t kMostGone = 1024;
inline constexpr size_t kGonePartDivisor = 8;

// As the kernel tells it.
struct ConnectionTable {
    size_t places = 0;  // nf_conntrack_max
    size_t used = 0;    // nf_conntrack_count: those of this host, too

    bool operator==(const ConnectionTable&) const = default;
};

class ConnectionRoom {
  public:
    // `ours`: connections of nodes that are known here now. Half of the part of nodes is theirs,
    // whatever else fills the table: strangers who do that must not shut nodes out. In a table
    // that is full the kernel displaces connections without an answer.
    void set_table(const ConnectionTable& table, size_t ours) {
        table_ = table;
        const size_t with_ours = all() + ours;
        const size_t left = with_ours > table.used ? with_ours - table.used : 0;
        most_ = std::max({left, all() / 2, size_t{1}});
    }

    const std::optional<ConnectionTable>& table() const { return table_; }
    // Connections of all nodes at most, with what else the table has now. Nothing: not known.
    std::optional<size_t> most() const { return table_ ? std::optional(most_) : std::nullopt; }
    // Most connections of a user, in a table that nobody else uses; 0: not known.
    size_t of_user() const { return all() / kUserPartDivisor; }
    size_t gone() const {
        return table_ ? std::min(kMostGone, of_user() / kGonePartDivisor) : kMostGone;
    }
    // Flows of a user at most; as many connections may have none any more. `configured`, and the
    // result: 0 is no limit.
    size_t user_flows(size_t configured) const {
        if (!table_) {
            return configured;
        }
        const size_t by_table = std::max<size_t>((of_user() - gone()) / 2, 1);
        return configured == 0 ? by_table : std::min(configured, by_table);
    }

  private:
    // Part of the table that all nodes may have.
    size_t all() const { return table_ ? table_->places - table_->places / kHostPartDivisor : 0; }

    std::optional<ConnectionTable> table_;
    size_t most_ = 0;
};

}  // namespace continuo::snapt::nat
