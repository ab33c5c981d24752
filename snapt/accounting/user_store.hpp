// UserStore: users and their keys, in the ledger's database. Used by the daemon and, when none
// runs, by the commands directly. Every call is thread-safe; lookup() reads a snapshot in memory
// and never waits for the disk.
#pragma once

#include "common/base/random.hpp"
#include "common/base/secret.hpp"
#include "snapt/accounting/database.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace continuo::snapt {

using UserKey = base::Secret<32>;

inline constexpr size_t kMaxNameBytes = 64;
// Names of users and nodes: 1 to kMaxNameBytes of A-Z a-z 0-9 . _ @ -, not beginning with . or -
bool is_valid_name(std::string_view name);

struct Quota {
    int64_t bytes = 0;
    std::string period;  // "day" or "month"
};

struct Credential {
    std::string user_id;
    std::string key_id;  // "k1", "k2", …
    UserKey key{};
};

struct UserInfo {
    std::string user_id;
    int64_t created_us = 0;
    bool is_disabled = false;
    std::vector<std::string> key_ids;  // valid ones
    std::optional<Quota> quota;
};

class UserStore {
  public:
    // The database lies in `state_directory`; it is made when absent.
    static base::Result<std::unique_ptr<UserStore>> open(const std::string& state_directory);
    UserStore(const UserStore&) = delete;
    UserStore& operator=(const UserStore&) = delete;

    // A fresh key, or `key`: the one that the user has at another SNAPT of the realm.
    // InvalidConfig: bad name or quota; InvalidState: there is such a user.
    base::Result<Credential> add(const std::string& user_id,
                                 const std::optional<Quota>& quota,
                                 int64_t now_us,
                                 base::Random& random,
                                 const std::optional<UserKey>& key = std::nullopt);
    base::Result<std::vector<UserInfo>> list();
    // NotFound: no such user (these four).
    base::Result<void> set_disabled(const std::string& user_id, bool is_disabled);
    // A new key; the ones before are revoked.
    base::Result<Credential>
    rotate(const std::string& user_id, int64_t now_us, base::Random& random);
    // Usage records and leases stay.
    base::Result<void> remove(const std::string& user_id);
    base::Result<void> set_quota(const std::string& user_id, const std::optional<Quota>& quota);

    // The key of a user who may log in.
    std::optional<UserKey> lookup(std::string_view user_id, std::string_view key_id) const;
    bool is_known(std::string_view user_id) const;  // and enabled
    // Of all users who may log in; another object when they have changed.
    std::shared_ptr<const std::vector<UserKey>> all_keys() const;
    // Makes changes of other processes visible.
    base::Result<void> refresh();

  private:
    struct Directory {
        std::unordered_map<std::string, UserKey> keys;  // "user/key id"
        std::unordered_map<std::string, bool> users;    // enabled ones
        std::vector<UserKey> list;                      // all of `keys`
    };
    explicit UserStore(Database database) : database_(std::move(database)) {}
    base::Result<void> load_directory();
    base::Result<Credential> insert_key(const std::string& user_id,
                                        int64_t now_us,
                                        base::Random& random,
                                        const std::optional<UserKey>& key = std::nullopt);
    base::Result<void> write_quota(const std::string& user_id, const std::optional<Quota>& quota);
    base::Result<void> require_user(const std::string& user_id);
    std::shared_ptr<const Directory> directory() const;

    std::mutex database_mutex_;
    Database database_;
    mutable std::mutex directory_mutex_;
    std::shared_ptr<const Directory> directory_;
};

}  // namespace continuo::snapt
