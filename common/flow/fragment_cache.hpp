// FragmentCache: the flow of an inner packet's fragments. Only the first fragment has ports; later
// ones have addresses and identification and are matched to it. Bounded: the oldest entry is
// displaced; an entry lives as long as a reassembly (RFC 791, RFC 8200 section 4.5: at most 60 s,
// Linux 30 s). One per user, so that users do not displace each other's fragments.
#pragma once

#include "common/base/time.hpp"
#include "common/packet/rewrite.hpp"

#include <optional>
#include <vector>

namespace continuo::flow {

class FragmentCache {
  public:
    static constexpr size_t kEntries = 256;
    static constexpr base::Duration kLifetime = base::seconds(30);

    explicit FragmentCache(size_t entries = kEntries) : entries_(entries) {}

    // Gives `summary` the ports of its packet's first fragment. False for a later fragment whose
    // first is not known; true for everything that is not a later fragment.
    bool resolve(packet::PacketSummary& summary, base::TimePoint now) {
        if (!summary.is_fragment) {
            return true;
        }
        if (summary.is_first_fragment) {
            Entry& entry = entries_[next_++ % entries_.size()];
            entry = {summary.tuple, summary.fragment_id, now, true};
            return true;
        }
        for (const Entry& entry : entries_) {
            if (entry.in_use && entry.id == summary.fragment_id && now - entry.at < kLifetime &&
                entry.tuple.local == summary.tuple.local &&
                entry.tuple.remote == summary.tuple.remote &&
                entry.tuple.protocol == summary.tuple.protocol) {
                summary.tuple = entry.tuple;
                return true;
            }
        }
        return false;
    }

  private:
    struct Entry {
        packet::FiveTuple tuple;
        uint32_t id = 0;
        base::TimePoint at{};
        bool in_use = false;
    };
    std::vector<Entry> entries_;
    size_t next_ = 0;
};

}  // namespace continuo::flow
