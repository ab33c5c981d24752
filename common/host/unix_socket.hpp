// Addresses of Unix stream sockets and connecting to them, for the command socket's two sides.
#pragma once

#include "common/base/result.hpp"
#include "common/base/time.hpp"
#include "common/io/unique_fd.hpp"

#include <string>

#include <sys/un.h>

namespace continuo::host {

// Errors: InvalidConfig (path longer than 107 characters).
base::Result<sockaddr_un> unix_address(const std::string& path);
// A listener that accepts nothing for this long has stopped, or refuses to.
inline constexpr base::Duration kUnixConnectTime = base::seconds(1);
// Blocking socket; sending also blocks for at most this long. Errors: System, WouldBlock (there is
// a listener, which accepts nothing in that time).
base::Result<io::UniqueFd> unix_connect(const std::string& path,
                                        base::Duration timeout = kUnixConnectTime);

// Non-blocking listener, mode 0660, group `continuo` if there is one. Replaces a socket file that
// nobody listens on. Errors: System (EADDRINUSE: somebody answers there), InvalidConfig as above.
base::Result<io::UniqueFd> unix_listen(const std::string& path);

}  // namespace continuo::host
