// Network namespaces inside a test process, for tests that need root: each thread lives in one at a
// time, sockets stay in the one they were opened in. Nothing outside is touched, and all goes with
// the process.
#pragma once

#include "common/io/unique_fd.hpp"

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace continuo::test {

class NetNamespace {
  public:
    // A new one, with loopback up; nothing when that is not permitted.
    static std::optional<NetNamespace> create() {
        io::UniqueFd before = current();
        if (::unshare(CLONE_NEWNET) != 0) {
            return std::nullopt;
        }
        NetNamespace made(current());
        const bool has_loopback = std::system("ip link set lo up") == 0;
        const bool is_back = ::setns(before.value(), CLONE_NEWNET) == 0;
        return has_loopback && is_back ? std::optional(std::move(made)) : std::nullopt;
    }

    // Runs `function` inside.
    template <typename Function>
    auto run(Function function) const {
        const Visit visit(*this);
        return function();
    }
    // A shell command inside; true when it exits 0.
    bool shell(const std::string& command) const {
        return run([&] { return std::system(command.c_str()) == 0; });
    }
    // "/proc/PID/fd/N": names this namespace for `ip link set X netns`.
    std::string path() const {
        return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.value());
    }

    class Visit {
      public:
        explicit Visit(const NetNamespace& to) : before_(current()) {
            EXPECT_EQ(::setns(to.fd_.value(), CLONE_NEWNET), 0);
        }
        Visit(const Visit&) = delete;
        Visit& operator=(const Visit&) = delete;
        ~Visit() { EXPECT_EQ(::setns(before_.value(), CLONE_NEWNET), 0); }

      private:
        io::UniqueFd before_;
    };

  private:
    explicit NetNamespace(io::UniqueFd fd) : fd_(std::move(fd)) {}
    static io::UniqueFd current() {
        return io::UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    }

    io::UniqueFd fd_;
};

// A test in a namespace of its own; skipped where that is not permitted.
class NetNamespaceTest : public testing::Test {
  protected:
    void SetUp() override {
        namespace_ = NetNamespace::create();
        if (!namespace_) {
            GTEST_SKIP() << "needs CAP_SYS_ADMIN and iproute2 for a network namespace";
        }
        visit_.emplace(*namespace_);
    }
    void TearDown() override {
        visit_.reset();
        namespace_.reset();
    }
    const NetNamespace& net() const { return *namespace_; }

  private:
    std::optional<NetNamespace> namespace_;
    std::optional<NetNamespace::Visit> visit_;
};

}  // namespace continuo::test
