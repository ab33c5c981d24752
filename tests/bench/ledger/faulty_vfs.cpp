#include "tests/bench/ledger/faulty_vfs.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::bench {
namespace {

using Bytes = std::vector<uint8_t>;

// A change of a file that may not have reached the disk.
struct Change {
    int64_t offset = 0;
    Bytes before;  // what was there, as far as the file went
    Bytes after;   // empty: the file was cut to `offset`
    int64_t size_before = 0;
};

struct Disk {
    sqlite3_vfs own{};
    sqlite3_vfs* real = nullptr;
    std::map<std::string, std::vector<Change>> unsynced;
    uint64_t writes_left = std::numeric_limits<uint64_t>::max();
    std::string unreadable;  // this file
    uint64_t readable_bytes = 0;
    std::function<uint64_t()> room;
};

Disk& disk() {
    static Disk one;
    return one;
}

// SQLite allocates it with the real file behind it.
struct File {
    sqlite3_file base{};
    const char* path = nullptr;  // null: a temporary one
};

sqlite3_file* real_of(sqlite3_file* file) {
    return reinterpret_cast<sqlite3_file*>(reinterpret_cast<File*>(file) + 1);
}
const char* path_of(sqlite3_file* file) {
    return reinterpret_cast<File*>(file)->path;
}

int64_t size_of(sqlite3_file* file) {
    sqlite3_int64 size = 0;
    real_of(file)->pMethods->xFileSize(real_of(file), &size);
    return size;
}

Bytes read_some(sqlite3_file* file, int64_t offset, int64_t end) {
    Bytes bytes(static_cast<size_t>(std::max<int64_t>(0, std::min(end, size_of(file)) - offset)));
    if (!bytes.empty()) {
        real_of(file)->pMethods->xRead(real_of(file), bytes.data(), static_cast<int>(bytes.size()),
                                       offset);
    }
    return bytes;
}

int write_file(sqlite3_file* file, const void* data, int amount, sqlite3_int64 offset) {
    if (disk().writes_left == 0) {
        return SQLITE_IOERR_WRITE;
    }
    --disk().writes_left;
    const int64_t size = size_of(file);
    const auto growth = static_cast<uint64_t>(std::max<int64_t>(0, offset + amount - size));
    if (disk().room && growth > disk().room()) {
        return SQLITE_FULL;
    }
    if (path_of(file) != nullptr) {
        const auto* bytes = static_cast<const uint8_t*>(data);
        disk().unsynced[path_of(file)].push_back(
            {offset, read_some(file, offset, offset + amount), Bytes(bytes, bytes + amount), size});
    }
    return real_of(file)->pMethods->xWrite(real_of(file), data, amount, offset);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
    if (disk().writes_left == 0) {
        return SQLITE_IOERR_TRUNCATE;
    }
    --disk().writes_left;
    const int64_t before = size_of(file);
    if (path_of(file) != nullptr) {
        disk().unsynced[path_of(file)].push_back({size, read_some(file, size, before), {}, before});
    }
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

int sync_file(sqlite3_file* file, int flags) {
    if (disk().writes_left == 0) {
        return SQLITE_IOERR_FSYNC;
    }
    const int code = real_of(file)->pMethods->xSync(real_of(file), flags);
    if (code == SQLITE_OK && path_of(file) != nullptr) {
        disk().unsynced.erase(path_of(file));
    }
    return code;
}

sqlite3_io_methods make_methods() {
    sqlite3_io_methods own{};
    own.iVersion = 2;  // no memory mapping
    own.xClose = [](sqlite3_file* f) { return real_of(f)->pMethods->xClose(real_of(f)); };
    own.xRead = [](sqlite3_file* f, void* to, int amount, sqlite3_int64 at) {
        const uint64_t end = static_cast<uint64_t>(at) + static_cast<uint64_t>(amount);
        if (path_of(f) != nullptr && path_of(f) == disk().unreadable &&
            end > disk().readable_bytes) {
            return SQLITE_IOERR_READ;
        }
        return real_of(f)->pMethods->xRead(real_of(f), to, amount, at);
    };
    own.xWrite = write_file;
    own.xTruncate = truncate_file;
    own.xSync = sync_file;
    own.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
        return real_of(f)->pMethods->xFileSize(real_of(f), size);
    };
    own.xLock = [](sqlite3_file* f, int kind) {
        return real_of(f)->pMethods->xLock(real_of(f), kind);
    };
    own.xUnlock = [](sqlite3_file* f, int kind) {
        return real_of(f)->pMethods->xUnlock(real_of(f), kind);
    };
    own.xCheckReservedLock = [](sqlite3_file* f, int* result) {
        return real_of(f)->pMethods->xCheckReservedLock(real_of(f), result);
    };
    own.xFileControl = [](sqlite3_file* f, int operation, void* argument) {
        return real_of(f)->pMethods->xFileControl(real_of(f), operation, argument);
    };
    own.xSectorSize = [](sqlite3_file* f) { return real_of(f)->pMethods->xSectorSize(real_of(f)); };
    own.xDeviceCharacteristics = [](sqlite3_file* f) {
        return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
    };
    own.xShmMap = [](sqlite3_file* f, int region, int bytes, int extend, void volatile** to) {
        return real_of(f)->pMethods->xShmMap(real_of(f), region, bytes, extend, to);
    };
    own.xShmLock = [](sqlite3_file* f, int offset, int count, int flags) {
        return real_of(f)->pMethods->xShmLock(real_of(f), offset, count, flags);
    };
    own.xShmBarrier = [](sqlite3_file* f) { real_of(f)->pMethods->xShmBarrier(real_of(f)); };
    own.xShmUnmap = [](sqlite3_file* f, int remove) {
        return real_of(f)->pMethods->xShmUnmap(real_of(f), remove);
    };
    return own;
}

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    static const sqlite3_io_methods methods = make_methods();
    const int code = disk().real->xOpen(disk().real, name, real_of(file), flags, out);
    file->pMethods = real_of(file)->pMethods == nullptr ? nullptr : &methods;
    reinterpret_cast<File*>(file)->path = name;
    return code;
}

