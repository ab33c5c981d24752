// OpenSSL as a whole.
#pragma once

namespace continuo::crypto {

// Before anything else of OpenSSL is called. Its tables stay for the system to take at the exit:
// a thread that was abandoned because it hangs (io::WorkerThread) may still use them.
void begin_library();

}  // namespace continuo::crypto
