#include "snapt/store/user_store.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace continuo::snapt::store {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr int64_t kNeverUs = std::numeric_limits<int64_t>::max();
constexpr Error kNoSuchKey{Errc::NotFound, "no such key", 0};
constexpr Error kBadName{Errc::InvalidConfig,
                         "user name: 1 to 64 letters, digits and . _ @ - (not . or - first)", 0};

bool is_letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

Result<void> check_quota(const std::optional<Quota>& quota) {
    if (quota && (quota->bytes <= 0 || (quota->period != "day" && quota->period != "month"))) {
        return Error{Errc::InvalidConfig, "quota: a positive number of bytes per day or month", 0};
    }
    return {};
}

std::string directory_key(std::string_view user_id, std::string_view key_id) {
    std::string key(user_id);
    key += '/';
    key += key_id;
    return key;
}

}  // namespace

bool is_valid_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' &&
           name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
               return is_letter_or_digit(c) || c == '.' || c == '_' || c == '@' || c == '-';
           });
}

bool is_valid_key_id(std::string_view key_id) {
    return is_valid_name(key_id) && key_id.size() <= kMaxKeyIdBytes;
}

Result<std::unique_ptr<UserStore>> UserStore::open(const std::string& state_directory,
                                                   OpenMode mode) {
    Database database = CTN_TRY(Database::open(state_directory + "/" + kLedgerFileName, mode));
    std::unique_ptr<UserStore> store(new UserStore(std::move(database)));
    CTN_TRY(store->load_directory());
    return store;
}

Result<int64_t> UserStore::make_account(const std::string& user_id,
                                        const std::optional<Quota>& quota) {
    Statement insert =
        CTN_TRY(database_.prepare("INSERT INTO account(user_id,status,quota_bytes,quota_period) "
                                  "VALUES(?1,'active',?2,?3) RETURNING account_id"));
    insert.bind(1, std::string_view(user_id));
    if (quota) {
        insert.bind(2, quota->bytes).bind(3, std::string_view(quota->period));
    } else {
        insert.bind_null(2).bind_null(3);
    }
    CTN_TRY(insert.step());
    const int64_t account_id = insert.integer(0);
    CTN_TRY(insert.run());
    return account_id;
}

Result<Account> UserStore::add_user(const std::string& user_id,
                                    const std::optional<Quota>& quota,
                                    int64_t now_us,
                                    bool may_be_there) {
    auto there = account_of_user(user_id);
    if (there && may_be_there) {
        return there;
    }
    if (there) {
        return Error{Errc::InvalidState,
                     "there is a user of this name already; --device NAME without --quota gives it "
                     "another key",
                     0};
    }
    if (there.error().code != Errc::NotFound) {
        return there;
    }
    const Account account{CTN_TRY(make_account(user_id, quota)), user_id};
    Statement insert = CTN_TRY(
        database_.prepare("INSERT INTO user(user_id,created,disabled,account_id) VALUES(?,?,0,?)"));
    CTN_TRY(insert.bind(1, std::string_view(user_id)).bind(2, now_us).bind(3, account.id).run());
    return account;
}

Result<Credential> UserStore::add(const std::string& user_id,
                                  const std::optional<Quota>& quota,
                                  int64_t now_us,
                                  base::Random& random,
                                  const NewKey& wanted) {
    if (!is_valid_name(user_id)) {
        return kBadName;
    }
    CTN_TRY(check_quota(quota));
    const bool may_be_there = !quota && (!wanted.device.empty() || !wanted.key_id.empty());
    const std::lock_guard lock(database_mutex_);
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    const Account account = CTN_TRY(add_user(user_id, quota, now_us, may_be_there));
    CTN_TRY(require_free(account, wanted, now_us));
    Credential credential = CTN_TRY(insert_key(account, now_us, random, wanted));
    CTN_TRY(transaction.commit());
    if (const auto loaded = load_directory(); !loaded) {
        credential.unread = loaded.error();
    }
    return credential;
}

Result<std::vector<UserInfo>> UserStore::list(int64_t now_us) {
    const std::lock_guard lock(database_mutex_);
    Statement select = CTN_TRY(database_.prepare(
        "SELECT u.user_id,u.created,u.disabled,a.quota_bytes,a.quota_period,u.account_id FROM user "
        "u "
        "JOIN account a ON a.account_id=u.account_id ORDER BY u.user_id"));
    std::vector<UserInfo> users;
    while (CTN_TRY(select.step())) {
        UserInfo& info = users.emplace_back();
        info.user_id = select.text(0);
        info.created_us = select.integer(1);
        info.is_disabled = select.integer(2) != 0;
        if (!select.is_null(3)) {
            info.quota = Quota{select.integer(3), select.text(4)};
        }
        info.account_id = select.integer(5);
        CTN_TRY(add_keys(info, now_us));
    }
    return users;
}

Result<Account> UserStore::account_of_user(const std::string& user_id) {
    Statement select = CTN_TRY(database_.prepare("SELECT account_id FROM user WHERE user_id=?"));
    if (!CTN_TRY(select.bind(1, std::string_view(user_id)).step())) {
        return Error{Errc::NotFound, "no such user", 0};
    }
    return Account{select.integer(0), user_id};
}

Result<void>
UserStore::set_disabled(const std::string& user_id, bool is_disabled, const KeyChoice& keys) {
    const std::lock_guard lock(database_mutex_);
    const Account account = CTN_TRY(account_of_user(user_id));
    Statement update = CTN_TRY(database_.prepare(
        keys.is_all()
            ? "UPDATE user SET disabled=?2 WHERE account_id=?1"
            : "UPDATE credential SET disabled=?2 WHERE account_id=?1 AND revoked IS NULL AND "
              "?3 IN ('',device) AND ?4 IN ('',key_id)"));
    update.bind(1, account.id).bind(2, is_disabled ? 1 : 0);
    if (!keys.is_all()) {
        update.bind(3, std::string_view(keys.device)).bind(4, std::string_view(keys.key_id));
    }
    CTN_TRY(update.run());
    if (database_.changes() == 0) {
        return kNoSuchKey;
    }
    return load_directory_after(user_id);
}

