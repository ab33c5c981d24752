#include "common/host/privileges.hpp"
#include "common/io/file.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::host {
namespace {

// Irrevocable changes happen in a process of their own. Gives its exit code.
int in_child(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(work());
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

constexpr int kNoFilter = 77;

int filtered(const std::function<int()>& work) {
    return in_child([&] {
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        return filter_system_calls() ? work() : kNoFilter;
    });
}

// 0: refused with EPERM.
template <typename... Arguments>
int refusal(long number, Arguments... arguments) {
    errno = 0;
    return ::syscall(number, arguments...) == -1 && errno == EPERM ? 0 : 1;
}

TEST(Privileges, FilterRefusesWhatADaemonNeverDoes) {
    std::array<const char*, 2> program = {"/bin/true", nullptr};
    std::array<const char*, 1> environment = {nullptr};
    EXPECT_EQ(filtered([&] {
                  return refusal(SYS_execve, program[0], program.data(), environment.data());
              }),
              0);
    EXPECT_EQ(filtered([] { return refusal(SYS_io_uring_setup, 1, nullptr); }), 0);
    EXPECT_EQ(filtered([] { return refusal(SYS_mount, "none", "/", "tmpfs", 0, nullptr); }), 0);
    EXPECT_EQ(filtered([] { return refusal(SYS_unshare, 0); }), 0);
    EXPECT_EQ(filtered([] { return refusal(SYS_setuid, ::getuid()); }), 0);
    EXPECT_EQ(filtered([] { return refusal(SYS_socket, AF_PACKET, SOCK_RAW, 0); }), 0);
    EXPECT_EQ(filtered([] { return refusal(SYS_bpf, 0, nullptr, 0); }), 0);
    EXPECT_EQ(filtered([] { return refusal(SYS_init_module, nullptr, 0, ""); }), 0);
}

// Sanitizers' leak checker needs these.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONTINUO_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CONTINUO_SANITIZED 1
#endif
#endif
#ifndef CONTINUO_SANITIZED
TEST(Privileges, FilterRefusesNewProcessesAndCode) {
    EXPECT_EQ(filtered([] { return refusal(SYS_kill, ::getpid(), 0); }), 0);
    EXPECT_EQ(filtered([] { return refusal(SYS_clone, SIGCHLD, nullptr); }), 0);
    EXPECT_EQ(filtered([] { return refusal(SYS_ptrace, PTRACE_TRACEME, 0, nullptr, nullptr); }), 0);
    EXPECT_EQ(filtered([] {
                  return refusal(SYS_mmap, nullptr, 4096, PROT_READ | PROT_EXEC,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              }),
              0);
    EXPECT_EQ(filtered([] {
                  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                  return page == MAP_FAILED
                             ? 2
                             : refusal(SYS_mprotect, page, 4096, PROT_READ | PROT_EXEC);
              }),
              0);
}
#endif

TEST(Privileges, FilterLetsThreadsFilesSocketsAndNamesPass) {
    EXPECT_EQ(filtered([] {
                  int done = 0;
                  std::thread([&] { done = 1; }).join();
                  return done == 1 ? 0 : 1;
              }),
              0);
    EXPECT_EQ(filtered([] {
                  const std::string path = "/tmp/continuo-privileges-" + std::to_string(::getpid());
                  const bool is_written = io::write_file_atomically(path, "x").has_value();
                  return is_written && io::remove_file(path) ? 0 : 1;
              }),
              0);
    EXPECT_EQ(filtered([] {
                  const io::UniqueFd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
                  addrinfo* found = nullptr;
                  const int looked_up = ::getaddrinfo("localhost", nullptr, nullptr, &found);
                  return socket.is_open() && looked_up == 0 ? 0 : 1;
              }),
              0);
}

TEST(Privileges, FilterIsOnThreadsThatWereThereBefore) {
    EXPECT_EQ(in_child([] {
                  std::array<int, 2> go{};
                  if (::pipe(go.data()) != 0) {
                      return 2;
                  }
                  int outcome = 3;
                  std::thread thread([&] {
                      char byte = 0;
                      outcome = ::read(go[0], &byte, 1) == 1 ? refusal(SYS_unshare, 0) : 4;
                  });
                  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                  const bool is_on = filter_system_calls().has_value();
                  const bool is_told = ::write(go[1], "x", 1) == 1;
                  thread.join();
                  return is_on && is_told ? outcome : kNoFilter;
              }),
              0);
}

TEST(Privileges, KeptCapabilitiesAreTheOnlyOnes) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs root";
    }
    EXPECT_EQ(in_child([] {
                  const bool is_kept = io::keep_capabilities(io::kNetworkRights).has_value();
                  const auto rights = process_rights();
                  return is_kept && rights.capabilities == std::vector<std::string>{"CAP_NET_ADMIN"}
                             ? 0
                             : 1;
              }),
              0);
    // Given up is given up.
    EXPECT_EQ(in_child([] {
                  const bool is_empty = io::keep_capabilities({}).has_value() &&
                                        io::keep_capabilities(io::kNetworkRights).has_value();
                  return is_empty && process_rights().capabilities.empty() ? 0 : 1;
              }),
              0);
}

TEST(Privileges, RightsAreReadBackFromTheKernel) {
    const ProcessRights before = process_rights();
    EXPECT_FALSE(before.user.empty());
    EXPECT_EQ(filtered([] {
                  const ProcessRights now = process_rights();
                  return now.seccomp && now.no_new_privs ? 0 : 1;
              }),
              0);
}

TEST(Privileges, ReducingRightsLeavesThoseOfTheStart) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs root";
    }
    const std::string directory = "/tmp/continuo-privileges-" + std::to_string(::getpid());
    constexpr std::array kForStart = {io::Capability::NetAdmin, io::Capability::Bpf};
    EXPECT_EQ(in_child([&] {
                  const ServiceFiles files{{}, directory + "/state", directory + "/run/x.sock", {}};
                  const auto change = reduce_rights(files, kForStart);
                  const ProcessRights rights = process_rights();
                  const bool is_right =
                      change && rights.no_new_privs &&
                      rights.capabilities == std::vector<std::string>{"CAP_NET_ADMIN", "CAP_BPF"} &&
                      (rights.user == kSharedUser) == change->is_service_user;
                  return is_right ? 0 : 1;
              }),
              0);
    for (const char* part : {"/state", "/run", ""}) {
        ::rmdir((directory + part).c_str());
    }
}

}  // namespace
}  // namespace continuo::host
