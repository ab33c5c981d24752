#include "common/routing/path_logs.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace continuo::routing {

using base::Duration;
using base::TimePoint;

namespace {

// Longer intervals reported by a peer are cut: they could delay every probe time-out.
constexpr Duration kLongestAckInterval = base::seconds(2);

}  // namespace

// A run that is repeated on the path that it took last stays in the log as it left there.
void PathLogs::on_sent_again(recovery::SentRun run, uint8_t index, TimePoint now) {
    CTN_ASSERT(run.count == 1);
    recovery::Delivery& log = paths_[index].feedback().ensure_delivery();
    if (log.is_waiting(run.space, run.first)) {
        return;
    }
    std::any_of(paths_.begin(), paths_.end(),
                [&](Path& former) { return former.feedback().take_out(run); });
    run.is_repeat = true;
    log.on_sent(run, now);
    repeating_ |= mask_of(index);
}

void PathLogs::on_ack_range(uint32_t epoch,
                            const wire::Ack& ack,
                            const wire::AckRange& range,
                            uint8_t arrived_on) {
    const uint8_t own = ack.space.path;
    const recovery::NumberSpace space{epoch, wire::space_number(ack.space)};
    uint64_t sought = uint64_t{range.last} - range.first + 1;  // each is in one log at most
    if (recovery::Delivery* const delivery = paths_[own].feedback().delivery()) {
        std::optional<recovery::Delivery::Highest> highest;
        if (range.last == ack.highest) {
            highest = recovery::Delivery::Highest{wire::kAckTimeUnit * ack.delay, ack.clock};
        }
        const uint32_t named = delivery->on_range(space, range.first, range.last, highest);
        sought -= named;
        delivery->set_peer_interval(
            std::min<Duration>(std::chrono::milliseconds(ack.interval_ms), kLongestAckInterval));
        acknowledged_ |= mask_of(own);
        answered_ |= named != 0 && arrived_on == own ? mask_of(own) : PathMask{0};
    }
    any_in(sought != 0 ? repeating_ : PathMask{0}, [&](uint8_t index) {
        recovery::Delivery* const delivery = paths_[index].feedback().delivery();
        const uint32_t repeats =
            delivery != nullptr ? delivery->on_repeat_range(space, range.first, range.last) : 0;
        named_repeats_ += repeats;
        acknowledged_ |= repeats != 0 ? mask_of(index) : PathMask{0};
        sought -= repeats;
        return sought == 0;
    });
    acknowledged_by_ = arrived_on;
}

PathMask PathLogs::on_acks_read(TimePoint now) {
    PathMask mended = 0;
    any_in(std::exchange(acknowledged_, PathMask{0}), [&](uint8_t index) {
        const bool has_answered = (answered_ & mask_of(index)) != 0;
        const bool is_mended =
            paths_[index].on_acks_read(acknowledged_by_ == index, has_answered, now);
        mended |= is_mended ? mask_of(index) : PathMask{0};
        return false;
    });
    answered_ = 0;
    return mended;
}

void PathLogs::on_ack_count(uint32_t epoch, const wire::Ack& ack) {
    const uint32_t repeats = std::exchange(named_repeats_, 0U);
    if (recovery::Delivery* const delivery = paths_[ack.space.path].feedback().delivery()) {
        delivery->on_count({epoch, wire::space_number(ack.space)}, ack.highest + 1 - ack.missing,
                           repeats);
    }
}

void PathLogs::tidy(TimePoint now) {
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        Path& path = paths_[index];
        path.tidy(now);
        if (path.feedback().delivery() == nullptr ||
            !path.feedback().delivery()->log().has_repeats()) {
            repeating_ &= static_cast<PathMask>(~mask_of(index));
        }
    }
}

void PathLogs::distrust_samples(TimePoint now) {
    for (Path& path : paths_) {
        if (path.feedback().delivery() != nullptr) {
            path.feedback().delivery()->distrust_samples(now);
        }
    }
}

void PathLogs::forget_sent() {
    for (Path& path : paths_) {
        path.feedback().forget_class_sendings();
    }
}

bool PathLogs::is_named(uint32_t epoch, uint16_t space, uint64_t sequence) const {
    const auto* delivery = paths_[wire::space_from_number(space).path].feedback().delivery();
    return delivery != nullptr &&
           delivery->is_named({epoch, space}, static_cast<uint32_t>(sequence)) &&
           !is_lost(epoch, space, sequence);
}

bool PathLogs::is_lost(uint32_t epoch, uint16_t space, uint64_t sequence) const {
    const uint8_t own = wire::space_from_number(space).path;
    return any_in(static_cast<PathMask>(repeating_ | mask_of(own)), [&](uint8_t index) {
        const auto* delivery = paths_[index].feedback().delivery();
        return delivery != nullptr &&
               delivery->is_lost({epoch, space}, static_cast<uint32_t>(sequence));
    });
}

bool PathLogs::is_repeated(uint32_t epoch, uint16_t space, uint64_t sequence) const {
    return any_in(repeating_, [&](uint8_t index) {
        const auto* delivery = paths_[index].feedback().delivery();
        return delivery != nullptr &&
               delivery->is_repeated({epoch, space}, static_cast<uint32_t>(sequence));
    });
}

}  // namespace continuo::routing
