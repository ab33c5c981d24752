#include "common/session/epochs.hpp"

#include "common/base/assert.hpp"
#include "common/wire/constants.hpp"
#include "common/wire/tunnel_header.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::TimePoint;
using path::Role;

namespace {

// Half of the datagrams that a key may seal, so that the new epoch is there in time.
constexpr uint64_t kWantRekeyDatagrams = wire::kRekeyDatagrams / 2;

}  // namespace

EpochState* Epochs::sending() const {
    if (settings_.role == Role::Snapt && current_ && !current_->is_heard && previous_) {
        return previous_.get();
    }
    return current_.get();
}

EpochState* Epochs::sealing(uint32_t number) const {
    const bool is_previous =
        settings_.role == Role::Node && previous_ && previous_->number == number;
    EpochState* const found = is_previous ? previous_.get() : sending();
    return found != nullptr && found->number == number ? found : nullptr;
}

EpochState* Epochs::find(uint32_t number) const {
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr && epoch->number == number) {
            return epoch;
        }
    }
    return nullptr;
}

EpochState* Epochs::of_header(uint8_t modulo) const {
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr && epoch->number % wire::kEpochModulus == modulo) {
            return epoch;
        }
    }
    return nullptr;
}

bool Epochs::may_grant(uint32_t number) const {
    return current_ == nullptr || number == current_->number + 1 ||
           (number == current_->number && !current_->is_heard);
}

bool Epochs::wants_rekey() const {
    return current_ &&
           current_->sealed_datagrams >= std::min(kWantRekeyDatagrams, settings_.rekey_datagrams);
}

Epochs::Succession Epochs::succession(uint32_t number) const {
    if (current_ && current_->number == number) {
        return Succession::Anew;
    }
    return current_ && current_->number + 1 == number ? Succession::Next : Succession::First;
}

EpochState& Epochs::install(EpochInstall keys, Duration skew, TimePoint now) {
    CTN_ASSERT(!is_in_use_);
    auto epoch = std::make_unique<EpochState>(
        keys.epoch, settings_.sends_side(), settings_.receives_side(), scratch_, settings_.memory);
    epoch->sealer = std::move(keys.sealer);
    epoch->opener = std::move(keys.opener);
    epoch->installed_at = now;
    epoch->encoder.set_skew(skew);
    const Succession succession = this->succession(keys.epoch);
    if (succession != Succession::Anew) {
        const bool is_next = succession == Succession::Next;
        judge_losses();
        for (const EpochState* ended : {previous_.get(), is_next ? nullptr : current_.get()}) {
            retired_losses_ += ended != nullptr ? ended->missing() : 0;
        }
        previous_ = is_next ? std::move(current_) : nullptr;
    }
    current_ = std::move(epoch);
    return *current_;
}

bool Epochs::on_heard(EpochState& epoch, TimePoint retire_at) {
    epoch.is_heard = true;
    if (&epoch != current_.get() || !previous_) {
        return false;
    }
    previous_->retire_at = retire_at;
    return true;
}

void Epochs::on_time(TimePoint now) {
    judge_losses();
    if (previous_ && previous_->retire_at <= now && !is_in_use_) {
        retired_losses_ += previous_->missing();
        previous_.reset();
    }
}

// A number is lost if it is still missing a second or more after a higher one came.
void Epochs::judge_losses() {
    uint64_t lost = retired_losses_;
    each([&lost](EpochState& epoch) {
        lost += epoch.lost();
        epoch.judge();
    });
    counters_.lost_datagrams = lost;
}

uint64_t Epochs::missing_datagrams() const {
    uint64_t missing = retired_losses_;
    each([&missing](const EpochState& epoch) { missing += epoch.missing(); });
    return missing - std::min(missing, lost_in_silence_);
}

bool Epochs::may_have_sent(const wire::Quote& quote) const {
    // Numbers that count as recent: some seconds on a thin link.
    constexpr uint64_t kReach = 4096;
    constexpr unsigned kUnquotedBits = 16;  // lower bits of a long sequence number
    std::array<uint8_t, wire::kLongHeaderBytes> bytes{};
    std::copy(quote.first.begin(), quote.first.end(), bytes.begin());
    base::ByteReader reader(bytes);
    const auto header = wire::TunnelHeader::parse(reader);
    if (!header || header->session_id != settings_.peer_id || header->lane != 0) {
        return false;
    }
    const auto is_lately = [&](const EpochState* epoch) {
        if (epoch == nullptr || epoch->number % wire::kEpochModulus != header->epoch) {
            return false;
        }
        const uint64_t next = epoch->send_spaces[space_slot(header->space_number())].next;
        const uint64_t oldest = next > kReach ? next - kReach : 0;
        const uint64_t quoted = header->whole_sequence(next);
        const unsigned unquoted = header->long_sequence ? kUnquotedBits : 0;
        return next > 0 && quoted >> unquoted >= oldest >> unquoted &&
               quoted >> unquoted <= (next - 1) >> unquoted;
    };
    return is_lately(current_.get()) || is_lately(previous_.get());
}

}  // namespace continuo::session
