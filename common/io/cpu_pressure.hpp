// CpuPressure: the kernel's pressure stall information for processors
// (Documentation/accounting/psi.rst): how long programs have waited for one. It is the
// host's, even in a container.
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

    // Total time of all programs since the machine started; never decreases.
    std::optional<base::Duration> waited() const;

    // Parses the text of that file; nothing when it is malformed.
    static std::optional<base::Duration> parse(std::string_view text);

  private:
    UniqueFd file_;
};

}  // namespace continuo::io
