// PortalDesk: answers the question for a captive portal (docs/PROTOCOL.md section 4.9). The
// question names no user, so every user's key is tried; trials are limited, since strangers cause
// them. Belongs to the thread of strangers.
#pragma once

#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/control/portal_check.hpp"
#include "common/control/server_control.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace continuo::snapt::links {

// Time charged for a trial. It takes about 3 us, or 5 when a key is derived anew because users have
// changed. At most a tenth of a CPU is used, and with 20 000 users one question a second is
// answered.
inline constexpr base::Duration kPortalTrialTime = base::microseconds(50);

class PortalDesk {
  public:
    // `credentials` must outlive this.
    PortalDesk(control::CredentialSource& credentials, std::string realm)
        : credentials_(credentials), realm_(std::move(realm)) {}

    // The whole answer, with a random tag when no key fits, so that it looks the same. Nothing when
    // there were too many questions.
    std::optional<std::string>
    answer(const control::PortalRequest& request, base::Random& random, base::TimePoint now);

  private:
    size_t refresh();  // keys derived

    control::CredentialSource& credentials_;
    std::string realm_;
    std::shared_ptr<const std::vector<control::UserKey>> known_;  // the users of keys_
    std::vector<control::PortalKey> keys_;
    base::TimePoint free_at_{};  // when the trials so far are paid for
};

}  // namespace continuo::snapt::links
