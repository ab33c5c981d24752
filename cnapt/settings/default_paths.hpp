// Where cnapt has its files unless it is told otherwise. docs/OPERATIONS.md.
#pragma once

namespace continuo::cnapt::settings {

inline constexpr const char* kDefaultConfig = "/etc/continuo/cnapt.toml";
inline constexpr const char* kDefaultSocket = "/run/continuo/cnapt.sock";
inline constexpr const char* kDefaultState = "/var/lib/cnapt";
inline constexpr const char* kDefaultResolverState = "/var/lib/cnapt-resolver";

}  // namespace continuo::cnapt::settings
