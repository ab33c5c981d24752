// BindingJournal: the SNAPT of each flow, in a file that outlives the process: a restarted cnapt
// sends the packets of a flow to the SNAPT whose kernel NAT knows it. Flows are identified by a
// keyed fingerprint; the file is a table of buckets, and a full bucket overwrites one entry. One
// thread.
#pragma once

#include "common/base/random.hpp"
#include "common/io/mapped_file.hpp"
#include "common/packet/five_tuple.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace continuo::cnapt::admission {

class BindingJournal {
  public:
    // `flows`: least number of entries. A file of another program, version or size is replaced.
    // Errors: as MappedFile::open.
    static base::Result<BindingJournal>
    open(const std::string& path, size_t flows, base::Random& random);

    void bind(const packet::FiveTuple& flow, std::string_view snapt);
    void release(const packet::FiveTuple& flow);
    bool is_bound_to(const packet::FiveTuple& flow, std::string_view snapt) const;

  private:
    struct Header {
        uint64_t magic;
        uint64_t buckets;
        uint64_t key;
        uint64_t reserved;
    };
    struct Slot {
        uint64_t flow;   // 0: free
        uint64_t snapt;  // hash of its name
    };
    static constexpr size_t kBucketSlots = 8;

    explicit BindingJournal(io::MappedFile file) : file_(std::move(file)) {}
    Header& header() const;
    std::span<Slot> slots() const;
    std::span<Slot> bucket(uint64_t flow) const;
    Slot* find(uint64_t flow) const;
    uint64_t fingerprint(const packet::FiveTuple& flow) const;
    static uint64_t fingerprint(std::string_view snapt);

    io::MappedFile file_;
};

}  // namespace continuo::cnapt::admission
