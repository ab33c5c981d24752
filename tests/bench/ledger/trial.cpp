#include "tests/bench/ledger/trial.hpp"

#include "snapt/accounting/verify.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace continuo::bench {

using snapt::ledger::Ledger;
using snapt::store::Database;
using snapt::store::OpenMode;

TrialFolder::TrialFolder(const Settings& settings) : path_(settings.folder + "/ledger-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
        fail("no folder can be made in " + settings.folder);
    }
}

TrialFolder::~TrialFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

void fail(const std::string& what) {
    std::fprintf(stderr, "bench_ledger: %s\n", what.c_str());
    std::exit(1);
}

void must(bool holds, const std::string& what) {
    if (!holds) {
        fail(what);
    }
}

snapt::ledger::LedgerOptions ledger_options(const std::string& folder, const std::string& boot_id) {
    snapt::ledger::LedgerOptions options;
    options.state_directory = folder;
    options.snapt_id = "zrh-1";
    options.boot_id = boot_id;
    options.live_slots = 256;
    return options;
}

void open_session(Ledger& ledger, uint32_t number, const std::string& user, int64_t at_us) {
    snapt::ledger::SessionOpening opening;
    opening.number = number;
    opening.identity.user_id = user;
    opening.identity.cnapt_id = user + "-laptop";
    opening.identity.opened_at_us = at_us;
    const auto opened = ledger.open_sessions({&opening, 1});
    must(opened.has_value(), "a session cannot be opened");
}

flow::SlotRequest slot_request(uint64_t flow_id, uint32_t session, int64_t at_us) {
    flow::SlotRequest request;
    request.flow_id = flow_id;
    request.session_number = session;
    request.protocol = 6;
    request.remote = *base::IpAddress::parse("198.51.100.2");
    request.remote_port = 443;
    request.opened_at_us = at_us;
    return request;
}

void count(flow::LiveSlot& slot, uint64_t bytes, int64_t at_us) {
    flow::count_packets(slot.counters, flow::Direction::Up, 1, bytes, bytes);
    flow::add(slot.counters.pre_up, bytes);
    flow::add(slot.counters.post_up, bytes);
    slot.last_at_us.store(at_us, std::memory_order_relaxed);
}

uint64_t Load::step(int64_t now_us) {
    flow::LiveSlot*& slot = flows_[random_.below(flows_.size())];
    if (slot == nullptr) {
        slot = ledger_.live().take(
            slot_request(uint64_t{session_} << 32U | next_id_++, session_, now_us));
        must(slot != nullptr, "there is no slot");
    }
    const uint64_t bytes = 40 + random_.below(1460);
    count(*slot, bytes, now_us);
    if (random_.below(10) == 0) {
        ledger_.live().release(slot, flow::Cause::Closed);
        slot = nullptr;
    }
    return bytes;
}

uint64_t recorded_bytes(const std::string& folder, const std::string& user) {
    auto database =
        must_have(Database::open(folder + "/" + snapt::store::kLedgerFileName, OpenMode::ReadWrite),
                  "ledger");
    auto sum =
        must_have(database.prepare("SELECT coalesce(sum(inner_up),0) FROM usage_record WHERE "
                                   "?1='' OR user_id=?1"),
                  "sum");
    sum.bind(1, std::string_view(user));
    must(must_have(sum.step(), "sum"), "no sum");
    return static_cast<uint64_t>(sum.integer(0));
}

void must_verify(const std::string& folder) {
    auto database =
        must_have(Database::open(folder + "/" + snapt::store::kLedgerFileName, OpenMode::ReadWrite),
                  "ledger");
    for (const auto& check : must_have(snapt::accounting::verify_ledger(database), "verify")) {
        must(check.is_good, "verify: " + std::string(check.what) + ": " + check.found);
    }
}

}  // namespace continuo::bench
