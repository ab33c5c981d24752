// ResolvFile: resolv.conf on the disk. While names go through the tunnel another file replaces it
// by a rename. The original (a file, a symbolic link, nothing) is kept under another name and
// restored with its owner, mode and attributes, also after a crash. If the file is a mount, as in
// containers, it is written in place. Blocking; one thread.
//
// Where files cannot be exchanged, or the kept one has changed, the original is written anew from
// the record; it then belongs to this user, who may not give files away.
//
// The record is a file `resolv.conf` in a directory that must belong to this user alone, since its
// content is trusted: header lines, an empty line, our text, the original (or the link's target).
// It is on the disk before resolv.conf is changed, and removed when that is restored.
#pragma once

#include "cnapt/names/resolv_conf.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace continuo::cnapt::names {

class ResolvFile {
  public:
    // Creates `kept` (a directory) if missing, and locks it. Errors: System, InvalidState (`kept`
    // belongs to another user), WouldBlock (another process has it open).
    static base::Result<ResolvFile> open(const std::string& path, const std::string& kept);

    // Restores the original of an earlier run if that run's text is still there; a text that
    // another program has written since stays. True: there was a record. NotFound: that run's text
    // is there, without a record. An unreadable record is moved to `resolv.conf.damaged`.
    base::Result<bool> clean_up();
    // Where another cnapt, or a run with another state directory, keeps the original, if the
    // current file is theirs; otherwise empty.
    std::string other_place() const;
    // Directs names to `servers`. Idempotent. InvalidState: other_place().
    base::Result<void> apply(const std::vector<base::IpAddress>& servers);
    // True when the file differs from the one that apply() wrote.
    bool is_replaced() const;
    // Keeps the current file as the original, and replaces it again.
    base::Result<void> take_over();
    // Restores the original, unless another program has changed the file: then that stays. False:
    // it was changed.
    base::Result<bool> restore();

    bool is_applied() const { return kept_.has_value(); }
    // Restricts this process to writing in the directory of resolv.conf and in `kept`
    // (write_places.hpp). Errors: as write_only_in().
    base::Result<void> confine() const;

    // The name servers of the original of `path` that a run keeps in `kept`, which may be in use.
    // Changes nothing. Empty: none, or unreadable.
    static std::vector<base::IpAddress> servers_kept_in(const std::string& kept,
                                                        const std::string& path);
    // From the original; while nothing is applied, from the file.
    std::vector<base::IpAddress> original_servers() const;
    // systemd-resolved writes this file, and programs ask it at its address.
    bool leads_to_resolved() const;
    // The original is a link to a file that systemd-resolved writes, or names only its stub.
    bool hides_file_of_resolved() const;

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
    // Our text, or a changed version that kept our first lines.
    bool is_ours(const Content& content, const std::string& ours) const;
    // Our text, or half of it after a failed in-place write, as on a full disk.
    bool is_still_ours(const Content& now) const;
    std::string other_place(const Content& content) const;
    std::string temporary_name() const { return "." + name_ + ".continuo"; }
    std::string aside_name() const { return "." + name_ + ".continuo-original"; }
    bool leads_to_stub(const Content& content) const;
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
    // A file to replace `original`, with the same read permissions.
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

}  // namespace continuo::cnapt::names
