// WorkerThread: one helper thread for work that must not run on a data loop (files, SQLite, nft,
// /proc, DNS, dictionaries). Work runs in order; its completion runs on the loop that owns the
// thread.
#pragma once

#include "common/io/event_loop.hpp"

#include <atomic>
#include <functional>
#include <memory>

namespace continuo::io {

class WorkerThread {
  public:
    // `loop` must outlive this. `name` is shown by ps (15 characters). `capacity`: most waiting
    // work. `niceness`: priority below the loop's where processors are short (nice(2)).
    WorkerThread(EventLoop& loop, const char* name, size_t capacity, int niceness = 0);
    WorkerThread(const WorkerThread&) = delete;
    WorkerThread& operator=(const WorkerThread&) = delete;
    // Waits for the work in progress; waiting work is dropped, and no more completions run.
    ~WorkerThread();

    // Alternative: leaves the thread to itself when its work may take long (a name look-up). It
    // ends with the work in progress or with the process, so that work must refer only to objects
    // that it owns.
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
