// The commands of snapt that work without a daemon: init and user.
#include "common/base/secret.hpp"
#include "common/config/keys.hpp"
#include "common/config/units.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/privileges.hpp"
#include "common/host/system_random.hpp"
#include "common/io/file.hpp"
#include "common/io/unique_fd.hpp"
#include "common/report/check_report.hpp"
#include "common/report/status_report.hpp"
#include "snapt/cli.hpp"
#include "snapt/settings/key_file.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace continuo::snapt {

using commands::kDefaultConfig;
using commands::kDefaultState;
using report::CommandOutput;
using report::JsonValue;
using report::ParsedCommand;
using users::UserAction;
using users::UserRequest;

namespace {

constexpr unsigned kStateMode = 0750;
constexpr const char* kNameForm = "1 to 64 letters, digits and . _ @ -, not . or - first";
constexpr const char* kDatabaseName = "ledger.db";  // kLedgerFileName

CommandOutput failure(const std::string& text, int exit_code = report::kExitError) {
    return {"", "snapt: " + text + "\n", exit_code};
}

std::string describe(const base::Error& error) {
    if (error.sys_errno != 0) {
        return std::generic_category().message(error.sys_errno);
    }
    return std::string(error.where.empty() ? base::to_string(error.code) : error.where);
}

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

// Creates the file; an existing one stays as it is (EEXIST). Returns 0 or the errno.
int write_new_file(const std::string& path, std::string_view text) {
    const io::UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.value() < 0) {
        return errno;
    }
    while (!text.empty()) {
        const ssize_t written = write(file.value(), text.data(), text.size());
        if (written < 0 && errno != EINTR) {
            const int reason = errno;
            (void)unlink(path.c_str());
            return reason;
        }
        text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
    }
    return fsync(file.value()) == 0 ? 0 : errno;
}

// `add` and `rotate` print the bare configuration, or block, so that it can be redirected to a
// file.
std::string user_answer_text(const JsonValue& answer,
                             const UserRequest& request,
                             bool wants_block,
                             bool is_terminal,
                             size_t columns) {
    const std::string what = request.name +
                             (request.device.empty() ? "" : ", device " + request.device) +
                             (request.key_id.empty() ? "" : ", key " + request.key_id);
    switch (request.action) {
    case UserAction::Add:
    case UserAction::Rotate:
        return answer.text(wants_block ? "block" : "config");
    case UserAction::List:
        return users_text(answer, is_terminal, columns);
    case UserAction::Disable:
        return what + " disabled\n";
    case UserAction::Enable:
        return what + " enabled\n";
    case UserAction::Revoke:
        return what + " revoked\n";
    case UserAction::Remove:
        return what + " removed; the usage records stay\n";
    }
    return {};
}

CommandOutput with_warning(CommandOutput output, const JsonValue& answer) {
    const std::string warning = answer.text("warning");
    if (!warning.empty()) {
        output.err += "snapt: " + warning + "\n";
        output.exit_code = report::kExitError;
    }
    return output;
}

// The error to print; nothing when all is well.
std::optional<CommandOutput> take_key_options(const ParsedCommand& command, UserRequest& request) {
    const std::string form = kNameForm;
    request.device = command.value_or("--device", "");
    if (command.has("--device") && !store::is_valid_name(request.device)) {
        return failure("--device \"" + request.device + "\"; expected " + form, report::kExitUsage);
    }
    request.key_id = command.value_or("--key-id", "");
    if (command.has("--key-id") && !store::is_valid_key_id(request.key_id)) {
        return failure("--key-id \"" + request.key_id + "\"; expected a name such as k1",
                       report::kExitUsage);
    }
    if (request.action == UserAction::Revoke && request.device.empty() && request.key_id.empty()) {
        return failure("which key? name --device or --key-id; `snapt user list` shows them, and "
                       "`snapt user remove` removes the user",
                       report::kExitUsage);
    }
    if (const auto overlap = command.value("--overlap")) {
        const auto parsed = config::parse_duration(*overlap);
        if (!parsed || *parsed > users::kMaxOverlap ||
            *parsed % base::seconds(1) != base::Duration{}) {
            return failure("--overlap \"" + *overlap +
                               "\"; expected a time such as 24h or 7d, 366d at most",
                           report::kExitUsage);
        }
        request.overlap = *parsed;
    }
    return std::nullopt;
}

