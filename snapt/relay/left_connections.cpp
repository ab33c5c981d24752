#include "snapt/relay/left_connections.hpp"

namespace continuo::snapt::relay {

using packet::FiveTuple;

namespace {

constexpr size_t kBuckets = 65'536;  // a power of two; half as many as there may be entries

base::Duration life_of(LeftConnections::Kind kind) {
    return kind == LeftConnections::Kind::Established ? LeftConnections::kLongLife
                                                      : LeftConnections::kShortLife;
}

}  // namespace

LeftConnections::LeftConnections(uint64_t hash_seed)
    : hash_seed_(hash_seed), buckets_(kBuckets, nullptr) {}

LeftConnections::Entry*& LeftConnections::bucket_of(const FiveTuple& tuple) {
    return buckets_[flow::keyed_hash(tuple, hash_seed_) & (kBuckets - 1)];
}

LeftConnections::Entry* LeftConnections::find(const FiveTuple& tuple) {
    Entry* entry = bucket_of(tuple);
    while (entry != nullptr && entry->tuple != tuple) {
        entry = entry->next_in_bucket;
    }
    return entry;
}

LeftConnections::List& LeftConnections::list_of(Entry& entry) {
    return entry.share->lists_[static_cast<size_t>(entry.kind)];
}

bool LeftConnections::add(const FiveTuple& tuple, Kind kind, Share& share, base::TimePoint now) {
    remove(tuple);  // a lease may have been another user's
    if (free_ == nullptr && entries_.size() >= kMost) {
        return false;
    }
    Entry* entry = free_ != nullptr ? free_ : &entries_.emplace_back();
    free_ = free_ != nullptr ? free_->next_in_bucket : nullptr;
    Entry*& bucket = bucket_of(tuple);
    *entry = {tuple, kind, &share, now, nullptr, nullptr, bucket};
    bucket = entry;
    List& list = list_of(*entry);
    entry->previous = list.newest;
    (list.newest == nullptr ? list.oldest : list.newest->next) = entry;
    list.newest = entry;
    ++share.count_;
    ++size_;
    return true;
}

void LeftConnections::remove(const FiveTuple& tuple) {
    if (Entry* entry = find(tuple)) {
        (void)take(*entry);
    }
}

FiveTuple LeftConnections::take(Entry& entry) {
    List& list = list_of(entry);
    (entry.previous == nullptr ? list.oldest : entry.previous->next) = entry.next;
    (entry.next == nullptr ? list.newest : entry.next->previous) = entry.previous;
    Entry** link = &bucket_of(entry.tuple);
    while (*link != &entry) {
        link = &(*link)->next_in_bucket;
    }
    *link = entry.next_in_bucket;
    --entry.share->count_;
    --size_;
    entry.next_in_bucket = free_;
    free_ = &entry;
    return entry.tuple;
}

std::optional<FiveTuple> LeftConnections::take_oldest(Share& share) {
    for (const List& list : share.lists_) {
        if (list.oldest != nullptr) {
            return take(*list.oldest);
        }
    }
    return std::nullopt;
}

std::optional<FiveTuple> LeftConnections::take_expired(Share& share, base::TimePoint now) {
    for (const List& list : share.lists_) {
        if (list.oldest != nullptr && now - list.oldest->left_at >= life_of(list.oldest->kind)) {
            return take(*list.oldest);
        }
    }
    return std::nullopt;
}

}  // namespace continuo::snapt::relay
