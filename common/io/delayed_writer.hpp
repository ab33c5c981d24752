// DelayedWriter: writes bytes of a data loop to a file. The loop fills one buffer while a helper
// thread writes the other, so that a slow disk never delays it; bytes without room are refused.
// Owner and thread: the data loop.
#pragma once

#include "common/base/bytes.hpp"
#include "common/io/event_loop.hpp"
#include "common/io/unique_fd.hpp"
#include "common/io/worker_thread.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>

namespace continuo::io {

// Size of each of the two buffers.
inline constexpr size_t kDelayedBytes = size_t{4} << 20;
// This much is written at once...
inline constexpr size_t kDelayedEnough = size_t{1} << 20;
// ...and less after this time.
inline constexpr base::Duration kLongestDelay = base::milliseconds(100);

// A regular file that only its owner may read (mode 0600, even if it existed), locked against a
// second writer until it is closed. With `append` its content stays, otherwise it is emptied.
// Errors: InvalidState (locked, or no regular file), System.
base::Result<UniqueFd> open_private_file(const std::string& path, bool append);
// Writes the whole text. Errors: System.
base::Result<void> append_text(const UniqueFd& file, std::string_view text);

class DelayedWriter {
  public:
    // `loop` must outlive this. `on_failure` is called once, on the loop, with errno: the disk
    // refused data. The file keeps its previous end, and everything is refused from then on.
    DelayedWriter(EventLoop& loop, UniqueFd file, std::function<void(int)> on_failure);
    DelayedWriter(const DelayedWriter&) = delete;
    DelayedWriter& operator=(const DelayedWriter&) = delete;
    ~DelayedWriter();

    // Room for `bytes`, which the caller must fill at once; empty: refused.
    base::MutableByteView reserve(size_t bytes);
    bool has_failed() const { return has_failed_; }
    // Writes the rest, and may wait for it. Returns 0, or errno of an unreported failure. The
    // destructor calls it if nobody did.
    int finish();

  private:
    struct Buffer {
        std::unique_ptr<uint8_t[]> bytes;
        size_t used = 0;
    };
    void flush();
    void write(Buffer& buffer);
    void on_written();

    EventLoop& loop_;
    UniqueFd file_;
    std::function<void(int)> on_failure_;
    std::array<Buffer, 2> buffers_;
    size_t filling_ = 0;
    bool is_writing_ = false;
    bool has_failed_ = false;
    // State of the other buffer, while is_writing_: set by the helper thread.
    std::atomic<bool> is_done_ = false;
    std::atomic<int> error_ = 0;
    DeadlineTimer timer_;
    std::unique_ptr<WorkerThread> worker_;
};

}  // namespace continuo::io
