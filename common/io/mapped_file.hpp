// MappedFile: a file of fixed size in memory, shared with the disk. Written data survives the
// process, not a loss of power. Its blocks are allocated when it is opened, so that writing never
// meets a full disk.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"

#include <string>
#include <utility>

namespace continuo::io {

class MappedFile {
  public:
    // Creates it, mode 0600, or opens the existing one; it is extended with zeros, or cut, to
    // `bytes`. Errors: System (`where` says what).
    static base::Result<MappedFile> open(const std::string& path, size_t bytes);
    MappedFile(MappedFile&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    MappedFile& operator=(MappedFile&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~MappedFile();

    base::MutableByteView bytes() const { return {data_, bytes_}; }

  private:
    MappedFile(uint8_t* data, size_t bytes) : data_(data), bytes_(bytes) {}

    uint8_t* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace continuo::io
