// UserStore: the keys of a user: creation, rotation, end, and when they were last in use.
#include "snapt/store/user_store.hpp"

#include <algorithm>
#include <utility>

namespace continuo::snapt::store {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr Error kNoSuchKey{Errc::NotFound, "no such key", 0};

}  // namespace

// Numbers are never reused, not even for another account of the name: an old file must not seem to
// have a valid key id, nor a proof of an old key match a new account.
Result<std::string> UserStore::next_key_id(const std::string& user_id) {
    Statement last = CTN_TRY(database_.prepare(
        "SELECT max(CAST(substr(c.key_id,2) AS INTEGER)) FROM account a JOIN credential c ON "
        "c.account_id=a.account_id WHERE a.user_id=? AND c.key_id GLOB 'k[0-9]*' AND NOT "
        "substr(c.key_id,2) GLOB '*[^0-9]*' AND length(c.key_id)<=10"));
    last.bind(1, std::string_view(user_id));
    CTN_TRY(last.step());
    // Another SNAPT's key may have a larger number.
    for (int64_t number = last.integer(0) + 1;; ++number) {
        std::string key_id = "k" + std::to_string(number);
        Statement taken = CTN_TRY(
            database_.prepare("SELECT 1 FROM account a JOIN credential c ON "
                              "c.account_id=a.account_id WHERE a.user_id=? AND c.key_id=?"));
        taken.bind(1, std::string_view(user_id)).bind(2, std::string_view(key_id));
        if (!CTN_TRY(taken.step())) {
            return key_id;
        }
    }
}

Result<Credential> UserStore::insert_key(const Account& account,
                                         int64_t now_us,
                                         base::Random& random,
                                         const NewKey& wanted) {
    Credential credential;
    credential.user_id = account.user;
    credential.account_id = account.id;
    credential.key_id = wanted.key_id.empty() ? CTN_TRY(next_key_id(account.user)) : wanted.key_id;
    credential.device = wanted.device;
    if (wanted.key) {
        credential.key = *wanted.key;
    } else {
        random.fill(credential.key);
    }
    Statement insert = CTN_TRY(database_.prepare(
        "INSERT INTO credential(account_id,key_id,secret,created,disabled,device) "
        "VALUES(?,?,?,?,0,?)"));
    CTN_TRY(insert.bind(1, account.id)
                .bind(2, std::string_view(credential.key_id))
                .bind(3, base::ByteView(credential.key))
                .bind(4, now_us)
                .bind(5, std::string_view(credential.device))
                .run());
    return credential;
}

// Checks that names are valid, the id is new, and a named device has no key yet.
Result<void> UserStore::require_free(const Account& account, const NewKey& wanted, int64_t now_us) {
    if ((!wanted.device.empty() && !is_valid_name(wanted.device)) ||
        (!wanted.key_id.empty() && !is_valid_key_id(wanted.key_id))) {
        return Error{Errc::InvalidConfig,
                     "device and key id: letters, digits and . _ @ - (not . or - first), at most "
                     "64 and 32",
                     0};
    }
    Statement select = CTN_TRY(database_.prepare(
        "SELECT key_id,device,revoked IS NULL AND coalesce(expires>?2,1) FROM credential "
        "WHERE account_id=?1"));
    select.bind(1, account.id).bind(2, now_us);
    int64_t valid = 0;
    while (CTN_TRY(select.step())) {
        const bool is_valid = select.integer(2) != 0;
        valid += is_valid ? 1 : 0;
        if (select.text(0) == wanted.key_id) {
            return Error{Errc::InvalidState, "the user has, or had, a key of this id", 0};
        }
        if (is_valid && !wanted.device.empty() && select.text(1) == wanted.device) {
            return Error{Errc::InvalidState,
                         "this device has a key already; `snapt user rotate` gives it another", 0};
        }
    }
    if (valid >= kMaxUserKeys) {
        return Error{Errc::LimitReached, "a user has at most 64 keys", 0};
    }
    return {};
}

Result<void> UserStore::add_keys(UserInfo& user, int64_t now_us) {
    Statement select = CTN_TRY(
        database_.prepare("SELECT key_id,device,created,disabled,seen,expires FROM credential "
                          "WHERE account_id=?1 AND "
                          "revoked IS NULL AND coalesce(expires>?2,1) ORDER BY created,key_id"));
    select.bind(1, user.account_id).bind(2, now_us);
    const auto time_in = [&select](int column) {
        return select.is_null(column) ? std::nullopt : std::optional(select.integer(column));
    };
    while (CTN_TRY(select.step())) {
        KeyInfo& key = user.keys.emplace_back();
        key.key_id = select.text(0);
        key.device = select.text(1);
        key.created_us = select.integer(2);
        key.is_disabled = select.integer(3) != 0;
        key.seen_us = time_in(4);
        key.expires_us = time_in(5);
        const std::lock_guard lock(seen_mutex_);  // held briefly: the data loop notes keys in use
        if (const auto seen = seen_.find({user.user_id, key.key_id}); seen != seen_.end()) {
            key.seen_us = std::max(key.seen_us.value_or(0), seen->second);
        }
    }
    return {};
}

