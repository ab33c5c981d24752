#include "common/io/tun_queues.hpp"

#include "common/io/bpf_program.hpp"

#include <cerrno>
#include <utility>

#include <linux/if_tun.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

namespace continuo::io {

using base::Errc;
using base::Error;
using base::Result;

Result<TunQueues> TunQueues::open(std::vector<UniqueFd> queues) {
    TunQueues made(std::move(queues));
    if (made.queues_.size() == 1) {
        return made;
    }
    made.ready_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!made.ready_.is_open()) {
        return Error{Errc::System, "watch the queues of the tun interface", errno};
    }
    for (const UniqueFd& queue : made.queues_) {
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        wanted.data.fd = queue.value();
        if (::epoll_ctl(made.ready_.value(), EPOLL_CTL_ADD, queue.value(), &wanted) != 0) {
            return Error{Errc::System, "watch a queue of the tun interface", errno};
        }
    }
    return made;
}

// The kernel gives those that are ready in turns as well.
bool TunQueues::begin_round() {
    turn_ = 0;
    frames_left_ = kFramesInTurn;
    if (!ready_.is_open()) {
        round_[0] = first_fd();
        round_size_ = 1;
        return true;
    }
    std::array<epoll_event, kQueuesInRound> events{};
    const int got = ::epoll_wait(ready_.value(), events.data(), int{kQueuesInRound}, 0);
    round_size_ = got > 0 ? static_cast<size_t>(got) : 0;
    for (size_t i = 0; i < round_size_; ++i) {
        round_.at(i) = events.at(i).data.fd;
    }
    has_more_ = round_size_ == kQueuesInRound;
    return round_size_ > 0;
}

std::optional<int> TunQueues::next() {
    if (turn_ == round_size_) {
        const bool was_all_read = round_size_ > 0 && !std::exchange(has_more_, false);
        round_size_ = 0;
        turn_ = 0;
        if (was_all_read || !begin_round()) {
            return std::nullopt;  // what has come meanwhile is told by poll_fd()
        }
    }
    return round_.at(turn_);
}

void TunQueues::on_frame() {
    if (--frames_left_ == 0) {
        has_more_ = true;
        end_turn();
    }
}

void TunQueues::on_empty() {
    end_turn();
}

// It would be ready for ever.
void TunQueues::on_error() {
    if (ready_.is_open()) {
        ::epoll_ctl(ready_.value(), EPOLL_CTL_DEL, round_.at(turn_), nullptr);
    }
    end_turn();
}

void TunQueues::end_turn() {
    ++turn_;
    frames_left_ = kFramesInTurn;
}

// The low bits of a lease count up, so neighbours are apart, and both versions of a node mostly
// together. The kernel takes the remainder by the number of queues.
Result<void> steer_by_destination(int queue) {
    constexpr uint8_t kByte = BPF_LD | BPF_ABS | BPF_B;
    // NOLINTNEXTLINE(misc-redundant-expression): two of them are zero
    constexpr uint8_t kWord = BPF_LD | BPF_ABS | BPF_W;
    const std::array program = {
        bpf::move(BPF_REG_6, BPF_REG_1),  // where BPF_ABS expects the packet
        bpf::instruction(kByte, 0, 0, 0, 0),
        bpf::instruction(BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_0, 0, 0, 4),
        bpf::instruction(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 6),
        bpf::instruction(kWord, 0, 0, 0, 16),
        bpf::leave(),
        bpf::instruction(kWord, 0, 0, 0, 36),
        bpf::leave(),
    };
    const UniqueFd loaded = CTN_TRY(bpf::load(BPF_PROG_TYPE_SOCKET_FILTER, {}, program));
    const int fd = loaded.value();
    if (::ioctl(queue, TUNSETSTEERINGEBPF, &fd) != 0) {
        return Error{Errc::System, "choose the queue of a packet", errno};
    }
    return {};
}

}  // namespace continuo::io