Result<void> UserStore::remove(const std::string& user_id, int64_t now_us) {
    const std::lock_guard lock(database_mutex_);
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    const Account account = CTN_TRY(account_of_user(user_id));
    for (const char* sql :
         {"UPDATE credential SET secret=x'',revoked=coalesce(revoked,?2) WHERE account_id=?1",
          "UPDATE account SET removed=?2,status='removed' WHERE account_id=?1",
          "DELETE FROM user WHERE account_id=?1 AND ?2=?2"}) {
        Statement change = CTN_TRY(database_.prepare(sql));
        CTN_TRY(change.bind(1, account.id).bind(2, now_us).run());
    }
    CTN_TRY(transaction.commit());
    {
        const std::lock_guard seen_lock(seen_mutex_);
        std::erase_if(seen_, [&user_id](const auto& seen) { return seen.first.first == user_id; });
    }
    return load_directory_after(user_id);
}

Result<void> UserStore::load_directory() {
    Directory fresh;
    Statement select = CTN_TRY(database_.prepare(
        "SELECT u.user_id,c.key_id,c.secret,c.expires,u.account_id FROM user u JOIN credential c "
        "ON "
        "c.account_id=u.account_id WHERE u.disabled=0 AND c.disabled=0 AND c.revoked IS NULL"));
    while (CTN_TRY(select.step())) {
        const base::ByteView secret = select.blob(2);
        Entry entry;
        if (secret.size() != entry.key.size()) {
            return Error{Errc::Malformed, "ledger.db is damaged", 0};
        }
        std::copy(secret.begin(), secret.end(), entry.key.begin());
        entry.expires_us = select.is_null(3) ? kNeverUs : select.integer(3);
        entry.account_id = select.integer(4);
        fresh.keys[directory_key(select.text(0), select.text(1))] = entry;
    }
    std::shared_ptr<const Directory> old;  // may be large: freed after the lock
    const std::lock_guard lock(directory_mutex_);
    old = publish(std::move(fresh));
    return {};
}

// Called when the user's keys were removed on the disk but cannot be read again: none of them lets
// anybody in until refresh().
Result<void> UserStore::load_directory_after(const std::string& user_id) {
    auto loaded = load_directory();
    if (!loaded) {
        std::shared_ptr<const Directory> old;
        const std::lock_guard lock(directory_mutex_);
        Directory fresh;
        fresh.keys = directory_->keys;
        std::erase_if(fresh.keys, [start = directory_key(user_id, "")](const auto& key) {
            return key.first.starts_with(start);
        });
        old = publish(std::move(fresh));
    }
    return loaded;
}

// Completes `fresh`, which has only the keys, including expired ones, and publishes it. Returns the
// previous one. The caller holds directory_mutex_.
std::shared_ptr<const UserStore::Directory> UserStore::publish(Directory&& fresh) {
    const size_t expired = std::erase_if(
        fresh.keys, [this](const auto& key) { return key.second.expires_us <= expired_until_us_; });
    has_expired_ = has_expired_ || expired != 0;
    fresh.next_expiry_us = kNeverUs;
    for (const auto& [name, entry] : fresh.keys) {
        fresh.list.push_back(entry.key);
        fresh.users[name.substr(0, name.find('/'))] = true;
        fresh.next_expiry_us = std::min(fresh.next_expiry_us, entry.expires_us);
    }
    return std::exchange(directory_, std::make_shared<const Directory>(std::move(fresh)));
}

bool UserStore::expire(int64_t now_us) {
    std::shared_ptr<const Directory> old;
    const std::lock_guard lock(directory_mutex_);
    expired_until_us_ = now_us;
    if (directory_->next_expiry_us <= now_us) {
        Directory fresh;
        fresh.keys = directory_->keys;
        old = publish(std::move(fresh));
    }
    return std::exchange(has_expired_, false);
}

std::shared_ptr<const UserStore::Directory> UserStore::directory() const {
    const std::lock_guard lock(directory_mutex_);
    return directory_;
}

std::optional<UserStore::Entry> UserStore::entry(std::string_view user_id,
                                                 std::string_view key_id) const {
    if (!is_valid_name(user_id) || !is_valid_name(key_id)) {
        return std::nullopt;
    }
    const auto current = directory();
    const auto found = current->keys.find(directory_key(user_id, key_id));
    return found == current->keys.end() ? std::nullopt : std::optional(found->second);
}

std::optional<UserKey> UserStore::lookup(std::string_view user_id, std::string_view key_id) const {
    const auto found = entry(user_id, key_id);
    return found ? std::optional(found->key) : std::nullopt;
}

std::optional<int64_t> UserStore::account_of(std::string_view user_id,
                                             std::string_view key_id) const {
    const auto found = entry(user_id, key_id);
    return found ? std::optional(found->account_id) : std::nullopt;
}

bool UserStore::is_known(std::string_view user_id) const {
    return directory()->users.contains(std::string(user_id));
}

std::shared_ptr<const std::vector<UserKey>> UserStore::all_keys() const {
    const auto current = directory();
    return {current, &current->list};
}

Result<void> UserStore::refresh() {
    const std::lock_guard lock(database_mutex_);
    return load_directory();
}

}  // namespace continuo::snapt::store