// The error to print; nothing when all is well.
std::optional<CommandOutput> take_key_file(const ParsedCommand& command, UserRequest& request) {
    const bool makes_key =
        request.action == UserAction::Add || request.action == UserAction::Rotate;
    const auto path = command.value("--key-file");
    if (!path) {
        return makes_key && !request.key_id.empty()
                   ? std::optional(failure("--key-id without --key-file: it names the key of "
                                           "another SNAPT; a new key gets the next number",
                                           report::kExitUsage))
                   : std::nullopt;
    }
    auto text = *path == "-" ? io::read_all(STDIN_FILENO, daemon::kMaxFileBytes)
                             : io::read_file(*path, daemon::kMaxFileBytes);
    if (!text) {
        return failure("cannot read --key-file " + *path + ": " + describe(text.error()));
    }
    const base::WipedAtEnd wiped(*text);
    std::string reason;
    const auto file = settings::parse_key_file(*text, reason);
    if (!file) {
        return failure("--key-file " + *path + ": " + reason, report::kExitUsage);
    }
    if (!file->user.empty() && file->user != request.name) {
        return failure("--key-file " + *path + " is of another user, \"" + file->user + "\"",
                       report::kExitUsage);
    }
    if (!file->key_id.empty() && !request.key_id.empty() && file->key_id != request.key_id) {
        return failure("--key-file " + *path + " has key id \"" + file->key_id +
                           "\", and --key-id says \"" + request.key_id + "\"",
                       report::kExitUsage);
    }
    if (!file->key_id.empty() && !store::is_valid_key_id(file->key_id)) {
        return failure("--key-file " + *path + " has a bad key id", report::kExitUsage);
    }
    request.key = file->key;
    request.key_id = file->key_id.empty() ? request.key_id : file->key_id;
    request.realm = file->realm;
    return std::nullopt;
}

// Without a daemon: on the database itself.
CommandOutput user_command_offline(const ParsedCommand& command,
                                   const UserRequest& request,
                                   bool is_terminal,
                                   size_t columns) {
    const std::string state = command.value_or("--state", kDefaultState);
    const std::string database = state + "/" + kDatabaseName;
    if (access(database.c_str(), F_OK) != 0) {
        return failure("no daemon answers, and there is no " + database +
                       "; run `snapt init` first, or name --socket or --state");
    }
    settings::SnaptConfig config;
    if (request.action == UserAction::Add || request.action == UserAction::Rotate) {
        const std::string path = command.value_or("--config", kDefaultConfig);
        const auto text = io::read_file(path, daemon::kMaxFileBytes);
        if (!text) {
            return failure("cannot read " + path + ": " + describe(text.error()));
        }
        settings::ParsedSnaptConfig parsed = settings::parse_snapt_config(*text, path);
        if (!parsed.config) {
            return {"", report::diagnostics_text(parsed.diagnostics), report::kExitConfig};
        }
        config = std::move(*parsed.config);
    }
    const auto users = store::UserStore::open(state);
    if (!users) {
        return failure("cannot open " + database + ": " + describe(users.error()));
    }
    host::SystemRandom random;
    const users::UserResult result =
        users::run_user_request(**users, config, request, daemon::utc_us(), random);
    host::match_owner(state);
    if (!result.error.empty()) {
        return failure(result.error);
    }
    if (command.has("--json")) {
        return {result.json + "\n", "", report::kExitGood};
    }
    const auto answer = JsonValue::parse(result.json);
    if (!answer) {
        return {"", "", report::kExitGood};
    }
    return with_warning(
        {user_answer_text(*answer, request, command.has("--block"), is_terminal, columns), "",
         report::kExitGood},
        *answer);
}

}  // namespace

