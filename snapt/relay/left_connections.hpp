// LeftConnections: connections that the kernel's connection tracking has and that have no flow any
// more, so that they can go on: after their session has ended, or after a pause that is longer than
// the flow table's. Per user there is a limit, above which the oldest gives way; so a user's part
// of the kernel's table is bounded, whatever its sessions, leases and IP versions. Pure.
#pragma once

#include "common/base/time.hpp"
#include "common/flow/flow_table.hpp"
#include "common/packet/five_tuple.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace continuo::snapt::relay {

class LeftConnections {
  public:
    // In the order in which they give way.
    enum class Kind : uint8_t {
        Unanswered,   // UDP whose late answer may pass
        Short,        // answered UDP and ICMP, closed TCP
        Established,  // TCP
    };
    static constexpr size_t kKinds = 3;
    // The kernel remembers none of them for longer (dataplane::conntrack_timeouts).
    static constexpr base::Duration kShortLife = base::seconds(300);
    static constexpr base::Duration kLongLife = flow::timeout::kTcpEstablished;
    // Most of all users: some 12 MB. Further ones do not stay.
    static constexpr size_t kMost = 131'072;

  private:
    struct Entry;
    struct List {
        Entry* oldest = nullptr;
        Entry* newest = nullptr;
    };

  public:
    // The connections of one user. Must live until it is empty.
    class Share {
      public:
        size_t count() const { return count_; }

      private:
        friend class LeftConnections;
        std::array<List, kKinds> lists_;
        size_t count_ = 0;
    };

    explicit LeftConnections(uint64_t hash_seed);
    LeftConnections(const LeftConnections&) = delete;
    LeftConnections& operator=(const LeftConnections&) = delete;

    // Returns false if there is no place. A known one is the newest again.
    bool add(const packet::FiveTuple& tuple, Kind kind, Share& share, base::TimePoint now);
    // It has a flow again, or is forgotten.
    void remove(const packet::FiveTuple& tuple);
    // Removes the one of that user that gives way first. Nothing: it has none.
    std::optional<packet::FiveTuple> take_oldest(Share& share);
    // The same for one whose life is over.
    std::optional<packet::FiveTuple> take_expired(Share& share, base::TimePoint now);

    size_t size() const { return size_; }

  private:
    struct Entry {
        packet::FiveTuple tuple;
        Kind kind = Kind::Short;
        Share* share = nullptr;
        base::TimePoint left_at{};
        Entry* next = nullptr;  // in its list
        Entry* previous = nullptr;
        Entry* next_in_bucket = nullptr;  // or free
    };

    Entry*& bucket_of(const packet::FiveTuple& tuple);
    Entry* find(const packet::FiveTuple& tuple);
    static List& list_of(Entry& entry);
    packet::FiveTuple take(Entry& entry);

    uint64_t hash_seed_;
    std::vector<Entry*> buckets_;
    std::deque<Entry> entries_;  // grows, and stays
    Entry* free_ = nullptr;
    size_t size_ = 0;
};

}  // namespace continuo::snapt::relay