int delete_file(sqlite3_vfs*, const char* name, int sync_folder) {
    if (disk().writes_left == 0) {
        return SQLITE_IOERR_DELETE;
    }
    disk().unsynced.erase(name);
    return disk().real->xDelete(disk().real, name, sync_folder);
}

void write_at(int fd, const Bytes& bytes, size_t count, int64_t offset) {
    static_cast<void>(::pwrite(fd, bytes.data(), count, offset) == static_cast<ssize_t>(count));
}

void restore_file(const std::string& path,
                  const std::vector<Change>& changes,
                  base::Random& random) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
        write_at(fd, change->before, change->before.size(), change->offset);
        static_cast<void>(::ftruncate(fd, change->size_before) == 0);
    }
    // Nothing, all, or any of it has reached the disk.
    const uint64_t kind = random.below(3);
    for (const Change& change : changes) {
        const uint64_t share = kind < 2 ? kind * 2 : random.below(3);  // halves
        if (share == 0) {
            continue;
        }
        if (change.after.empty()) {
            static_cast<void>(::ftruncate(fd, change.offset) == 0);
        } else {
            write_at(fd, change.after, change.after.size() * share / 2, change.offset);
        }
    }
    ::close(fd);
}

}  // namespace

namespace faulty_vfs {

void install() {
    if (disk().real != nullptr) {
        return;
    }
    disk().real = sqlite3_vfs_find(nullptr);
    disk().own = *disk().real;
    disk().own.pNext = nullptr;
    disk().own.zName = "faulty";
    disk().own.szOsFile = static_cast<int>(sizeof(File)) + disk().real->szOsFile;
    disk().own.xOpen = open_file;
    disk().own.xDelete = delete_file;
    sqlite3_vfs_register(&disk().own, 1);
}

void remove() {
    sqlite3_vfs_unregister(&disk().own);
    disk() = Disk();
}

void cut_power_after(uint64_t writes) {
    disk().writes_left = writes;
}

bool is_power_off() {
    return disk().writes_left == 0;
}

void restore(base::Random& random) {
    for (const auto& [path, changes] : disk().unsynced) {
        restore_file(path, changes, random);
        // Memory, not a file of the disk.
        const std::string log_end = "-wal";
        if (path.size() > log_end.size() && path.ends_with(log_end)) {
            ::unlink((path.substr(0, path.size() - log_end.size()) + "-shm").c_str());
        }
    }
    disk().unsynced.clear();
    disk().writes_left = std::numeric_limits<uint64_t>::max();
}

void fail_reads(const std::string& path, uint64_t offset) {
    disk().unreadable = path;
    disk().readable_bytes = offset;
}

void set_room(std::function<uint64_t()> room) {
    disk().room = std::move(room);
}

}  // namespace faulty_vfs

}  // namespace continuo::bench
