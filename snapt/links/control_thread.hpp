// ControlThread: an event loop on its own thread without capabilities, for the parts of
// ControlServer.
#pragma once

#include "common/host/privileges.hpp"
#include "common/io/event_loop.hpp"

#include <future>
#include <thread>

#include <pthread.h>
#include <sys/resource.h>

namespace continuo::snapt::links {

class ControlThread {
  public:
    // `name` is shown by ps (15 characters). `niceness`: priority below the data loop's (nice(2)),
    // where processors are short.
    ControlThread(const char* name, int niceness) : name_(name), niceness_(niceness) {}
    ControlThread(const ControlThread&) = delete;
    ControlThread& operator=(const ControlThread&) = delete;
    // As stop().
    ~ControlThread() { stop(); }

    io::EventLoop& loop() { return loop_; }
    bool is_running() const { return thread_.joinable(); }
    void start() {
        std::promise<void> ready;  // system calls are restricted soon
        thread_ = std::thread([this, &ready] {
            static_cast<void>(io::keep_capabilities({}));
            static_cast<void>(::setpriority(PRIO_PROCESS, 0, niceness_));  // 0: this thread
            ready.set_value();
            loop_.run();
        });
        ready.get_future().wait();
        pthread_setname_np(thread_.native_handle(), name_);
    }
    // Functions posted before still run. Then the loop belongs to the caller, for cleanup.
    void stop() {
        if (thread_.joinable()) {
            loop_.stop();
            thread_.join();
        }
    }

  private:
    const char* name_;
    int niceness_;
    io::EventLoop loop_;
    std::thread thread_;
};

}  // namespace continuo::snapt::links
