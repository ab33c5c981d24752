#include "cnapt/admission/owner_lookup.hpp"

#include <utility>

namespace continuo::cnapt::admission {

namespace {

constexpr size_t kWorkerQueue = 1024;

}  // namespace

base::Result<void> OwnerLookup::start(bool is_gateway, std::string& failure) {
    failure = "cannot look up processes";
    processes_ = std::make_shared<process::ProcessLookup>(CTN_TRY(process::ProcessLookup::open()));
    if (is_gateway) {
        failure = "cannot ask for connections of the LAN";
        tracking_ = std::make_shared<netfilter::NetfilterClient>(
            CTN_TRY(netfilter::NetfilterClient::open()));
    }
    worker_ = std::make_unique<io::WorkerThread>(loop_, "cnapt-lookup", kWorkerQueue);
    return {};
}

void OwnerLookup::ask(const packet::FiveTuple& flow) {
    auto answer = std::make_shared<FoundOwner>();
    worker_->submit(
        [processes = processes_, tracking = tracking_, flow, answer] {
            if (auto owner = processes->find(flow)) {
                answer->socket = std::move(*owner);
                answer->user = process::user_name(answer->socket.user_id);
            } else if (tracking != nullptr) {
                if (const auto host = tracking->source_of(flow)) {
                    answer->host = *host;
                }
            }
        },
        [this, flow, answer] { on_found_(flow, std::move(*answer)); });
}

}  // namespace continuo::cnapt::admission
