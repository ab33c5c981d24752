// AdmissionParts: what admission of nodes works with.
#pragma once

#include "common/io/worker_thread.hpp"
#include "snapt/accounting/accountant.hpp"
#include "snapt/links/event_log.hpp"
#include "snapt/settings/snapt_config.hpp"
#include "snapt/store/lease_store.hpp"
#include "snapt/store/user_store.hpp"

#include <functional>

namespace continuo::snapt::users {

// All must outlive the admission.
struct AdmissionParts {
    io::EventLoop& loop;
    io::WorkerThread& worker;
    const settings::SnaptConfig& config;  // its limits may change
    accounting::Accountant& accountant;
    store::LeaseStore& leases;
    store::UserStore& users;
    links::EventLog* events = nullptr;  // takes logins and ends; null: nobody reads them
    std::function<bool()> has_ipv6{};   // this host; empty: as the leases have it
};

}  // namespace continuo::snapt::users
