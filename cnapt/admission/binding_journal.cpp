#include "cnapt/admission/binding_journal.hpp"

#include "common/flow/flow_table.hpp"

#include <algorithm>
#include <bit>

namespace continuo::cnapt::admission {

namespace {

constexpr uint64_t kMagic = 0x31444E49424E5443;  // "CTNBIND1" in memory

}  // namespace

base::Result<BindingJournal>
BindingJournal::open(const std::string& path, size_t flows, base::Random& random) {
    // Half as many slots again: buckets fill unevenly.
    const size_t buckets = std::bit_ceil(std::max<size_t>(1, flows * 3 / 2 / kBucketSlots));
    const size_t bytes = sizeof(Header) + buckets * kBucketSlots * sizeof(Slot);
    BindingJournal journal(CTN_TRY(io::MappedFile::open(path, bytes)));
    Header& header = journal.header();
    if (header.magic != kMagic || header.buckets != buckets) {
        const base::MutableByteView all = journal.file_.bytes();
        std::fill(all.begin(), all.end(), uint8_t{0});
        header = {kMagic, buckets, random.u64(), 0};
    }
    return journal;
}

// The mapping is page-aligned, so both are aligned.
BindingJournal::Header& BindingJournal::header() const {
    return *reinterpret_cast<Header*>(file_.bytes().data());
}

std::span<BindingJournal::Slot> BindingJournal::slots() const {
    const base::MutableByteView rest = file_.bytes().subspan(sizeof(Header));
    return {reinterpret_cast<Slot*>(rest.data()), rest.size() / sizeof(Slot)};
}

std::span<BindingJournal::Slot> BindingJournal::bucket(uint64_t flow) const {
    const size_t buckets = slots().size() / kBucketSlots;
    return slots().subspan((flow & (buckets - 1)) * kBucketSlots, kBucketSlots);
}

BindingJournal::Slot* BindingJournal::find(uint64_t flow) const {
    const auto slots = bucket(flow);
    const auto found = std::find_if(slots.begin(), slots.end(),
                                    [&](const Slot& slot) { return slot.flow == flow; });
    return found == slots.end() ? nullptr : &*found;
}

uint64_t BindingJournal::fingerprint(const packet::FiveTuple& flow) const {
    return std::max<uint64_t>(1, flow::keyed_hash(flow, header().key));
}

uint64_t BindingJournal::fingerprint(std::string_view snapt) {
    // FNV-1a is enough: names come from the configuration and from SNAPTs named there.
    uint64_t hash = 0xCBF29CE484222325;
    for (const char letter : snapt) {
        hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001B3;
    }
    return hash;
}

void BindingJournal::bind(const packet::FiveTuple& flow, std::string_view snapt) {
    const uint64_t print = fingerprint(flow);
    Slot* place = find(print);
    if (place == nullptr) {
        const auto slots = bucket(print);
        const auto free = std::find_if(slots.begin(), slots.end(),
                                       [](const Slot& slot) { return slot.flow == 0; });
        constexpr unsigned kUnusedBits = 40;  // the bucket takes lower ones
        place = free == slots.end() ? &slots[print >> kUnusedBits & (kBucketSlots - 1)] : &*free;
    }
    // A process killed between the two writes leaves a slot that fits no SNAPT.
    place->snapt = 0;
    place->flow = print;
    place->snapt = fingerprint(snapt);
}

void BindingJournal::release(const packet::FiveTuple& flow) {
    if (Slot* slot = find(fingerprint(flow))) {
        *slot = {};
    }
}

bool BindingJournal::is_bound_to(const packet::FiveTuple& flow, std::string_view snapt) const {
    const Slot* slot = find(fingerprint(flow));
    return slot != nullptr && slot->snapt == fingerprint(snapt);
}

}  // namespace continuo::cnapt::admission
