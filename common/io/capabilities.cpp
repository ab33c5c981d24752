#include "common/io/capabilities.hpp"

#include <array>
#include <cerrno>

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace continuo::io {

namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr unsigned kWordBits = 32;

Error failed(std::string_view what) {
    return Error{Errc::System, what, errno};
}

uint64_t mask_of(std::span<const Capability> list) {
    uint64_t mask = 0;
    for (const Capability capability : list) {
        mask |= uint64_t{1} << static_cast<unsigned>(capability);
    }
    return mask;
}

}  // namespace

Result<void> keep_capabilities(std::span<const Capability> kept) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) {
        return failed("capget");
    }
    uint64_t mask = mask_of(kept);
    for (__user_cap_data_struct& word : data) {
        word.permitted &= static_cast<uint32_t>(mask);
        word.effective = word.permitted;
        word.inheritable = 0;
        mask >>= kWordBits;
    }
    if (::syscall(SYS_capset, &header, data.data()) != 0) {
        return failed("capset");
    }
    return {};
}

}  // namespace continuo::io
