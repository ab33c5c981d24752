// ControlThread: an event loop on a thread of its own, which has no capabilities. For the parts of
// ControlServer.
#pragma once

#include "common/io/event_loop.hpp"
#include "common/io/privileges.hpp"

#include <thread>

#include <pthread.h>

namespace continuo::snapt {

class ControlThread {
  public:
    // `name` is what ps shows (15 characters).
    explicit ControlThread(const char* name) : name_(name) {}
    ControlThread(const ControlThread&) = delete;
    ControlThread& operator=(const ControlThread&) = delete;
    // As stop().
    ~ControlThread() { stop(); }

    io::EventLoop& loop() { return loop_; }
    bool is_running() const { return thread_.joinable(); }
    void start() {
        thread_ = std::thread([this] {
            static_cast<void>(io::keep_capabilities({}));
            loop_.run();
        });
        pthread_setname_np(thread_.native_handle(), name_);
    }
    // What was posted before still runs. Then the loop is the caller's, who may clear up.
    void stop() {
        if (thread_.joinable()) {
            loop_.stop();
            thread_.join();
        }
    }

  private:
    const char* name_;
    io::EventLoop loop_;
    std::thread thread_;
};

}  // namespace continuo::snapt
