#include "snapt/commands/ledger_access.hpp"

#include "common/daemon/startup.hpp"
#include "snapt/ledger/ledger.hpp"

#include <cstdlib>

#include <pwd.h>
#include <unistd.h>

namespace continuo::snapt::commands {

report::CommandOutput told(const std::string& text, int exit_code) {
    return {"", "snapt: " + text + "\n", exit_code};
}

std::optional<store::Database> open_ledger(const report::ParsedCommand& command,
                                           store::OpenMode mode,
                                           report::CommandOutput& failure) {
    const std::string path =
        command.value_or("--state", kDefaultState) + "/" + store::kLedgerFileName;
    if (access(path.c_str(), F_OK) != 0) {
        failure = told("there is no " + path + "; run `snapt init` first, or name --state");
        return std::nullopt;
    }
    auto database = store::Database::open(path, mode);
    if (!database) {
        failure = told("cannot open " + path + ": " + daemon::describe(database.error()));
        return std::nullopt;
    }
    return std::move(*database);
}

std::string actor() {
    const char* by_sudo = std::getenv("SUDO_USER");
    if (by_sudo != nullptr && *by_sudo != '\0') {
        return by_sudo;
    }
    const passwd* user = getpwuid(getuid());
    return user != nullptr ? user->pw_name : "uid " + std::to_string(getuid());
}

}  // namespace continuo::snapt::commands
