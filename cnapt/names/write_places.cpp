#include "cnapt/names/write_places.hpp"

#include "common/io/unique_fd.hpp"

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace continuo::cnapt::names {

using base::Errc;
using base::Error;
using base::Result;

namespace {

// linux/landlock.h of Linux 6.2; missing in earlier headers.
constexpr uint64_t kTruncate = uint64_t{1} << 14;
constexpr uint64_t kRefer = uint64_t{1} << 13;  // of Linux 5.19
constexpr long kVersionWithRefer = 2;
constexpr long kVersionWithTruncate = 3;

constexpr uint64_t kFiles =
    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG;
constexpr uint64_t kLinks = LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr uint64_t kOthers = LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                             LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                             LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK;

Error failed() {
    return Error{Errc::System, "limit what may be written", errno};
}

Result<void> allow(int ruleset, int place, uint64_t rights) {
    landlock_path_beneath_attr rule{};
    rule.allowed_access = rights;
    rule.parent_fd = place;
    if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
        return failed();
    }
    return {};
}

}  // namespace

Result<void> write_only_in(std::span<const WritePlace> places) {
    const long version =
        ::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1) {
        return Error{Errc::Unsupported, "the kernel has no Landlock", errno};
    }
    const uint64_t truncate = version >= kVersionWithTruncate ? kTruncate : 0;
    landlock_ruleset_attr attributes{};
    attributes.handled_access_fs =
        kFiles | kLinks | kOthers | truncate | (version >= kVersionWithRefer ? kRefer : 0);
    const io::UniqueFd ruleset(static_cast<int>(
        ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
    if (!ruleset.is_open()) {
        return failed();
    }
    for (const WritePlace& place : places) {
        CTN_TRY(allow(ruleset.value(), place.directory,
                      kFiles | truncate | (place.may_make_links ? kLinks : 0)));
    }
    const io::UniqueFd nowhere(::open("/dev/null", O_PATH | O_CLOEXEC));
    if (nowhere.is_open()) {
        CTN_TRY(allow(ruleset.value(), nowhere.value(), LANDLOCK_ACCESS_FS_WRITE_FILE | truncate));
    }
    return ::syscall(SYS_landlock_restrict_self, ruleset.value(), 0) == 0 ? Result<void>()
                                                                          : failed();
}

}  // namespace continuo::cnapt::names