// The device whose key is rotated, among the valid keys.
Result<std::string>
UserStore::device_to_rotate(const Account& account, const std::string& wanted, int64_t now_us) {
    UserInfo user;
    user.user_id = account.user;
    user.account_id = account.id;
    CTN_TRY(add_keys(user, now_us));
    const auto is_wanted = [&wanted](const KeyInfo& key) { return key.device == wanted; };
    if (!wanted.empty()) {
        if (std::none_of(user.keys.begin(), user.keys.end(), is_wanted)) {
            return kNoSuchKey;
        }
        return wanted;
    }
    const std::string first = user.keys.empty() ? "" : user.keys.front().device;
    if (std::any_of(user.keys.begin(), user.keys.end(),
                    [&first](const KeyInfo& key) { return key.device != first; })) {
        return Error{Errc::InvalidState, "the user has several devices; name one by --device", 0};
    }
    return first;
}

Result<Credential> UserStore::rotate(const std::string& user_id,
                                     int64_t now_us,
                                     base::Random& random,
                                     const NewKey& wanted,
                                     int64_t overlap_us) {
    const std::lock_guard lock(database_mutex_);
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    const Account account = CTN_TRY(account_of_user(user_id));
    NewKey fresh = wanted;
    fresh.device = CTN_TRY(device_to_rotate(account, wanted.device, now_us));
    Statement end = CTN_TRY(database_.prepare(
        overlap_us == 0 ? "UPDATE credential SET revoked=?3 WHERE account_id=?1 AND device=?2 AND "
                          "revoked IS NULL"
                        : "UPDATE credential SET expires=min(coalesce(expires,?3),?3) WHERE "
                          "account_id=?1 AND device=?2 AND revoked IS NULL"));
    CTN_TRY(end.bind(1, account.id)
                .bind(2, std::string_view(fresh.device))
                .bind(3, now_us + overlap_us)
                .run());
    CTN_TRY(require_free(account, NewKey{"", fresh.key_id, std::nullopt}, now_us));
    Credential credential = CTN_TRY(insert_key(account, now_us, random, fresh));
    CTN_TRY(transaction.commit());
    if (const auto loaded = load_directory_after(user_id); !loaded) {
        credential.unread = loaded.error();
    }
    return credential;
}

Result<void> UserStore::revoke(const std::string& user_id, const KeyChoice& keys, int64_t now_us) {
    if (keys.is_all()) {
        return Error{Errc::InvalidConfig, "which key? name --device or --key-id", 0};
    }
    const std::lock_guard lock(database_mutex_);
    const Account account = CTN_TRY(account_of_user(user_id));
    Statement update = CTN_TRY(database_.prepare(
        "UPDATE credential SET revoked=?2 WHERE account_id=?1 AND revoked IS NULL "
        "AND ?3 IN ('',device) AND ?4 IN ('',key_id)"));
    CTN_TRY(update.bind(1, account.id)
                .bind(2, now_us)
                .bind(3, std::string_view(keys.device))
                .bind(4, std::string_view(keys.key_id))
                .run());
    if (database_.changes() == 0) {
        return kNoSuchKey;
    }
    return load_directory_after(user_id);
}

void UserStore::note_seen(const std::string& user_id, const std::string& key_id, int64_t at_us) {
    if (!lookup(user_id, key_id)) {
        return;  // revoked meanwhile
    }
    const std::lock_guard lock(seen_mutex_);
    int64_t& seen_us = seen_[{user_id, key_id}];
    seen_us = std::max(seen_us, at_us);
}

Result<void> UserStore::write_seen() {
    const std::lock_guard lock(database_mutex_);
    std::map<SeenKey, int64_t> seen;
    {
        const std::lock_guard seen_lock(seen_mutex_);
        seen = std::exchange(seen_, {});
    }
    if (seen.empty()) {
        return {};
    }
    const Result<void> written = write_seen(seen);
    if (!written) {
        const std::lock_guard seen_lock(seen_mutex_);
        for (const auto& [key, at_us] : seen) {
            int64_t& seen_us = seen_[key];
            seen_us = std::max(seen_us, at_us);
        }
    }
    return written;
}

// An ending session may have been silent for longer than others with its key.
Result<void> UserStore::write_seen(const std::map<SeenKey, int64_t>& seen) {
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    Statement update = CTN_TRY(database_.prepare(
        "UPDATE credential SET seen=max(coalesce(seen,?3),?3) WHERE key_id=?2 AND "
        "account_id=(SELECT account_id FROM user WHERE user_id=?1)"));
    for (const auto& [key, at_us] : seen) {
        CTN_TRY(update.bind(1, std::string_view(key.first))
                    .bind(2, std::string_view(key.second))
                    .bind(3, at_us)
                    .run());
    }
    return transaction.commit();
}

}  // namespace continuo::snapt::store
