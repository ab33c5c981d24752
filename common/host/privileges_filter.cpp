// System calls that a running daemon needs.
#include "common/host/privileges.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

#include <linux/bpf.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::host {

namespace {

using base::Errc;
using base::Error;
using base::Result;

// Whatever the arguments.
constexpr const char* kAllowed[] = {
    // memory
    "brk", "munmap", "mremap", "madvise", "membarrier",
    // threads and signals
    "futex", "set_robust_list", "rseq", "exit", "exit_group", "gettid", "getpid", "getppid",
    "sched_yield", "sched_getaffinity", "set_tid_address", "rt_sigaction", "rt_sigprocmask",
    "rt_sigreturn", "sigaltstack", "restart_syscall", "capget", "capset",
    // time; the clock itself is not set: that takes a capability which nobody keeps
    "adjtimex", "clock_adjtime", "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep",
    "gettimeofday", "time", "timerfd_create", "timerfd_settime", "timerfd_gettime",
    // files
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "open",
    "openat", "openat2", "close", "close_range", "stat", "lstat", "fstat", "newfstatat", "statx",
    "statfs", "fstatfs", "lseek", "getdents64", "readlink", "readlinkat", "access", "faccessat",
    "faccessat2", "fsync", "fdatasync", "sync_file_range", "ftruncate", "fallocate", "fadvise64",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "flock",
    "fcntl", "dup", "dup2", "dup3", "pipe2", "umask", "chmod", "fchmod", "fchmodat", "fchown",
    "chown", "fchownat", "getcwd", "link", "linkat", "utimensat",
    // sockets and waiting
    "bind", "connect", "listen", "accept", "accept4", "getsockname", "getpeername", "setsockopt",
    "getsockopt", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown",
    "poll", "ppoll", "select", "pselect6", "epoll_create1", "epoll_ctl", "epoll_wait",
    "epoll_pwait", "epoll_pwait2", "eventfd2",
    // about this process and the host
    "uname", "sysinfo", "getrandom", "getrusage", "getuid", "geteuid", "getgid", "getegid",
    "getgroups", "getresuid", "getresgid", "times", "getcpu"};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONTINUO_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CONTINUO_SANITIZED 1
#endif
#endif
#ifdef CONTINUO_SANITIZED
// For the run-time libraries: the leak checker stops every thread from a forked process.
constexpr const char* kAllowedToo[] = {
    "clone",       "ptrace",  "wait4",     "getdents",  "prctl",
    "tgkill",      "kill",    "mprotect",  "mmap",      "prlimit64",
    "personality", "mincore", "setrlimit", "getrlimit", "process_vm_readv"};
#else
constexpr std::array<const char*, 0> kAllowedToo{};
#endif

constexpr int kFamilies[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
constexpr unsigned long kRequests[] = {
    TUNSETIFF,          TUNSETOFFLOAD, TUNSETPERSIST, TUNSETQUEUE, TUNGETIFF,
    TUNSETSTEERINGEBPF, SIOCGIFINDEX,  SIOCGIFNAME,   SIOCOUTQ,    FIONBIO,
    FIONREAD,           FIOCLEX,       TCGETS,        TIOCGWINSZ};

struct Release {
    void operator()(scmp_filter_ctx filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, Release>;

class Builder {
  public:
    explicit Builder(scmp_filter_ctx filter) : filter_(filter) {}

    // One that this architecture does not have is passed over.
    template <typename... Conditions>
    void allow(const char* name, Conditions... conditions) {
        add(SCMP_ACT_ALLOW, name, {conditions...});
    }
    void refuse_with(int error, const char* name) {
        add(SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), name, {});
    }
    int error() const { return error_; }

  private:
    void add(uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> conditions) {
        const int number = ::seccomp_syscall_resolve_name(name);
        if (number == __NR_SCMP_ERROR) {
            return;
        }
        const int added = ::seccomp_rule_add_array(
            filter_, action, number, static_cast<unsigned>(conditions.size()), conditions.begin());
        if (added != 0 && added != -EDOM && added != -EEXIST) {
            error_ = -added;
        }
    }

    scmp_filter_ctx filter_;
    int error_ = 0;
};

scmp_arg_cmp is(unsigned argument, uint64_t value) {
    return {argument, SCMP_CMP_EQ, value, 0};
}
scmp_arg_cmp has_bits(unsigned argument, uint64_t mask, uint64_t value) {
    return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

// Threads may be created, processes not; only files of libraries may become executable memory.
void allow_with_conditions(Builder& builder) {
    builder.allow("clone", has_bits(0, CLONE_THREAD, CLONE_THREAD));
    builder.refuse_with(ENOSYS, "clone3");  // its flags cannot be seen; libc falls back to clone
    builder.allow("mmap", has_bits(2, PROT_EXEC, 0));
    builder.allow("mmap", has_bits(3, MAP_ANONYMOUS, 0));
    builder.allow("mprotect", has_bits(2, PROT_EXEC, 0));
    builder.allow("tgkill", is(0, static_cast<uint64_t>(::getpid())));  // abort
    builder.allow("prlimit64", is(2, 0));
    for (const int option : {PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ}) {
        builder.allow("prctl", is(0, static_cast<uint64_t>(option)));
    }
    for (const int family : kFamilies) {
        builder.allow("socket", is(0, static_cast<uint64_t>(family)));
    }
    builder.allow("socketpair", is(0, AF_UNIX));
    for (const unsigned long request : kRequests) {
        builder.allow("ioctl", is(1, request));
    }
    builder.allow("bpf", is(0, BPF_MAP_LOOKUP_ELEM));
}

}  // namespace

Result<void> filter_system_calls() {
#if !defined(__x86_64__) && !defined(__aarch64__)
    // 32-bit architectures have different calls for this (mmap2, clock_gettime64, socketcall): an
    // untested filter would stop the daemon there.
    return Error{Errc::Unsupported, "no list of system calls for this architecture"};
#endif
#ifdef CONTINUO_SANITIZED
    // The leak checker attaches to its own threads, which a process may not do after changing its
    // user.
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
#endif
    const Filter filter(::seccomp_init(SCMP_ACT_ERRNO(EPERM)));
    if (!filter) {
        return Error{Errc::System, "seccomp filter", ENOMEM};
    }
    Builder builder(filter.get());
    for (const char* name : kAllowed) {
        builder.allow(name);
    }
    for (const char* name : kAllowedToo) {
        builder.allow(name);
    }
    allow_with_conditions(builder);
    if (builder.error() != 0) {
        return Error{Errc::System, "seccomp rule", builder.error()};
    }
    // Logging of refusals and a tree instead of a list need a newer kernel or library; the filter
    // is as strict without.
    static_cast<void>(::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_LOG, 1));
    static_cast<void>(::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2));
    int outcome = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
    outcome = outcome == 0 ? ::seccomp_load(filter.get()) : outcome;
    return outcome == 0 ? Result<void>() : Error{Errc::System, "seccomp filter", -outcome};
}

}  // namespace continuo::host
