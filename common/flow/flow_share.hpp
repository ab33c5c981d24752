// FlowShare: flows that share a limit, and which of them gives way to a new one: the oldest that
// was never answered, or is closed and only lingers. Ordinary flows leave a reserve to favoured
// ones (DNS, TCP, class lt-ld), so that a program that contacts thousands of destinations does not
// block others' names and pages. A flow is in its owner's share and in its table's. Pure; lists are
// intrusive.
#pragma once

#include "common/base/assert.hpp"
#include "common/flow/flow.hpp"

namespace continuo::flow {

// The part of a limit, as its divisor, that ordinary flows leave to favoured ones. A choice.
inline constexpr size_t kReserveDivisor = 8;

class FlowShare {
  public:
    explicit FlowShare(ShareLevel level = ShareLevel::Owner) : level_(level) {}
    FlowShare(const FlowShare&) = delete;
    FlowShare& operator=(const FlowShare&) = delete;
    FlowShare(FlowShare&&) = delete;
    FlowShare& operator=(FlowShare&&) = delete;
    ~FlowShare() { CTN_ASSERT(flows_ == 0); }

    // Also counts the delivered payload of its flows, with one writer; null: none.
    void count_into(Counter* payload) { payload_ = payload; }
    void count_payload(uint64_t bytes) {
        if (payload_ != nullptr) {
            flow::add(*payload_, bytes);
        }
    }

    size_t flows() const { return flows_; }
    // Those that were answered and are not closed.
    size_t running() const { return flows_ - giving_way_; }
    // Whether there is room for another one. `limit` 0: none.
    bool has_room(size_t limit, bool is_favoured) const {
        return limit == 0 || (flows_ < limit && (is_favoured || leaves_reserve(limit)));
    }
    // Whether another ordinary one leaves the reserve free.
    bool leaves_reserve(size_t limit) const {
        return flows_ - favoured_ < limit - limit / kReserveDivisor;
    }
    // The flow that gives way to such a one: never a favoured one to an ordinary one. Null: none.
    Flow* gives_way_to(bool is_favoured) const { return oldest(true, is_favoured); }
    // The oldest flow of those that were answered. Null: none.
    Flow* oldest_answered(bool may_be_favoured) const { return oldest(false, may_be_favoured); }

  private:
    friend class FlowTable;
    struct List {
        Flow* oldest = nullptr;
        Flow* newest = nullptr;
    };
    FlowLinks& links(Flow& flow) const { return flow.share_links[static_cast<size_t>(level_)]; }
    List& list_of(const Flow& flow) {
        return lists_[flow.gives_way ? 1 : 0][flow.is_favoured ? 1 : 0];
    }
    Flow* oldest(bool gives_way, bool may_be_favoured) const {
        const List* lists = lists_[gives_way ? 1 : 0];
        Flow* ordinary = lists[0].oldest;
        return ordinary == nullptr && may_be_favoured ? lists[1].oldest : ordinary;
    }

    void add(Flow& flow) {
        ++flows_;
        favoured_ += flow.is_favoured ? 1 : 0;
        giving_way_ += flow.gives_way ? 1 : 0;
        append(flow);
    }
    void remove(Flow& flow) {
        unlist(flow);
        --flows_;
        favoured_ -= flow.is_favoured ? 1 : 0;
        giving_way_ -= flow.gives_way ? 1 : 0;
    }
    void append(Flow& flow) {
        List& list = list_of(flow);
        links(flow) = {nullptr, list.newest};
        (list.newest == nullptr ? list.oldest : links(*list.newest).next) = &flow;
        list.newest = &flow;
    }
    void unlist(Flow& flow) {
        List& list = list_of(flow);
        const FlowLinks own = links(flow);
        (own.previous == nullptr ? list.oldest : links(*own.previous).next) = own.next;
        (own.next == nullptr ? list.newest : links(*own.next).previous) = own.previous;
        links(flow) = {};
    }

    ShareLevel level_;
    size_t flows_ = 0;
    size_t favoured_ = 0;
    size_t giving_way_ = 0;
    List lists_[2][2];  // answered or giving way; ordinary or favoured
    Counter* payload_ = nullptr;
};

}  // namespace continuo::flow