CommandOutput init_command(const ParsedCommand& command) {
    const std::string path = command.value_or("--config", kDefaultConfig);
    const std::string state = command.value_or("--state", kDefaultState);
    const std::string name = command.value_or("--name", daemon::host_name(""));
    if (const auto expected = config::check_name(name)) {
        return failure("--name \"" + name + "\"; expected " + std::string(*expected),
                       report::kExitUsage);
    }
    std::vector<config::HostPort> addresses;
    for (const std::string& text : report::list_values(command, "--public")) {
        const auto address = config::HostPort::parse(text);
        if (!address) {
            return failure("--public \"" + text + "\"; expected " +
                               std::string(config::kHostPortForm),
                           report::kExitUsage);
        }
        addresses.push_back(*address);
    }
    if (addresses.empty()) {
        return failure("--public is missing: the addresses at which nodes reach this SNAPT, such "
                       "as 203.0.113.9:9347",
                       report::kExitUsage);
    }
    if (access(path.c_str(), F_OK) == 0) {
        return failure(path + " is there already; remove it first, or name another --config");
    }
    for (const std::string& folder : {folder_of(path), state}) {
        if (const auto made = io::make_directories(folder, kStateMode); !made) {
            return failure("cannot make " + folder + ": " + describe(made.error()));
        }
    }
    if (const auto users = store::UserStore::open(state); !users) {
        return failure("cannot make the database in " + state + ": " + describe(users.error()));
    }
    host::match_owner(state);
    config::Key identity_key{};
    host::SystemRandom().fill(identity_key);
    if (const int reason =
            write_new_file(path, settings::render_snapt_config(name, addresses, identity_key));
        reason != 0) {
        return failure("cannot write " + path + ": " + std::generic_category().message(reason));
    }
    host::share_with_service(path, host::kRelayUser);
    const std::string config_option = path == kDefaultConfig ? "" : " --config " + path;
    const std::string state_option = state == kDefaultState ? "" : " --state " + state;
    CommandOutput output;
    output.out = "wrote " + path + "; database in " + state + "\nnext: snapt run" + config_option +
                 state_option + "\n      snapt user add NAME > cnapt.toml\n";
    return output;
}

CommandOutput user_command(const report::DaemonAccess& access,
                           const ParsedCommand& command,
                           bool is_terminal,
                           size_t columns) {
    UserRequest request;
    const auto action = users::parse_user_action(std::string_view(command.name).substr(5));
    if (!action) {
        return failure("unknown command \"" + command.name + "\"", report::kExitUsage);
    }
    request.action = *action;
    request.name = command.arguments.empty() ? "" : command.arguments.front();
    const auto quota = command.value("--quota");
    if (quota) {
        request.quota = users::parse_user_quota(*quota);
        if (!request.quota) {
            return failure("--quota \"" + *quota +
                               "\"; expected a size per day or month, such as 50GiB/month",
                           report::kExitUsage);
        }
    }
    if (request.action != UserAction::List && !store::is_valid_name(request.name)) {
        return failure("user name \"" + request.name + "\"; expected " + kNameForm,
                       report::kExitUsage);
    }
    if (auto wrong = take_key_options(command, request)) {
        return std::move(*wrong);
    }
    if (auto wrong = take_key_file(command, request)) {
        return std::move(*wrong);
    }
    // One request; the database is used only if no daemon can have acted on it.
    bool is_absent = false;
    report::DaemonAccess watched = access;
    watched.request = [&](std::string_view line, base::Duration timeout) {
        auto reply = access.request(line, timeout);
        is_absent = !reply && report::is_no_daemon(reply.error());
        return reply;
    };
    JsonValue told;
    const CommandOutput output = report::ask_daemon(
        watched, users::user_request_json(request, quota), report::kUsageTimeout,
        command.has("--json"), [&](const JsonValue& answer) {
            told = answer;
            return user_answer_text(answer, request, command.has("--block"), is_terminal, columns);
        });
    return is_absent ? user_command_offline(command, request, is_terminal, columns)
                     : with_warning(output, told);
}

}  // namespace continuo::snapt
