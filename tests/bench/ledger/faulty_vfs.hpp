// FaultyVfs: SQLite's files on a disk that loses its power, gets full and cannot be read. Writes
// are noted until the file is synced; a loss of power takes any of those back, in whole or in half.
// The removal of a file counts as synced. One thread.
#pragma once

#include "common/base/random.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace continuo::bench {

namespace faulty_vfs {

// For every database that is opened from now on, until remove(): none may be open then.
void install();
void remove();
// The power goes with this write, counted from now; later ones fail.
void cut_power_after(uint64_t writes);
bool is_power_off();
// Restores the files as a disk may have them after a loss of power; the power is on again. No
// database may be open.
void restore(base::Random& random);
// Reads of this file that go beyond `offset` fail; empty: none do.
void fail_reads(const std::string& path, uint64_t offset);
// Bytes by which files may still grow, asked at each write that makes one longer; empty: any.
void set_room(std::function<uint64_t()> room);

}  // namespace faulty_vfs

}  // namespace continuo::bench
