// Addresses of Unix stream sockets and connecting to them, for the command socket's two sides.
#pragma once

#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <string>

#include <sys/un.h>

namespace continuo::io {

// Errors: InvalidConfig (path longer than 107 characters).
base::Result<sockaddr_un> unix_address(const std::string& path);
// Blocking socket. Errors: System.
base::Result<UniqueFd> unix_connect(const std::string& path);

}  // namespace continuo::io
