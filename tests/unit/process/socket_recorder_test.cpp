#include "common/process/bpf_program.hpp"
#include "common/process/socket_recorder.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::process {
namespace {

uint64_t cookie_of(const io::UniqueFd& socket) {
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    EXPECT_EQ(::getsockopt(socket.value(), SOL_SOCKET, SO_COOKIE, &cookie, &length), 0);
    return cookie;
}

io::UniqueFd make_socket(int family, int type) {
    return io::UniqueFd(::socket(family, type | SOCK_CLOEXEC, 0));
}

class SocketRecorderTest : public testing::Test {
  protected:
    void SetUp() override {
        auto attached = SocketRecorder::attach();
        if (!attached) {
            GTEST_SKIP() << "cannot attach here: " << attached.error().where;
        }
        recorder_ = std::move(*attached);
    }
    std::optional<SocketRecorder> recorder_;
};

TEST_F(SocketRecorderTest, KnowsWhoMadeASocket) {
    for (const int family : {AF_INET, AF_INET6}) {
        for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
            const io::UniqueFd own = make_socket(family, type);
            ASSERT_TRUE(own.is_open());
            EXPECT_EQ(recorder_->maker_of(cookie_of(own)).value_or(SocketMaker{}).process_id,
                      ::getpid());
        }
    }
    EXPECT_FALSE(recorder_->maker_of(UINT64_MAX));
}

TEST_F(SocketRecorderTest, TellsProcessesApart) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const io::UniqueFd made = make_socket(AF_INET, SOCK_DGRAM);
        const uint64_t cookie = cookie_of(made);
        const bool written = ::write(pipe[1], &cookie, sizeof cookie) == sizeof cookie;
        ::_exit(written ? 0 : 1);
    }
    uint64_t cookie = 0;
    EXPECT_EQ(::read(pipe[0], &cookie, sizeof cookie), ssize_t{sizeof cookie});
    EXPECT_EQ(recorder_->maker_of(cookie).value_or(SocketMaker{}).process_id, child);
    ::waitpid(child, nullptr, 0);
    ::close(pipe[0]);
    ::close(pipe[1]);
}

// Ids of the programs that look at the making of sockets in the root cgroup, also those of others.
std::vector<uint32_t> attached_programs() {
    const auto cgroup = bpf::open_cgroup_root();
    EXPECT_TRUE(cgroup);
    std::vector<uint32_t> ids(64);
    bpf_attr attributes{};
    attributes.query.target_fd = static_cast<uint32_t>(cgroup->value());
    attributes.query.attach_type = BPF_CGROUP_INET_SOCK_CREATE;
    attributes.query.prog_ids = reinterpret_cast<uint64_t>(ids.data());
    attributes.query.prog_cnt = static_cast<uint32_t>(ids.size());
    EXPECT_EQ(bpf::command(BPF_PROG_QUERY, attributes), 0);
    ids.resize(attributes.query.prog_cnt);
    std::sort(ids.begin(), ids.end());
    return ids;
}

TEST_F(SocketRecorderTest, LeavesNoProgramBehind) {
    const auto with_it = attached_programs();
    recorder_.reset();
    const auto without = attached_programs();
    EXPECT_FALSE(std::includes(without.begin(), without.end(), with_it.begin(), with_it.end()));
}

TEST_F(SocketRecorderTest, EndsWithoutTheOthers) {
    const auto second = SocketRecorder::attach();
    ASSERT_TRUE(second);
    recorder_.reset();
    const io::UniqueFd made = make_socket(AF_INET, SOCK_DGRAM);
    EXPECT_EQ(second->maker_of(cookie_of(made)).value_or(SocketMaker{}).process_id, ::getpid())
        << "another one goes on";
}

}  // namespace
}  // namespace continuo::process
