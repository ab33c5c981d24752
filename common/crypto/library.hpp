// OpenSSL as a whole.
#pragma once

namespace continuo::crypto {

// Call before anything else of OpenSSL. Its tables are left to the system at exit: a hanging thread
// that was abandoned (io::WorkerThread) may still use them.
void begin_library();

}  // namespace continuo::crypto
