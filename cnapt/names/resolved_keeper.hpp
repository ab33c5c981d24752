// ResolvedKeeper: gives systemd-resolved the name servers of the tunnel, and sets them again when
// others remove them (`resolvectl revert`, a network manager, a restart). Blocking; one thread.
#pragma once

#include "cnapt/names/resolv_file.hpp"
#include "cnapt/names/resolved_link.hpp"

#include <chrono>
#include <functional>

namespace continuo::cnapt::names {

// resolvectl needs some 10 ms of the processor to read the link back. A choice, not measured.
inline constexpr std::chrono::seconds kResolvedLookInterval{4};
// Two programs that undo each other's work would never stop: the time between repairs doubles until
// nothing has happened for that long.
inline constexpr std::chrono::seconds kLongestResolvedRest{60};

class ResolvedKeeper {
  public:
    using Clock = std::chrono::steady_clock;

    explicit ResolvedKeeper(ResolvedLink link) : link_(std::move(link)) {}

    // It has them, as far as is known.
    bool is_told() const { return is_told_; }
    // Without resolved, nothing. Errors: as ResolvedLink::set(); then nothing is left of it.
    base::Result<void> tell(const std::vector<base::IpAddress>& servers);
    void undo();
    // Removes the settings of an earlier run.
    void clear();
    // Call each second while names are to go through the tunnel. True: the servers were missing and
    // were set again. Errors: as tell().
    base::Result<bool> look(const std::vector<base::IpAddress>& servers, Clock::time_point now);

  private:
    ResolvedLink link_;
    bool is_told_ = false;
    Clock::time_point looked_at_{};
    Clock::time_point repaired_at_{};
    std::chrono::seconds rest_ = kResolvedLookInterval;
};

// Sends the stub of systemd-resolved a question. Blocks until its answer, for some seconds at most.
void ask_stub();
// Call before file.restore(). resolved adds the servers of a resolv.conf that is not its own to
// those of all links, and does not look at one that is: it would keep ours. So it is shown one that
// names only its stub, which it reads with the next question.
void let_resolved_forget(ResolvFile& file, const std::function<void()>& ask = ask_stub);

}  // namespace continuo::cnapt::names
