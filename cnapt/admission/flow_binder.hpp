// FlowBinder: the SNAPT of each flow, which carries it for life: policy chooses it when the flow
// begins, and a journal keeps it over a restart of this process. Data loop only.
#pragma once

#include "cnapt/admission/binding_journal.hpp"
#include "cnapt/admission/node_flow.hpp"
#include "cnapt/links/snapt_link.hpp"
#include "common/flow/flow_table.hpp"
#include "policy/snapt_choice.hpp"

#include <functional>
#include <optional>
#include <string>

namespace continuo::cnapt::admission {

class FlowBinder {
  public:
    // SNAPT is to know the tag. Tag 0: flows without a rule name.
    using OnNewApp = std::function<void(
        links::SnaptLink& link, uint16_t tag, const std::string& name, base::PathMode mode)>;

    // Both must outlive this.
    FlowBinder(const links::SnaptLinks& links, flow::FlowTable& flows, OnNewApp on_new_app)
        : links_(links), flows_(flows), on_new_app_(std::move(on_new_app)) {}

    // From now on bindings are kept in that file. Errors: as BindingJournal::open.
    base::Result<void> open_journal(const std::string& path, base::Random& random);
    // The bindings outlive this process.
    void close_journal() { journal_.reset(); }

    // The SNAPT that the flow was bound to before a restart; null: none.
    links::SnaptLink* former(const packet::FiveTuple& flow) const;
    bool was_bound_to(const packet::FiveTuple& flow, const links::SnaptLink& link) const {
        return journal_ && journal_->is_bound_to(flow, link.name);
    }
    // Binds the flow, unless there is no SNAPT for it yet: then the next packet asks again. Returns
    // the reason if the flow is to be refused instead.
    std::optional<std::string> bind(NodeFlow& node_flow, base::TimePoint now);
    // The classification of a bound flow has changed: tag and mode follow, the SNAPT stays.
    void retag(NodeFlow& node_flow);
    // The flow ends.
    void release(NodeFlow& node_flow, base::TimePoint now);
    // A new connection has that tuple.
    void forget(const packet::FiveTuple& flow);
    // SNAPT may not know the tags of the link.
    void tell_apps(links::SnaptLink& link) const { link.app_tags.tell_all(teller(link)); }

  private:
    policy::Decision decide(const NodeFlow& node_flow) const;
    links::AppTags::Tell teller(links::SnaptLink& link) const;

    const links::SnaptLinks& links_;
    flow::FlowTable& flows_;
    OnNewApp on_new_app_;
    std::optional<BindingJournal> journal_;
};

}  // namespace continuo::cnapt::admission
