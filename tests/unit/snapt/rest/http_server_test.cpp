#include "common/base/random.hpp"
#include "tests/unit/snapt/rest/http_fixture.hpp"

#include <algorithm>

#include <unistd.h>

namespace continuo::rest {
namespace {

HttpAnswer text_answer(std::string text) {
    HttpAnswer answer;
    answer.content_type = "text/plain";
    answer.body = std::move(text);
    return answer;
}

const auto kEcho = [](const HttpRequest& request, const HttpReply& reply) {
    reply.send(text_answer(request.method + " " + request.target + " " + request.authorization +
                           " " + request.idempotency_key + " " + request.body));
};

class RestHttp : public HttpTest {};

TEST_F(RestHttp, RequestIsHandedOverAsItIs) {
    serve(kEcho);
    const std::string answer =
        ask("POST /v1/a%20b?c=d%26 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n"
            "Idempotency-Key: k\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody");
    EXPECT_TRUE(has_status(answer, 200)) << answer;
    EXPECT_EQ(body_of(answer), "POST /v1/a%20b?c=d%26 Bearer t k body");
    EXPECT_EQ(server_->counters().requests, 1U);
}

TEST_F(RestHttp, BodyMayBeLongerThanWhatIsReadAtOnce) {
    serve(kEcho);
    const std::string body(60'000, 'b');
    const std::string answer = ask(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 60000\r\n\r\n" + body);
    EXPECT_TRUE(body_of(answer).ends_with(body));
}

TEST_F(RestHttp, AnswerMayComeLater) {
    std::optional<HttpReply> waiting;
    serve([&waiting](const HttpRequest& /*request*/, const HttpReply& reply) { waiting = reply; });
    Client client = connect();
    ASSERT_TRUE(client.say("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    ASSERT_TRUE(loop_.run_until([&waiting] { return waiting.has_value(); }, kPatience));
    Client other = connect();  // nobody waits for it
    ASSERT_TRUE(loop_.post([&waiting] { waiting->send(text_answer("later")); }));
    EXPECT_EQ(body_of(all_of(client)), "later");
}

TEST_F(RestHttp, ConnectionTakesSeveralRequests) {
    serve(kEcho);
    Client client = connect();
    ASSERT_TRUE(client.say("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_TRUE(loop_.run_until(
        [&client] {
            client.listen();
            return client.heard.find("GET /1") != std::string::npos;
        },
        kPatience));
    ASSERT_TRUE(client.say("GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    EXPECT_NE(all_of(client).find("GET /2"), std::string::npos);
    EXPECT_EQ(server_->counters().connections, 1U);
}

TEST_F(RestHttp, ReplyOutlivesItsConnection) {
    std::optional<HttpReply> waiting;
    HttpLimits limits;
    limits.answer_time = base::milliseconds(50);
    serve([&waiting](const HttpRequest& /*request*/, const HttpReply& reply) { waiting = reply; },
          limits);
    Client client = connect();
    ASSERT_TRUE(client.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_EQ(all_of(client), "");  // closed at the end of its time
    EXPECT_EQ(server_->counters().timeouts, 1U);
    waiting->send(text_answer("too late"));
}

TEST_F(RestHttp, ServerEndsWhileSomebodyWaits) {
    std::optional<HttpReply> waiting;
    serve([&waiting](const HttpRequest& /*request*/, const HttpReply& reply) { waiting = reply; });
    Client client = connect();
    ASSERT_TRUE(client.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_TRUE(loop_.run_until([&waiting] { return waiting.has_value(); }, kPatience));
    server_.reset();
    waiting->send(text_answer("nobody"));
    client.listen();
    EXPECT_TRUE(client.is_over);
    EXPECT_NE(::access((folder_ + "/rest.sock").c_str(), F_OK), 0);
}

TEST_F(RestHttp, SlowRequestsAreClosedInTime) {
    HttpLimits limits;
    limits.request_time = base::milliseconds(200);
    serve(kEcho, limits);
    std::vector<Client> clients;
    for (const char* text : {"", "G", "GET / HTTP/1.1\r\nX: ",
                             "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"}) {
        clients.push_back(connect());
        ASSERT_TRUE(clients.back().say(text));
    }
    const base::TimePoint began = io::EventLoop::clock();
    // A byte now and then does not help. So few make none of them whole, nor too long.
    constexpr int kMoreBytes = 5;
    constexpr base::Duration kNowAndThen = base::milliseconds(30);
    int more = 0;
    io::DeadlineTimer timer(loop_, [&] {
        for (const Client& client : clients) {
            static_cast<void>(client.say("a"));
        }
        if (++more < kMoreBytes) {
            timer.set(loop_.now() + kNowAndThen);
        }
    });
    timer.set(loop_.now() + kNowAndThen);
    ASSERT_TRUE(loop_.run_until(
        [&clients] {
            for (Client& client : clients) {
                client.listen();
            }
            return std::all_of(clients.begin(), clients.end(),
                               [](const Client& client) { return client.is_over; });
        },
        kPatience));
    EXPECT_EQ(more, kMoreBytes);
    EXPECT_LT(io::EventLoop::clock() - began, base::seconds(10));
    EXPECT_EQ(server_->counters().timeouts, clients.size());
    EXPECT_EQ(server_->counters().requests, 0U);
}

TEST_F(RestHttp, SilentConnectionsGiveWay) {
    HttpLimits limits;
    limits.connections = 4;
    serve(kEcho, limits);
    std::vector<Client> silent;
    for (size_t i = 0; i < 3 * limits.connections; ++i) {
        silent.push_back(connect());
        static_cast<void>(silent.back().say("GET / HTTP/1.1\r\n"));
    }
    EXPECT_TRUE(has_status(get("/"), 200));
    EXPECT_EQ(server_->counters().displaced, 2 * limits.connections + 1);
    EXPECT_EQ(server_->counters().refused, 0U);
}

TEST_F(RestHttp, ThoseThatAreAnsweredDoNotGiveWay) {
    HttpLimits limits;
    limits.connections = 2;
    std::vector<HttpReply> waiting;
    serve([&waiting](const HttpRequest& /*request*/,
                     const HttpReply& reply) { waiting.push_back(reply); },
          limits);
    Client one = connect();
    Client two = connect();
    for (const Client* client : {&one, &two}) {
        ASSERT_TRUE(client->say("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    }
    ASSERT_TRUE(loop_.run_until([&waiting] { return waiting.size() == 2; }, kPatience));
    Client third = connect();
    EXPECT_EQ(all_of(third), "");
    EXPECT_EQ(server_->counters().refused, 1U);
    for (const HttpReply& reply : waiting) {
        reply.send(text_answer("good"));
    }
    EXPECT_EQ(body_of(all_of(one)), "good");
    EXPECT_EQ(body_of(all_of(two)), "good");
}

TEST_F(RestHttp, WhoDoesNotReadItsAnswerGivesWay) {
    HttpLimits limits;
    limits.connections = 4;
    constexpr size_t kMoreThanSocketsTake = size_t{8} << 20;
    size_t answered = 0;
    serve(
        [&answered](const HttpRequest& request, const HttpReply& reply) {
            ++answered;
            const bool is_large = request.target == "/large";
            reply.send(text_answer(is_large ? std::string(kMoreThanSocketsTake, 'a') : "good"));
        },
        limits);
    std::vector<Client> greedy;
    for (size_t i = 0; i < limits.connections; ++i) {
        greedy.push_back(connect());
        ASSERT_TRUE(greedy.back().say("GET /large HTTP/1.1\r\nHost: x\r\n\r\n"));
        ASSERT_TRUE(loop_.run_until([&] { return answered == i + 1; }, kPatience));
    }
    EXPECT_EQ(body_of(get("/")), "good");
    EXPECT_EQ(server_->counters().displaced, 1U);
    EXPECT_EQ(server_->counters().refused, 0U);
}

TEST_F(RestHttp, LargeBodiesAndHeadersAreRefused) {
    HttpLimits limits;
    limits.header_bytes = 4096;
    limits.body_bytes = 1000;
    size_t asked = 0;
    serve(
        [&asked](const HttpRequest& request, const HttpReply& reply) {
            ++asked;
            EXPECT_LE(request.body.size(), 1000U);
            reply.send(text_answer("good"));
        },
        limits);
    EXPECT_TRUE(has_status(ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n"), 413));
    EXPECT_TRUE(
        has_status(ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"), 413));
    std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 11; ++i) {
        chunked += "64\r\n" + std::string(100, 'a') + "\r\n";
    }
    EXPECT_FALSE(has_status(ask(chunked), 200));
    EXPECT_FALSE(has_status(get("/", "X: " + std::string(5000, 'a') + "\r\n"), 200));
    EXPECT_FALSE(has_status(get("/" + std::string(5000, 'a')), 200));
    EXPECT_EQ(asked, 0U);
    EXPECT_TRUE(has_status(get("/"), 200));
}

// Whatever comes, the server answers the next.
TEST_F(RestHttp, ThousandFuzzedRequestsHarmNothing) {
    HttpLimits limits;
    limits.request_time = base::milliseconds(10);
    serve(kEcho, limits);
    const std::string good =
        "POST /v1/usage?by=user&zone=UTC HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer snapt_a\r\n"
        "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    base::SeededRandom random(7);
    for (int i = 0; i < 1000; ++i) {
        std::string text = good.substr(0, 1 + random.below(good.size()));
        for (uint64_t change = random.below(6); change > 0; --change) {
            const auto octet = static_cast<char>(random.below(256));
            const size_t at = random.below(text.size());
            if (random.below(2) == 0) {
                text[at] = octet;
            } else {
                text.insert(at, random.below(40), octet);
            }
        }
        Client client = connect();
        static_cast<void>(client.say(text));
        ::shutdown(client.fd.value(), SHUT_WR);
        all_of(client);
    }
    EXPECT_EQ(server_->counters().connections, 1000U);
    EXPECT_EQ(body_of(get("/x")), "GET /x   ");
}

TEST_F(RestHttp, LoopbackAddressIsServed) {
    const std::vector<std::string> addresses = {"127.0.0.1:0"};
    server_ = HttpServer::listen(loop_, addresses, kEcho).value();
    ASSERT_EQ(server_->addresses().size(), 1U);
    EXPECT_TRUE(server_->addresses().front().starts_with("127.0.0.1:"));
    EXPECT_FALSE(server_->addresses().front().ends_with(":0"));
}

}  // namespace
}  // namespace continuo::rest
