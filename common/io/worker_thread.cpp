#include "common/io/worker_thread.hpp"

#include "common/io/capabilities.hpp"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

#include <pthread.h>
#include <sys/resource.h>

namespace continuo::io {

struct WorkerThread::Inner {
    struct Task {
        std::function<void()> work;
        std::function<void()> done;
    };

    EventLoop& loop;
    size_t capacity;
    mutable std::mutex mutex;  // guards the four below
    std::condition_variable changed;
    std::deque<Task> tasks;
    uint64_t refused = 0;
    bool stopping = false;
    bool owner_gone = false;  // loop thread only: completions that come later do nothing
    std::thread thread;

    Inner(EventLoop& on, size_t most) : loop(on), capacity(most) {}
    void stop();

    static void run(const std::shared_ptr<Inner>& self, int niceness) {
        if (niceness != 0) {
            static_cast<void>(::setpriority(PRIO_PROCESS, 0, niceness));  // 0: this thread
        }
        static_cast<void>(keep_capabilities(kNetworkRights));
        for (;;) {
            Task task;
            {
                std::unique_lock lock(self->mutex);
                self->changed.wait(lock, [&] { return self->stopping || !self->tasks.empty(); });
                if (self->stopping) {
                    return;
                }
                task = std::move(self->tasks.front());
                self->tasks.pop_front();
            }
            task.work();
            // Locked: once it is stopping the loop may be gone.
            const std::lock_guard lock(self->mutex);
            if (task.done && !self->stopping) {
                self->loop.post([self, done = std::move(task.done)] {
                    if (!self->owner_gone) {
                        done();
                    }
                });
            }
        }
    }
};

WorkerThread::WorkerThread(EventLoop& loop, const char* name, size_t capacity, int niceness)
    : inner_(std::make_shared<Inner>(loop, capacity)) {
    // Signals belong to the loop's thread.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    inner_->thread = std::thread([self = inner_, niceness] { Inner::run(self, niceness); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(inner_->thread.native_handle(), name);
}

void WorkerThread::Inner::stop() {
    {
        const std::lock_guard lock(mutex);
        stopping = true;
        owner_gone = true;
        tasks.clear();
    }
    changed.notify_all();
}

WorkerThread::~WorkerThread() {
    inner_->stop();
    if (inner_->thread.joinable()) {
        inner_->thread.join();
    }
}

void WorkerThread::abandon() {
    inner_->stop();
    if (inner_->thread.joinable()) {
        inner_->thread.detach();
    }
}

bool WorkerThread::submit(std::function<void()> work, std::function<void()> done) {
    {
        const std::lock_guard lock(inner_->mutex);
        if (inner_->tasks.size() >= inner_->capacity) {
            ++inner_->refused;
            return false;
        }
        inner_->tasks.push_back({std::move(work), std::move(done)});
    }
    inner_->changed.notify_one();
    return true;
}

size_t WorkerThread::waiting() const {
    const std::lock_guard lock(inner_->mutex);
    return inner_->tasks.size();
}

uint64_t WorkerThread::refused() const {
    const std::lock_guard lock(inner_->mutex);
    return inner_->refused;
}

}  // namespace continuo::io
