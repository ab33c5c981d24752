// DiskReserve: a file that holds disk blocks for when no others are free. It is released once, so
// that due records can be written, and created again when the disk has room.
#pragma once

#include <cstdint>
#include <string>

namespace continuo::snapt::ledger {

class DiskReserve {
  public:
    // 0 bytes: no reserve.
    DiskReserve(std::string path, uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}
    // Creates the file if it is missing and at least `spare_bytes` of `free_bytes` would remain.
    // True when it was created.
    bool make(uint64_t free_bytes, uint64_t spare_bytes) const;
    // True: its blocks were freed. False: there was none.
    bool give_up() const;

  private:
    bool is_there() const;

    std::string path_;
    uint64_t bytes_;
};

}  // namespace continuo::snapt::ledger
