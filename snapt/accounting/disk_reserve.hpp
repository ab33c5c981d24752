// DiskReserve: a file that holds blocks of the disk until there are no others. It is given up once,
// so that what is due can be written, and made again when the disk has room.
#pragma once

#include <cstdint>
#include <string>

namespace continuo::snapt {

class DiskReserve {
  public:
    // 0 bytes: there is none.
    DiskReserve(std::string path, uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}
    // Makes it, if it is missing and at least `spare_bytes` of `free_bytes` remain beside it. True
    // when it was made.
    bool make(uint64_t free_bytes, uint64_t spare_bytes) const;
    // True: its blocks are free now. False: there was none.
    bool give_up() const;

  private:
    bool is_there() const;

    std::string path_;
    uint64_t bytes_;
};

}  // namespace continuo::snapt
