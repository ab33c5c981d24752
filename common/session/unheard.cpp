#include "common/session/unheard.hpp"

#include "common/flow/flow_share.hpp"

#include <algorithm>

namespace continuo::session {

namespace {

void count(flow::Flow& flow, const flow::UnheardBytes& bytes, bool is_delivered) {
    if (flow.counters == nullptr) {
        return;
    }
    flow::LiveCounters& counters = flow.counters->counters;
    if (!is_delivered) {
        flow::add(counters.undelivered_down, bytes.inner);
        return;
    }
    flow::add(counters.packets_down, bytes.packets);
    flow::add(counters.inner_down, bytes.inner);
    flow::add(counters.payload_down, bytes.payload);
    flow::add(counters.pre_down, bytes.inner);
    flow::add(counters.post_down, bytes.outer);
    if (flow.share != nullptr) {
        flow.share->count_payload(bytes.payload);
    }
}

}  // namespace

bool Unheard::may_send(base::TimePoint now) {
    since_ = std::min(since_, now);
    look(now);
    if (state_ != State::Gone) {
        return true;
    }
    if (now < probe_at_) {
        return false;
    }
    settle_all(false);  // the probe before had no answer
    probe_at_ = now + kProbeInterval;
    return true;
}

void Unheard::look(base::TimePoint now) {
    if (state_ == State::Gone || since_ == base::kNever || now - since_ < kSilentAfter) {
        return;
    }
    state_ = State::Silent;
    if (now - since_ >= kGoneAfter) {
        settle_all(false);
        state_ = State::Gone;
        probe_at_ = now + kProbeInterval;
    }
}

void Unheard::on_sent(const Attribution& part) {
    flow::Flow& flow = *part.flow;
    const flow::UnheardBytes bytes{part.packets, part.inner_bytes, part.payload_bytes,
                                   part.outer_bytes};
    if (state_ == State::Heard) {
        deliver(flow, bytes);
        return;
    }
    if (flow.unheard.is_empty()) {
        flow.unheard.place = static_cast<uint32_t>(flows_.size());
        flows_.push_back(&flow);
    }
    flow.unheard.add(bytes);
}

void Unheard::on_heard() {
    since_ = base::kNever;
    if (state_ != State::Heard) {
        state_ = State::Heard;
        settle_all(true);
    }
}

void Unheard::forget(flow::Flow& flow) {
    if (flow.unheard.is_empty()) {
        return;
    }
    flow::Flow* const last = flows_.back();
    last->unheard.place = flow.unheard.place;
    flows_[flow.unheard.place] = last;
    flows_.pop_back();
    settle(flow, false);
}

void Unheard::deliver(flow::Flow& flow, const flow::UnheardBytes& bytes) {
    count(flow, bytes, true);
    free_bytes_ = std::min(free_bytes_ + bytes.inner / kFreeDivisor, kMostFree);
}

void Unheard::settle(flow::Flow& flow, bool is_delivered) {
    const bool is_probe = is_gone() && flow.unheard.inner <= kProbeBytes;
    const bool is_free = is_probe || flow.unheard.inner <= free_bytes_;
    if (is_delivered) {
        deliver(flow, flow.unheard);
    } else {
        count(flow, flow.unheard, !is_free);
        free_bytes_ -= is_free && !is_probe ? flow.unheard.inner : 0;
    }
    flow.unheard = {};
}

void Unheard::settle_all(bool is_delivered) {
    for (flow::Flow* flow : flows_) {
        settle(*flow, is_delivered);
    }
    flows_.clear();
}

}  // namespace continuo::session
