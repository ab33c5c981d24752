// SessionCore: what the parts of a session share. Session owns it, and it outlives the parts. Each
// member keeps rules of its own; a part takes references to those it uses, or to all of it.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/session/epochs.hpp"
#include "common/session/expected_repeats.hpp"
#include "common/session/path_set.hpp"
#include "common/session/scratch.hpp"
#include "common/session/session_flows.hpp"
#include "common/session/session_types.hpp"
#include "common/session/unheard.hpp"
#include "common/session/upkeep.hpp"

namespace continuo::session {

struct SessionCore {
    SessionCore(Session& whole,
                const flow::FlowOwner& owner,
                const SessionSettings& given,
                SessionHost& its_host,
                SessionScratch& shared_scratch,
                base::Random& random)
        : session(whole)
        , host(its_host)
        , scratch(shared_scratch)
        , settings(given)
        , paths(given.role, random, given.memory)
        , flows(given.role, owner, counters)
        , epochs(settings, shared_scratch.decode, counters) {}
    SessionCore(const SessionCore&) = delete;
    SessionCore& operator=(const SessionCore&) = delete;

    Session& session;  // for calls of the host
    SessionHost& host;
    SessionScratch& scratch;
    SessionSettings settings;
    base::DropCounters drops;
    SessionCounters counters;
    PathSet paths;
    SessionFlows flows;
    Epochs epochs;
    Upkeep upkeep{settings, paths, flows};
    Unheard unheard;                   // SNAPT
    ExpectedRepeats expected_repeats;  // node
    base::TimePoint heard_at{};        // the last valid datagram
};

}  // namespace continuo::session
