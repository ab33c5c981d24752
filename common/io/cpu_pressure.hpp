// CpuPressure: the kernel's pressure stall information of the processors
// (Documentation/accounting/psi.rst): for how long programs have waited for one. The host's, also
// in a container.
#pragma once

#include "common/base/time.hpp"
#include "common/io/unique_fd.hpp"

#include <optional>
#include <string_view>

namespace continuo::io {

class CpuPressure {
  public:
    // Opens /proc/pressure/cpu; a kernel without it gives no values.
    CpuPressure();

    // Time of all programs of this machine since it started; never shrinks.
    std::optional<base::Duration> waited() const;

    // The text of that file; nothing when it is none.
    static std::optional<base::Duration> parse(std::string_view text);

  private:
    UniqueFd file_;
};

}  // namespace continuo::io
