// bench_load: the load generators of tests/bench/run, where an interpreter would be the bottleneck.
// Every subcommand prints one JSON line, or "ready" on standard error when it can be spoken to;
// none waits for ever.
// - serve PORT [--file TEXT]: TCP; takes, gives or echoes, as the client asks
// - tcp ADDRESS PORT up|down STREAMS SECONDS [--log FILE] [--file TEXT] [--skip BYTES]
// - ask ADDRESS PORT BYTES SECONDS: request and response of BYTES each
// - blast ADDRESS PORT BYTES RATE SECONDS [--flows N] [--file TEXT]... [--hello PORT]
// - count PORT [--idle-ms N] [--wait-ms N] [--log FILE] [--hello ADDRESS:PORT]
// - ping ADDRESS RATE|flood SECONDS LOG: flood sends as ping -f does
#include "common.hpp"

#include <csignal>

namespace {

using continuo::bench::Arguments;

struct Command {
    std::string_view name;
    size_t positional;
    int (*run)(const Arguments&);
};

constexpr Command kCommands[] = {
    {"serve", 1, continuo::bench::serve_tcp}, {"tcp", 5, continuo::bench::run_tcp},
    {"ask", 4, continuo::bench::run_ask},     {"blast", 5, continuo::bench::run_blast},
    {"count", 1, continuo::bench::run_count}, {"ping", 4, continuo::bench::run_ping},
};

}  // namespace

int main(int count, char** words) {
    std::signal(SIGPIPE, SIG_IGN);
    for (const Command& command : kCommands) {
        if (count > 1 && command.name == words[1]) {
            return command.run(Arguments(count - 2, words + 2, command.positional));
        }
    }
    continuo::bench::fail_usage("usage: bench_load serve|tcp|ask|blast|count|ping ARGUMENTS");
}
