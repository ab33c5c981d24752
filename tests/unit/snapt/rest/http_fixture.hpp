// A REST server on a Unix socket, and a client beside it on the same loop.
#pragma once

#include "common/host/unix_socket.hpp"
#include "snapt/rest/http_server.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace continuo::rest {

inline constexpr base::Duration kPatience = base::seconds(20);

class HttpTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-rest-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override {
        server_.reset();
        std::filesystem::remove_all(folder_);
    }

    void serve(HttpServer::Handler handler, const HttpLimits& limits = {}) {
        const std::vector<std::string> addresses = {folder_ + "/rest.sock"};
        server_ = HttpServer::listen(loop_, addresses, std::move(handler), limits).value();
    }

    struct Client {
        io::UniqueFd fd;
        std::string heard;
        bool is_over = false;

        bool say(std::string_view text) const {
            return ::send(fd.value(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                   static_cast<ssize_t>(text.size());
        }
        void listen() {
            std::array<char, 65536> block{};
            while (!is_over) {
                const ssize_t got = ::recv(fd.value(), block.data(), block.size(), MSG_DONTWAIT);
                if (got < 0 && errno != ECONNRESET) {
                    return;
                }
                is_over = got <= 0;
                heard.append(block.data(), got > 0 ? static_cast<size_t>(got) : 0);
            }
        }
    };
    Client connect() const {
        Client client;
        client.fd = host::unix_connect(folder_ + "/rest.sock").value();
        return client;
    }
    // Everything received until the server closes.
    std::string all_of(Client& client) {
        EXPECT_TRUE(loop_.run_until(
            [&client] {
                client.listen();
                return client.is_over;
            },
            kPatience));
        return client.heard;
    }
    std::string ask(std::string_view text) {
        Client client = connect();
        EXPECT_TRUE(client.say(text));
        return all_of(client);
    }
    std::string get(const std::string& target, const std::string& headers = "") {
        return ask("GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers +
                   "\r\n");
    }

    io::EventLoop loop_;
    std::string folder_;
    std::unique_ptr<HttpServer> server_;
};

inline std::string body_of(const std::string& answer) {
    const size_t end = answer.find("\r\n\r\n");
    return end == std::string::npos ? "" : answer.substr(end + 4);
}

inline bool has_status(const std::string& answer, int status) {
    return answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ");
}

}  // namespace continuo::rest
