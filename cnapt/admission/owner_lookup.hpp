// OwnerLookup: finds the owner of a flow: a process of this host, or, on a gateway, another host of
// the LAN. The kernel is asked on a helper thread, the answer comes on the data loop.
#pragma once

#include "common/io/worker_thread.hpp"
#include "common/netfilter/netfilter.hpp"
#include "common/process/process_lookup.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace continuo::cnapt::admission {

struct FoundOwner {
    process::SocketOwner socket;  // inode 0: no process of this host
    std::string user;
    std::optional<base::IpAddress> host;  // in the LAN
};

class OwnerLookup {
  public:
    using OnFound = std::function<void(const packet::FiveTuple& flow, FoundOwner owner)>;

    // `loop` must outlive this.
    OwnerLookup(io::EventLoop& loop, OnFound on_found)
        : loop_(loop), on_found_(std::move(on_found)) {}

    // On failure `failure` has the text.
    base::Result<void> start(bool is_gateway, std::string& failure);
    // Once it has started. Of too many questions at once the further ones have no answer.
    void ask(const packet::FiveTuple& flow);

  private:
    io::EventLoop& loop_;
    OnFound on_found_;
    std::shared_ptr<process::ProcessLookup> processes_;
    std::shared_ptr<netfilter::NetfilterClient> tracking_;  // a gateway's connections
    std::unique_ptr<io::WorkerThread> worker_;              // uses both
};

}  // namespace continuo::cnapt::admission
