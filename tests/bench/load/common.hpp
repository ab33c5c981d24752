// Common parts of the load generators: clocks, argument parsing, sockets. Every function ends the
// process with a message when it cannot go on: a generator has nobody to return an error to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>

namespace continuo::bench {

inline constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;
inline constexpr size_t kRandomBytes = size_t{4} << 20;  // far more than any history window

[[noreturn]] void fail(std::string_view what);        // with errno's text
[[noreturn]] void fail_usage(std::string_view what);  // exit code 64

uint64_t monotonic_ns();
uint64_t realtime_ns();  // for logs that other programs compare with their own clock
void sleep_until(uint64_t monotonic);

double to_number(std::string_view text);
uint16_t to_port(std::string_view text);
sockaddr_in to_address(std::string_view host, uint16_t port);

int open_socket(int type, int protocol);
void set_option(int handle, int level, int name, int value);
void set_timeout(int handle, uint64_t seconds);  // both directions
void bind_any(int handle, uint16_t port);

// The whole file, which must not be empty.
std::vector<uint8_t> read_file(const std::string& path);

// kRandomBytes bytes that do not compress.
const std::vector<uint8_t>& random_bytes();

// True after SIGTERM or SIGINT, once stop_on_signal() was called.
void stop_on_signal();
bool is_stopped();

// The words after a program's subcommand: positional ones, and `--name VALUE` pairs.
class Arguments {
  public:
    Arguments(int count, char** words, size_t positional);
    [[nodiscard]] std::string_view at(size_t index) const { return positional_[index]; }
    [[nodiscard]] std::vector<std::string> all(std::string_view name) const;
    [[nodiscard]] std::string_view get(std::string_view name, std::string_view otherwise) const;

  private:
    std::vector<std::string_view> positional_;
    std::vector<std::pair<std::string_view, std::string_view>> options_;
};

int serve_tcp(const Arguments& arguments);
int run_tcp(const Arguments& arguments);
int run_ask(const Arguments& arguments);
int run_blast(const Arguments& arguments);
int run_count(const Arguments& arguments);
int run_ping(const Arguments& arguments);

}  // namespace continuo::bench
