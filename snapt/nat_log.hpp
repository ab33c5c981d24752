// NatLog: who had which outer address and port from when to when, for reports of abuse. A file a
// day of UTC, a line an event, comma-separated, removed after so many days. Belongs to one thread;
// find_nat_uses() (nat_question.hpp) reads it. The first fields are the time in microseconds, the
// event, and the number of the translation:
//
//   T,begin,N,PROTO,INNER,PORT,OUTER,PORT,DESTINATION,PORT,ACCOUNT,USER,NODE
//   T,open,…    one that began at T, before this file did
//   T,found,…   was there at T already, when nobody had logged its beginning
//   T,end,N
//   T,start     a run of snapt begins; what was there before is not known to go on
//   T,next      the file goes on where that of the day before ends
//   T,lost,N    before it so many lines were not written, or (0) the kernel did not tell all
//   T,alive     nothing has happened
//   T,stop
#pragma once

#include "common/io/netfilter.hpp"
#include "snapt/nat_owners.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace continuo::snapt {

// Translations that are known at a time; further ones are not logged, and counted. A choice, of
// some 70 MB.
inline constexpr size_t kMaxOpenTranslations = 262'144;
// Lines that wait for the disk; then all are dropped, and counted.
inline constexpr size_t kMaxUnwrittenBytes = size_t{8} << 20;
// After that without a line there is one that says so.
inline constexpr int64_t kNatAliveUs = 60'000'000;
inline constexpr const char* kNatFolder = "nat";  // of the state directory

struct NatLogOptions {
    std::string folder;  // is made
    uint32_t retention_days = 1;
    bool has_destinations = false;
};

struct NatLogCounters {
    uint64_t open = 0;
    uint64_t lines = 0;       // written
    uint64_t lost_lines = 0;  // dropped, as the disk did not take them
    uint64_t unlogged = 0;    // translations beyond kMaxOpenTranslations
    uint64_t overruns = 0;    // the kernel told more than was read
    bool has_write_error = false;
};

// The path of the file of that moment's day.
std::string nat_file(const std::string& folder, int64_t at_us);

class NatLog {
  public:
    NatLog(NatLogOptions options, const NatOwners& owners)
        : options_(std::move(options)), owners_(owners) {}

    // A run begins; all_there() follows.
    void start(int64_t now_us);
    void begin(const io::TrackedConnection& connection, int64_t now_us);
    void end(const io::TrackedConnection& connection, int64_t now_us);
    // No others are there: the rest has ended, and new ones have begun at an unknown time.
    void all_there(std::span<const io::TrackedConnection> connections, int64_t now_us);
    void note_overrun(int64_t now_us);
    // Once a second, and at the end: writes what there is; at midnight to another file.
    void flush(int64_t now_us);
    void stop(int64_t now_us);

    const NatLogCounters& counters() const { return counters_; }

  private:
    struct Translation {
        uint64_t number = 0;
        int64_t began_us = 0;
        NatOwner owner;
    };

    void add(const io::TrackedConnection& connection, int64_t now_us, const char* event);
    void line(int64_t at_us, const std::string& rest);
    void line_of(const io::TrackedConnection& connection,
                 const Translation& translation,
                 int64_t at_us,
                 const char* event);
    bool write();
    void open_file(int64_t now_us);
    void remove_old_files(int64_t now_us) const;

    NatLogOptions options_;
    const NatOwners& owners_;
    std::map<io::TrackedConnection, Translation> open_;
    uint64_t next_number_ = 0;
    std::string path_;
    io::UniqueFd fd_;
    std::string unwritten_;
    uint64_t unwritten_lines_ = 0;
    uint64_t lost_to_tell_ = 0;
    int64_t last_line_us_ = 0;
    NatLogCounters counters_;
};

}  // namespace continuo::snapt
