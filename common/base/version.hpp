// Version of the programs, as in CMakeLists.txt.
#pragma once

namespace continuo::base {

#ifdef CONTINUO_VERSION
inline constexpr const char* kVersion = CONTINUO_VERSION;
#else
inline constexpr const char* kVersion = "0.1.0";
#endif

}  // namespace continuo::base
