// ResolvFile: resolv.conf on the disk. While names go through the tunnel another file takes its
// place, by a rename. The original (a file, a symbolic link, nothing) is set aside under another
// name. It comes back with its owner, mode and attributes, also after a crash. Where the file is a
// mount of its own, as in containers, it is written in place. Blocking; one thread.
//
// Where two files cannot change places, and when the one set aside is no more as it was, the
// original is written anew from what is kept: its owner is then this user, who may not give files
// away.
//
// Kept is one file, `resolv.conf`, in a directory that must belong to this user alone, since what
// it holds is believed: header lines, an empty line, our text, the original (or the link's target).
// It is on the disk before resolv.conf is changed, and goes when that is as it was.
#pragma once

#include "cnapt/resolv_conf.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace continuo::cnapt {

class ResolvFile {
  public:
    // Makes `kept` (a directory) if it is not there, and locks it. Errors: System, InvalidState
    // (`kept` is somebody else's), WouldBlock (another process has it open).
    static base::Result<ResolvFile> open(const std::string& path, const std::string& kept);

    // Puts back what an earlier run has kept, if its text is still there; what somebody else has
    // put there since stays. True: something was kept. NotFound: that run's text is there, and
    // nothing is kept. A record that cannot be read is put aside as `resolv.conf.damaged`.
    base::Result<bool> clean_up();
    // Where the original is kept, by another cnapt or by a run with another state directory, when
    // it is theirs what is there now; else empty.
    std::string other_place() const;
    // Names go to `servers` from now on. Idempotent. InvalidState: other_place().
    base::Result<void> apply(const std::vector<base::IpAddress>& servers);
    // True when something else is there than what apply() wrote.
    bool is_replaced() const;
    // Keeps what is there now as the original, and puts ours in its place again.
    base::Result<void> take_over();
    // Puts the original back, unless somebody else has changed the file: then that stays. False: it
    // was changed.
    base::Result<bool> restore();

    bool is_applied() const { return kept_.has_value(); }
    // From now on this process writes only where this needs it (write_places.hpp): in the directory
    // of resolv.conf and in `kept`. Errors: as write_only_in().
    base::Result<void> confine() const;

    // The name servers of the original of `path` that a run keeps in `kept`, which may be in use.
    // Changes nothing. Empty: none, or it cannot be read.
    static std::vector<base::IpAddress> servers_kept_in(const std::string& kept,
                                                        const std::string& path);
    // As the original says it; while nothing is applied, as the file does.
    std::vector<base::IpAddress> original_servers() const;
    // systemd-resolved makes this file, and programs ask it at its address.
    bool leads_to_resolved() const;

  private:
    enum class Kind : uint8_t { Absent, Regular, Link };
    struct Content {
        Kind kind = Kind::Absent;
        std::string text;  // of the file, or the link's target
        mode_t mode = 0644;
        uid_t user = 0;
        gid_t group = 0;
        timespec modified{};
    };
    struct Kept {
        std::string ours;
        Content original;
    };

    ResolvFile(std::string path, std::string kept_path)
        : path_(std::move(path)), kept_path_(std::move(kept_path)) {}
    base::Result<void> open_directory();
    base::Result<Content> look() const { return look_at(name_); }
    base::Result<Content> look_at(const std::string& name) const;
    // Ours, or made of it by a change that left its first lines.
    bool is_ours(const Content& content, const std::string& ours) const;
    // Ours, or half written by a try in place that has failed, as on a full disk.
    bool is_still_ours(const Content& now) const;
    std::string other_place(const Content& content) const;
    std::string temporary_name() const { return "." + name_ + ".continuo"; }
    std::string aside_name() const { return "." + name_ + ".continuo-original"; }
    // The text that programs read.
    std::string text_of(const Content& content) const;
    base::Result<void> keep(const Kept& kept) const;
    base::Result<std::optional<Kept>> read_kept() const;
    base::Result<void> forget();
    base::Result<void> put(const Content& content) const;
    base::Result<void> put_under(const std::string& temporary, const Content& content) const;
    // Sets aside what is there now.
    base::Result<void> exchange(const Content& ours) const;
    base::Result<void> put_back(const Content& original) const;
    bool take_back_aside(const Content& now) const;
    // A file in the place of `original` that programs may read as they may that one.
    Content make_ours(std::string text, const Content& original) const;

    std::string path_;
    std::string kept_path_;  // the directory
    std::string name_;       // of the file in its directory
    io::UniqueFd directory_;
    io::UniqueFd kept_directory_;
    std::vector<base::IpAddress> servers_;
    std::optional<Kept> kept_;
    bool is_unfinished_ = false;  // the last try to change the file has failed on the way
};

}  // namespace continuo::cnapt
