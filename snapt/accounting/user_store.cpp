#include "snapt/accounting/user_store.hpp"

#include "snapt/accounting/ledger.hpp"

#include <algorithm>

namespace continuo::snapt {
namespace {

using base::Errc;
using base::Error;
using base::Result;

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

Result<std::unique_ptr<UserStore>> UserStore::open(const std::string& state_directory) {
    Database database =
        CTN_TRY(Database::open(state_directory + "/" + kLedgerFileName, OpenMode::ReadWrite));
    std::unique_ptr<UserStore> store(new UserStore(std::move(database)));
    CTN_TRY(store->load_directory());
    return store;
}

Result<Credential> UserStore::add(const std::string& user_id,
                                  const std::optional<Quota>& quota,
                                  int64_t now_us,
                                  base::Random& random,
                                  const std::optional<UserKey>& key) {
    if (!is_valid_name(user_id)) {
        return kBadName;
    }
    CTN_TRY(check_quota(quota));
    const std::lock_guard lock(database_mutex_);
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    Statement insert = CTN_TRY(database_.prepare(
        "INSERT INTO user(user_id,created,disabled) VALUES(?,?,0) ON CONFLICT DO NOTHING"));
    CTN_TRY(insert.bind(1, std::string_view(user_id)).bind(2, now_us).run());
    if (database_.changes() == 0) {
        return Error{Errc::InvalidState, "there is a user of this name already", 0};
    }
    CTN_TRY(write_quota(user_id, quota));
    Credential credential = CTN_TRY(insert_key(user_id, now_us, random, key));
    CTN_TRY(transaction.commit());
    CTN_TRY(load_directory());
    return credential;
}

Result<Credential> UserStore::insert_key(const std::string& user_id,
                                         int64_t now_us,
                                         base::Random& random,
                                         const std::optional<UserKey>& key) {
    // Numbers are never used again, so that an old file does not seem to have a valid key id.
    Statement last = CTN_TRY(database_.prepare(
        "SELECT max(CAST(substr(key_id,2) AS INTEGER)) FROM credential WHERE user_id=?"));
    last.bind(1, std::string_view(user_id));
    CTN_TRY(last.step());
    Credential credential;
    credential.user_id = user_id;
    credential.key_id = "k" + std::to_string(last.integer(0) + 1);
    if (key) {
        credential.key = *key;
    } else {
        random.fill(credential.key);
    }
    Statement insert = CTN_TRY(database_.prepare(
        "INSERT INTO credential(user_id,key_id,secret,created,disabled) VALUES(?,?,?,?,0)"));
    CTN_TRY(insert.bind(1, std::string_view(user_id))
                .bind(2, std::string_view(credential.key_id))
                .bind(3, base::ByteView(credential.key))
                .bind(4, now_us)
                .run());
    return credential;
}

Result<void> UserStore::write_quota(const std::string& user_id, const std::optional<Quota>& quota) {
    Statement upsert = CTN_TRY(database_.prepare(
        "INSERT INTO account(user_id,status,quota_bytes,quota_period) VALUES(?1,'active',?2,?3) "
        "ON CONFLICT DO UPDATE SET quota_bytes=?2,quota_period=?3"));
    upsert.bind(1, std::string_view(user_id));
    if (quota) {
        upsert.bind(2, quota->bytes).bind(3, std::string_view(quota->period));
    } else {
        upsert.bind_null(2).bind_null(3);
    }
    return upsert.run();
}

Result<std::vector<UserInfo>> UserStore::list() {
    const std::lock_guard lock(database_mutex_);
    Statement select = CTN_TRY(database_.prepare(
        "SELECT u.user_id,u.created,u.disabled,c.key_id,a.quota_bytes,a.quota_period FROM user u "
        "LEFT JOIN credential c ON c.user_id=u.user_id AND c.disabled=0 AND c.revoked IS NULL "
        "LEFT JOIN account a ON a.user_id=u.user_id ORDER BY u.user_id,c.created,c.key_id"));
    std::vector<UserInfo> users;
    while (CTN_TRY(select.step())) {
        const std::string user_id = select.text(0);
        if (users.empty() || users.back().user_id != user_id) {
            UserInfo& info = users.emplace_back();
            info.user_id = user_id;
            info.created_us = select.integer(1);
            info.is_disabled = select.integer(2) != 0;
            if (!select.is_null(4)) {
                info.quota = Quota{select.integer(4), select.text(5)};
            }
        }
        if (!select.is_null(3)) {
            users.back().key_ids.push_back(select.text(3));
        }
    }
    return users;
}

Result<void> UserStore::require_user(const std::string& user_id) {
    Statement select = CTN_TRY(database_.prepare("SELECT 1 FROM user WHERE user_id=?"));
    if (!CTN_TRY(select.bind(1, std::string_view(user_id)).step())) {
        return Error{Errc::NotFound, "no such user", 0};
    }
    return {};
}

Result<void> UserStore::set_disabled(const std::string& user_id, bool is_disabled) {
    const std::lock_guard lock(database_mutex_);
    Statement update = CTN_TRY(database_.prepare("UPDATE user SET disabled=?2 WHERE user_id=?1"));
    CTN_TRY(update.bind(1, std::string_view(user_id)).bind(2, int64_t{is_disabled}).run());
    if (database_.changes() == 0) {
        return Error{Errc::NotFound, "no such user", 0};
    }
    return load_directory();
}

Result<Credential>
UserStore::rotate(const std::string& user_id, int64_t now_us, base::Random& random) {
    const std::lock_guard lock(database_mutex_);
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    CTN_TRY(require_user(user_id));
    Statement revoke = CTN_TRY(
        database_.prepare("UPDATE credential SET revoked=?2 WHERE user_id=?1 AND revoked IS NULL"));
    CTN_TRY(revoke.bind(1, std::string_view(user_id)).bind(2, now_us).run());
    Credential credential = CTN_TRY(insert_key(user_id, now_us, random));
    CTN_TRY(transaction.commit());
    CTN_TRY(load_directory());
    return credential;
}

Result<void> UserStore::remove(const std::string& user_id) {
    const std::lock_guard lock(database_mutex_);
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    CTN_TRY(require_user(user_id));
    for (const char* sql :
         {"DELETE FROM credential WHERE user_id=?", "DELETE FROM account WHERE user_id=?",
          "DELETE FROM user WHERE user_id=?"}) {
        Statement erase = CTN_TRY(database_.prepare(sql));
        CTN_TRY(erase.bind(1, std::string_view(user_id)).run());
    }
    CTN_TRY(transaction.commit());
    return load_directory();
}

Result<void> UserStore::set_quota(const std::string& user_id, const std::optional<Quota>& quota) {
    CTN_TRY(check_quota(quota));
    const std::lock_guard lock(database_mutex_);
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    CTN_TRY(require_user(user_id));
    CTN_TRY(write_quota(user_id, quota));
    return transaction.commit();
}

Result<void> UserStore::load_directory() {
    auto fresh = std::make_shared<Directory>();
    Statement select = CTN_TRY(database_.prepare(
        "SELECT u.user_id,c.key_id,c.secret FROM user u JOIN credential c ON c.user_id=u.user_id "
        "WHERE u.disabled=0 AND c.disabled=0 AND c.revoked IS NULL"));
    while (CTN_TRY(select.step())) {
        const base::ByteView secret = select.blob(2);
        UserKey key{};
        if (secret.size() != key.size()) {
            return Error{Errc::Malformed, "ledger.db is damaged", 0};
        }
        std::copy(secret.begin(), secret.end(), key.begin());
        fresh->keys[directory_key(select.text(0), select.text(1))] = key;
        fresh->list.push_back(key);
        fresh->users[select.text(0)] = true;
    }
    const std::lock_guard lock(directory_mutex_);
    directory_ = std::move(fresh);
    return {};
}

std::shared_ptr<const UserStore::Directory> UserStore::directory() const {
    const std::lock_guard lock(directory_mutex_);
    return directory_;
}

std::optional<UserKey> UserStore::lookup(std::string_view user_id, std::string_view key_id) const {
    if (!is_valid_name(user_id) || !is_valid_name(key_id)) {
        return std::nullopt;
    }
    const auto current = directory();
    const auto found = current->keys.find(directory_key(user_id, key_id));
    return found == current->keys.end() ? std::nullopt : std::optional(found->second);
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

}  // namespace continuo::snapt
