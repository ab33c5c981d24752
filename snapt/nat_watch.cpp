#include "snapt/nat_watch.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/privileges.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <future>

#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>

namespace continuo::snapt {

using base::Result;
using daemon::utc_us;

namespace {

constexpr base::Duration kWait = base::milliseconds(200);
constexpr int64_t kFlushUs = 1'000'000;

}  // namespace

Result<void> NatWatch::start() {
    monitor_ = CTN_TRY(io::ConnectionMonitor::open());
    client_ = CTN_TRY(io::NetfilterClient::open());
    std::promise<void> ready;  // system calls are restricted soon
    thread_ = std::thread([this, &ready] {
        constexpr std::array kForLists = {io::Capability::NetAdmin};
        static_cast<void>(io::keep_capabilities(kForLists));
        static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNatNiceness));  // of this thread
        ready.set_value();
        run();
    });
    ready.get_future().wait();
    pthread_setname_np(thread_.native_handle(), "snapt-nat");
    return {};
}

void NatWatch::stop() {
    is_ending_ = true;
    if (thread_.joinable()) {
        thread_.join();
    }
}

NatLogCounters NatWatch::counters() const {
    const std::scoped_lock lock(mutex_);
    return counters_;
}

void NatWatch::run() {
    log_.start(utc_us());
    int64_t listed_us = 0;
    int64_t flushed_us = 0;
    bool is_whole = true;
    bool is_failed = false;
    while (!is_ending_ && !is_failed) {
        const auto read = monitor_->read(kWait, [this](const io::ConnectionEvent& event) {
            if (!is_meant(event.connection)) {
                return;
            }
            const int64_t at_us = utc_us();
            event.is_end ? log_.end(event.connection, at_us) : log_.begin(event.connection, at_us);
        });
        const int64_t now_us = utc_us();
        if (!read) {
            base::log(base::LogLevel::Error, "the log of translations ends: %s",
                      daemon::describe(read.error()).c_str());
            is_failed = true;
        } else if (!*read) {
            log_.note_overrun(now_us);
            is_whole = false;
        }
        const int64_t since_list_us = std::abs(now_us - listed_us);  // the clock may be set
        if (since_list_us >= (is_whole ? kNatListUs : kNatShortestListUs)) {
            list_all(now_us);
            listed_us = now_us;
            is_whole = true;
        }
        if (std::abs(now_us - flushed_us) >= kFlushUs) {
            log_.flush(now_us);
            flushed_us = now_us;
            const std::scoped_lock lock(mutex_);
            counters_ = log_.counters();
        }
    }
    log_.stop(utc_us());
}

void NatWatch::list_all(int64_t now_us) {
    std::vector<io::TrackedConnection> there;
    bool is_whole = true;
    for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
        const auto listed =
            client_->list_connections(version, [&](const io::TrackedConnection& connection) {
                if (there.size() >= kMaxOpenTranslations) {
                    is_whole = false;
                } else if (is_meant(connection)) {
                    there.push_back(connection);
                }
            });
        is_whole = is_whole && listed.has_value();
    }
    if (is_whole) {
        log_.all_there(there, now_us);
    } else {
        log_.note_overrun(now_us);
    }
}

// ICMP has no port that anybody sees.
bool NatWatch::is_meant(const io::TrackedConnection& connection) const {
    return (connection.protocol == IPPROTO_TCP || connection.protocol == IPPROTO_UDP) &&
           connection.translated != connection.source &&
           std::any_of(leases_.begin(), leases_.end(), [&](const base::IpPrefix& prefix) {
               return prefix.contains(connection.source);
           });
}

Result<std::unique_ptr<NatWatch>> start_nat_watch(const SnaptConfig& config,
                                                  LeaseStore& leases,
                                                  const std::string& state_directory,
                                                  NatOwners& owners) {
    if (config.nat_log.retention_days == 0) {
        return std::unique_ptr<NatWatch>();
    }
    const auto all = CTN_TRY(leases.list());
    for (const Lease& lease : all) {
        for (const auto& address : {lease.ipv4, lease.ipv6}) {
            if (address) {
                owners.set(*address, {lease.owner.user, lease.node, lease.owner.id});
            }
        }
    }
    std::vector<base::IpPrefix> prefixes;
    for (const auto& prefix : {config.inner.ipv4, config.inner.ipv6}) {
        if (prefix) {
            prefixes.push_back(*prefix);
        }
    }
    NatLogOptions options{state_directory + "/" + kNatFolder, config.nat_log.retention_days,
                          config.nat_log.destinations};
    auto watch = std::make_unique<NatWatch>(std::move(options), std::move(prefixes), owners);
    CTN_TRY(watch->start());
    return watch;
}

}  // namespace continuo::snapt
