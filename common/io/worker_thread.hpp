// WorkerThread: one helper thread for what must not run on a data loop (files, SQLite, nft, /proc,
// DNS, dictionaries). Work runs in order; its completion runs on the loop that owns the thread.
#pragma once

#include "common/io/event_loop.hpp"

#include <atomic>
#include <functional>
#include <memory>

namespace continuo::io {

class WorkerThread {
  public:
    // `loop` must outlive this. `name` is what ps shows (15 characters). `capacity`: work waiting
    // at most. `niceness`: how far it stands back behind the loop where processors are short
    // (nice(2)).
    WorkerThread(EventLoop& loop, const char* name, size_t capacity, int niceness = 0);
    WorkerThread(const WorkerThread&) = delete;
    WorkerThread& operator=(const WorkerThread&) = delete;
    // Waits for the work in progress; what still waits is dropped, and no completion runs any more.
    ~WorkerThread();

    // Instead of that: leaves the thread to itself when its work may take long (a name look-up). It
    // ends with the work in progress or with the process; so that work may refer to nothing but
    // what it owns.
    void abandon();

    // Loop thread. `done` (may be empty) runs on the loop after `work`. False: full, both are
    // dropped and counted.
    bool submit(std::function<void()> work, std::function<void()> done = {});

    size_t waiting() const;
    uint64_t refused() const;

  private:
    struct Inner;
    std::shared_ptr<Inner> inner_;
};

}  // namespace continuo::io
