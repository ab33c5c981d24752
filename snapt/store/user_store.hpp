// UserStore: users and their keys, in the ledger's database. A user has one key per device, and two
// during a rotation. Used by the daemon and, when none runs, by the commands directly. Thread-safe;
// lookup() reads a snapshot in memory and never waits for the disk.
#pragma once

#include "common/base/random.hpp"
#include "common/base/secret.hpp"
#include "snapt/store/account.hpp"
#include "snapt/store/database.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace continuo::snapt::store {

using UserKey = base::Secret<32>;

inline constexpr size_t kMaxNameBytes = 64;
inline constexpr size_t kMaxKeyIdBytes = 32;  // docs/PROTOCOL.md section 4.2
// Keys of one user that are not revoked and not expired. A choice, not measured.
inline constexpr int64_t kMaxUserKeys = 64;
// Names of users, devices and nodes: 1 to kMaxNameBytes of A-Z a-z 0-9 . _ @ -, not beginning with
// . or -
bool is_valid_name(std::string_view name);
// A name of 1 to kMaxKeyIdBytes.
bool is_valid_key_id(std::string_view key_id);

struct Credential {
    std::string user_id;
    int64_t account_id = kNoAccount;
    std::string key_id;  // "k1", "k2", …, or as another SNAPT called it
    UserKey key{};
    std::string device{};  // empty: none was named
    // The key is stored, but the keys could not be read again: it lets nobody in until refresh().
    std::optional<base::Error> unread{};
};

// Properties of a new key.
struct NewKey {
    std::string device;          // empty: none
    std::string key_id;          // empty: the next number
    std::optional<UserKey> key;  // from another SNAPT of the realm; otherwise a fresh one
};

// A choice among the keys of a user: all, those of a device, or one.
struct KeyChoice {
    std::string device;
    std::string key_id;

    bool is_all() const { return device.empty() && key_id.empty(); }
};

struct KeyInfo {
    std::string key_id;
    std::string device;
    int64_t created_us = 0;
    bool is_disabled = false;
    std::optional<int64_t> seen_us;     // when a session last used it
    std::optional<int64_t> expires_us;  // set once the key was replaced
};

struct UserInfo {
    std::string user_id;
    int64_t account_id = kNoAccount;
    int64_t created_us = 0;
    bool is_disabled = false;
    std::vector<KeyInfo> keys;  // neither revoked nor expired
    std::optional<Quota> quota;
};

class UserStore {
  public:
    // The database is in `state_directory`. Mode ReadWrite creates it if missing; in mode ReadOnly
    // only lookups and list() work.
    static base::Result<std::unique_ptr<UserStore>> open(const std::string& state_directory,
                                                         OpenMode mode = OpenMode::ReadWrite);
    UserStore(const UserStore&) = delete;
    UserStore& operator=(const UserStore&) = delete;

    // Creates a user with a key; an existing user gets another one if `wanted` names a device or an
    // id. InvalidConfig: bad name or quota; InvalidState: the user, the key id, or a key of the
    // device exists; LimitReached: kMaxUserKeys.
    base::Result<Credential> add(const std::string& user_id,
                                 const std::optional<Quota>& quota,
                                 int64_t now_us,
                                 base::Random& random,
                                 const NewKey& wanted = {});
    base::Result<std::vector<UserInfo>> list(int64_t now_us);
    // NotFound: no such user or key (these five).
    base::Result<void>
    set_disabled(const std::string& user_id, bool is_disabled, const KeyChoice& keys = {});
    // A new key for a device; earlier ones stay valid for `overlap_us`. Without a device, the
    // user's only one. InvalidState: it has several.
    base::Result<Credential> rotate(const std::string& user_id,
                                    int64_t now_us,
                                    base::Random& random,
                                    const NewKey& wanted = {},
                                    int64_t overlap_us = 0);
    // Permanent. InvalidConfig when `keys` names none.
    base::Result<void> revoke(const std::string& user_id, const KeyChoice& keys, int64_t now_us);
    // Usage records and leases stay with the account, whose secrets are deleted. A later user of
    // the name gets another account, and key ids that this one did not have.
    base::Result<void> remove(const std::string& user_id, int64_t now_us);

    // The key of a user who may log in, and its account.
    std::optional<UserKey> lookup(std::string_view user_id, std::string_view key_id) const;
    std::optional<int64_t> account_of(std::string_view user_id, std::string_view key_id) const;
    bool is_known(std::string_view user_id) const;  // and enabled
    // All users who may log in; a new object when they have changed.
    std::shared_ptr<const std::vector<UserKey>> all_keys() const;
    // Ends expired keys; call it often. True when one has expired.
    bool expire(int64_t now_us);
    // Reads changes of other processes.
    base::Result<void> refresh();

    // The key was used then: list() shows it at once, the disk after write_seen().
    void note_seen(const std::string& user_id, const std::string& key_id, int64_t at_us);
    base::Result<void> write_seen();

  private:
    struct Entry {
        UserKey key{};
        int64_t account_id = kNoAccount;
        int64_t expires_us = 0;
    };
    struct Directory {
        std::unordered_map<std::string, Entry> keys;  // "user/key id"
        std::unordered_map<std::string, bool> users;  // enabled ones
        std::vector<UserKey> list;                    // all of `keys`
        int64_t next_expiry_us = 0;
    };
    using SeenKey = std::pair<std::string, std::string>;  // user, key id

    explicit UserStore(Database database) : database_(std::move(database)) {}
    base::Result<void> load_directory();
    std::shared_ptr<const Directory> publish(Directory&& fresh);
    base::Result<void> load_directory_after(const std::string& user_id);
    base::Result<Account> add_user(const std::string& user_id,
                                   const std::optional<Quota>& quota,
                                   int64_t now_us,
                                   bool may_be_there);
    base::Result<Credential>
    insert_key(const Account& account, int64_t now_us, base::Random& random, const NewKey& wanted);
    base::Result<std::string> next_key_id(const std::string& user_id);
    base::Result<std::string>
    device_to_rotate(const Account& account, const std::string& wanted, int64_t now_us);
    base::Result<void> require_free(const Account& account, const NewKey& wanted, int64_t now_us);
    base::Result<int64_t> make_account(const std::string& user_id,
                                       const std::optional<Quota>& quota);
    // NotFound: no such user.
    base::Result<Account> account_of_user(const std::string& user_id);
    base::Result<void> add_keys(UserInfo& user, int64_t now_us);
    base::Result<void> write_seen(const std::map<SeenKey, int64_t>& seen);
    std::shared_ptr<const Directory> directory() const;
    std::optional<Entry> entry(std::string_view user_id, std::string_view key_id) const;

    std::mutex database_mutex_;
    Database database_;
    mutable std::mutex directory_mutex_;
    std::shared_ptr<const Directory> directory_;
    int64_t expired_until_us_ = 0;
    bool has_expired_ = false;  // some key, since expire() reported it
    std::mutex seen_mutex_;
    std::map<SeenKey, int64_t> seen_;  // not written yet; only of keys that are valid
};

}  // namespace continuo::snapt::store
