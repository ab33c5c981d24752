#include "snapt/commands/token_commands.hpp"

#include "common/daemon/command_program.hpp"
#include "common/host/privileges.hpp"
#include "common/host/system_random.hpp"
#include "common/io/file.hpp"
#include "common/report/json.hpp"
#include "snapt/commands/ledger_access.hpp"
#include "snapt/rest/tokens.hpp"
#include "snapt/settings/snapt_config.hpp"
#include "snapt/store/money.hpp"
#include "snapt/store/user_store.hpp"

namespace continuo::snapt::commands {

using report::CommandOutput;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;
using rest::Scope;
using rest::Token;

namespace {

std::string tokens_path(const ParsedCommand& command) {
    return command.value_or("--state", kDefaultState) + "/" + rest::kTokenFileName;
}

// The page's address: from --url, otherwise the first loopback address in the configuration.
std::optional<std::string> page_url(const ParsedCommand& command) {
    if (auto url = command.value("--url")) {
        while (url->ends_with('/')) {
            url->pop_back();
        }
        return *url + "/";
    }
    const std::string path = command.value_or("--config", kDefaultConfig);
    const auto text = io::read_file(path, daemon::kMaxFileBytes);
    const auto parsed = text ? settings::parse_snapt_config(*text, path)
                             : settings::ParsedSnaptConfig{std::nullopt, {}};
    if (parsed.config) {
        for (const std::string& address : parsed.config->rest.listen) {
            if (!address.starts_with('/')) {
                return "http://" + address + "/";
            }
        }
    }
    return std::nullopt;
}

// The token that the command defines; nothing, with the answer in `failure`, when it is wrong.
std::optional<Token> token_from(const ParsedCommand& command, CommandOutput& failure) {
    Token token;
    token.name = command.arguments.front();
    token.created_us = daemon::utc_us();
    if (!store::is_valid_name(token.name)) {
        failure = told("token name \"" + token.name +
                           "\"; expected 1 to 64 letters, digits and . _ @ -, not . or - first",
                       report::kExitUsage);
        return std::nullopt;
    }
    const auto user = command.value("--self");
    const auto scope = command.value("--scope");
    if (user.has_value() == scope.has_value()) {
        failure = told("name one of --scope and --self", report::kExitUsage);
        return std::nullopt;
    }
    if (scope) {
        const auto parsed = rest::parse_scope(*scope);
        if (!parsed || *parsed == Scope::Self) {
            failure = told("--scope \"" + *scope + "\"; expected read, bill or admin",
                           report::kExitUsage);
            return std::nullopt;
        }
        token.scope = *parsed;
        return token;
    }
    auto database = open_ledger(command, store::OpenMode::ReadOnly, failure);
    if (!database) {
        return std::nullopt;
    }
    const auto all = store::balances(*database, user);
    if (!all) {
        failure = told("cannot read the accounts: " + daemon::describe(all.error()));
        return std::nullopt;
    }
    for (const store::Balance& balance : *all) {
        if (!balance.removed_us) {
            token.scope = Scope::Self;
            token.user = balance.account.user;
            token.account_id = balance.account.id;
            return token;
        }
    }
    failure = told(*user + ": no such user");
    return std::nullopt;
}

CommandOutput add_token(const ParsedCommand& command) {
    CommandOutput failure;
    const auto token = token_from(command, failure);
    if (!token) {
        return failure;
    }
    host::SystemRandom random;
    const auto secret = rest::add_token(tokens_path(command), *token, random);
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!secret) {
        return told("no token is made: " + daemon::describe(secret.error()));
    }
    const auto page = page_url(command);
    const auto link = page ? std::optional(*page + "#token=" + *secret) : std::nullopt;
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object().field("name", token->name);
        json.field("scope", rest::to_string(token->scope));
        json.field("user",
                   token->user.empty() ? std::optional<std::string>() : std::optional(token->user));
        json.field("token", *secret).field("link", link).end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    return {"token: " + *secret + "\n" +
                (link ? "page:  " + *link + "\n"
                      : "page:  none yet: set rest.listen in the configuration, or give --url\n") +
                "It is shown only now. Anybody who has it can use it.\n",
            "", report::kExitGood};
}

CommandOutput list_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    const auto tokens = rest::read_tokens(tokens_path(command));
    if (!tokens) {
        return told("cannot read " + tokens_path(command) + ": " +
                    daemon::describe(tokens.error()));
    }
    JsonWriter json;
    json.begin_array();
    Table table({{"TOKEN"}, {"SCOPE"}, {"USER"}, {"CREATED"}});
    for (const Token& token : *tokens) {
        const int64_t created_s = token.created_us / store::kUsPerSecond;
        json.begin_object().field("name", token.name);
        json.field("scope", rest::to_string(token.scope));
        json.field("user",
                   token.user.empty() ? std::optional<std::string>() : std::optional(token.user));
        json.field("created", created_s).end_object();
        table.add_row({token.name, std::string(rest::to_string(token.scope)), token.user,
                       report::format_utc(created_s)});
    }
    json.end_array();
    const std::string text = command.has("--json") ? json.take() + "\n"
                             : table.rows() == 0   ? "no tokens\n"
                                                   : table.render(is_terminal, columns);
    return {text, "", report::kExitGood};
}

CommandOutput remove_command(const ParsedCommand& command) {
    const std::string& name = command.arguments.front();
    const auto removed = rest::remove_token(tokens_path(command), name);
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!removed) {
        return told("token " + name + ": " + daemon::describe(removed.error()));
    }
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object().field("name", name).field("done", true).end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    return {"token " + name + " removed\n", "", report::kExitGood};
}

}  // namespace

std::vector<report::CommandSpec> token_commands(const report::OptionSpec& config,
                                                const report::OptionSpec& state) {
    return {
        {"token add",
         "NAME",
         1,
         1,
         {{"--scope", "SCOPE", OptionValue::Required, false, {}, "read, bill or admin"},
          {"--self", "USER", OptionValue::Required, false, {}, "for this user's own figures only"},
          {"--url",
           "URL",
           OptionValue::Required,
           false,
           {},
           "address of the web page, for the printed link"},
          config,
          state},
         "make and print a token for REST and web page"},
        daemon::shown_as_table({"token list", "", 0, 0, {state}, "tokens and their scopes"}),
        {"token remove", "NAME", 1, 1, {state}, "remove a token; it ends at once"}};
}

bool is_token_command(std::string_view name) {
    return name.starts_with("token ");
}

CommandOutput token_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    if (command.name == "token list") {
        return list_command(command, is_terminal, columns);
    }
    return command.name == "token add" ? add_token(command) : remove_command(command);
}

}  // namespace continuo::snapt::commands
