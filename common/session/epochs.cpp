#include "common/session/epochs.hpp"

namespace continuo::session {

void Epochs::install(std::unique_ptr<EpochState> epoch) {
    const EpochKind kind = kind_of(epoch->number);
    if (kind == EpochKind::First || kind == EpochKind::Next) {
        for (const EpochState* ended :
             {previous_.get(), kind == EpochKind::First ? current_.get() : nullptr}) {
            retired_losses_ += ended != nullptr ? ended->missing() : 0;
        }
        previous_ = kind == EpochKind::Next ? std::move(current_) : nullptr;
    }
    current_ = std::move(epoch);
}

void Epochs::retire(base::TimePoint now) {
    if (previous_ != nullptr && previous_->retire_at <= now) {
        retired_losses_ += previous_->missing();
        previous_.reset();
    }
}

EpochState* Epochs::numbered(uint32_t number) const {
    for (EpochState* const epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr && epoch->number == number) {
            return epoch;
        }
    }
    return nullptr;
}

EpochState* Epochs::of_header(uint8_t modulo) const {
    for (EpochState* const epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr && epoch->number % wire::kEpochModulus == modulo) {
            return epoch;
        }
    }
    return nullptr;
}

uint64_t Epochs::judge() {
    uint64_t lost = retired_losses_;
    each([&](EpochState& epoch) {
        lost += epoch.lost();
        epoch.judge();
    });
    return lost;
}

uint64_t Epochs::missing() const {
    uint64_t missing = retired_losses_;
    each([&](const EpochState& epoch) { missing += epoch.missing(); });
    return missing;
}

}  // namespace continuo::session
