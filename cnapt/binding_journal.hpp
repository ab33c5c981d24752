// BindingJournal: which SNAPT each flow is bound to, in a file that outlives the process: cnapt
// that was killed and started again sends the packets of a flow where the kernel NAT knows it.
// Flows are known by a keyed fingerprint; the file is a table with buckets, and a full bucket
// forgets one. One thread.
#pragma once

#include "common/base/random.hpp"
#include "common/io/mapped_file.hpp"
#include "common/packet/five_tuple.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace continuo::cnapt {

class BindingJournal {
  public:
    // Room for `flows` at least. A file of another program, version or size begins anew. Errors: as
    // MappedFile::open.
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
        uint64_t snapt;  // of its name
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

}  // namespace continuo::cnapt
