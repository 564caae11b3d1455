// The exchange that opens a session, with a machine between client and server that sees and changes it; and with
// servers of an older version.
#include "client/native/handshake.h"

#include <nlohmann/json.hpp>

#include "client/native/session_request.h"
#include "client/native/streams.h"
#include "client/native/test_server.h"
#include "native/wire/message.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;
using Json = nlohmann::json;
using Reply = Result<net::HttpReply>;

constexpr std::string_view secret_key = "secret/root";

class HandshakeTest : public testing::Test {
 protected:
  ~HandshakeTest() override { ask_for_sessions_by(nullptr); }

  // Sends it on, as it came or with another body.
  Reply forward(net::HttpRequest request, const std::optional<std::string>& body = {}) {
    auto http = net::HttpClient::create({.host = "127.0.0.1", .port = server_.port});
    if (!http) return std::unexpected(http.error());
    if (body) request.body = as_bytes(*body);
    return (*http)->request(request);
  }
  // All sessions are asked for through it from now on.
  void in_the_middle(std::function<Reply(const net::HttpRequest&)> machine) {
    ask_for_sessions_by([machine = std::move(machine)](const NativeOptions&, const net::HttpRequest& request) {
      return machine(request);
    });
  }
  static std::string text_of(const net::HttpRequest& request) { return std::string(as_text(request.body)); }
  // With that member of its answer changed; null takes it out.
  void change_answers(const char* member, const Json& value) {
    in_the_middle([=, this](const net::HttpRequest& request) {
      Reply reply = forward(request);
      Json answer = Json::parse(reply->body);
      if (value.is_null()) {
        answer.erase(member);
      } else {
        answer[member] = value;
      }
      reply->body = answer.dump();
      return reply;
    });
  }
  Result<SessionTerms> ask(bool seals = true) {
    NativeOptions options = server_.options();
    options.seals = seals;
    return request_session(options);
  }

  NativeTestServer server_{{.provider = "tcp", .cores = 1}};
};

TEST_F(HandshakeTest, BothSidesHaveAnExchangeOfKeys) {
  std::string seen, answered;
  in_the_middle([&](const net::HttpRequest& request) {
    seen = text_of(request);
    Reply reply = forward(request);
    answered = reply->body;
    return reply;
  });
  const auto terms = ask();
  ASSERT_TRUE(terms) << describe(terms.error());
  EXPECT_EQ(terms->version, wire::protocol_version_max);
  EXPECT_TRUE(terms->has_forward_secrecy());
  const Json wanted = Json::parse(seen), answer = Json::parse(answered);
  // With the secret key and all that crossed the network, as a later thief has them: what version 8 had for a key.
  wire::SessionNumbers numbers{.session = terms->session};
  std::ranges::copy(*from_hex(wanted["client_nonce"].get<std::string>()), numbers.client.begin());
  std::ranges::copy(*from_hex(answer["server_nonce"].get<std::string>()), numbers.server.begin());
  EXPECT_NE(to_hex(wire::derive_master(secret_key, numbers).bytes), to_hex(terms->master.bytes));
}

TEST_F(HandshakeTest, EachSessionHasKeysOfItsOwn) {
  std::vector<Json> wanted;
  in_the_middle([&](const net::HttpRequest& request) {
    wanted.push_back(Json::parse(text_of(request)));
    return forward(request);
  });
  const auto one = ask(), two = ask();
  ASSERT_TRUE(one && two);
  EXPECT_NE(wanted[0]["client_key"], wanted[1]["client_key"]);
  EXPECT_NE(to_hex(one->master.bytes), to_hex(two->master.bytes));
}

TEST_F(HandshakeTest, WhatTheMachineChangesInARequestOpensNoSession) {
  const std::string other = to_hex(EphemeralKey::make()->public_key());
  for (const auto& [member, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"client_key", nullptr}, {"client_key", other}, {"version_max", 8}, {"sealing", nullptr}}) {
    in_the_middle([&, member = member, value = value](const net::HttpRequest& request) {
      Json wanted = Json::parse(text_of(request));
      if (value.is_null()) {
        wanted.erase(member);
      } else {
        wanted[member] = value;
      }
      return forward(request, wanted.dump());
    });
    const auto terms = ask();
    ASSERT_FALSE(terms) << member;
    EXPECT_EQ(terms.error(), Errc::content_sha256_mismatch) << member;
  }
  EXPECT_EQ(server_.door->sessions(), 0u);
}

TEST_F(HandshakeTest, WhatTheMachineChangesInAnAnswerIsNotTaken) {
  const std::string own = to_hex(EphemeralKey::make()->public_key()), zero(64, '0');
  for (const auto& [member, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"server_key", nullptr},
                                                           {"server_key", own},
                                                           {"server_key", zero},
                                                           {"server_key", own.substr(2)},
                                                           {"version", 8},
                                                           {"server_nonce", zero.substr(32)},
                                                           {"session", "0000000000000001"}}) {
    change_answers(member, value);
    const auto terms = ask();
    ASSERT_FALSE(terms) << member << value;
    EXPECT_EQ(terms.error(), Errc::malformed) << member << value;
  }
}

// Sent back as if an older server had answered: neither the version nor the key is there.
TEST_F(HandshakeTest, AnAnswerIsNotMadeOneOfAnOlderVersion) {
  in_the_middle([this](const net::HttpRequest& request) {
    Reply reply = forward(request);
    Json answer = Json::parse(reply->body);
    answer["version"] = wire::version_of_key_exchange - 1;
    answer.erase("server_key");
    reply->body = answer.dump();
    return reply;
  });
  const auto terms = ask();
  ASSERT_FALSE(terms);
  EXPECT_EQ(terms.error(), Errc::malformed);
}

TEST_F(HandshakeTest, TheKeysOfTwoSessionsCannotBeSwapped) {
  std::vector<Reply> replies;
  in_the_middle([&](const net::HttpRequest& request) {
    replies.push_back(forward(request));
    return replies.front();
  });
  ASSERT_TRUE(ask());
  const auto with_the_other_answer = ask();
  ASSERT_FALSE(with_the_other_answer);
  EXPECT_EQ(with_the_other_answer.error(), Errc::malformed);
  // Its own answer with the other's key.
  in_the_middle([&](const net::HttpRequest& request) {
    Reply reply = forward(request);
    Json answer = Json::parse(reply->body);
    answer["server_key"] = Json::parse(replies.front()->body)["server_key"];
    reply->body = answer.dump();
    return reply;
  });
  EXPECT_FALSE(ask());
}

TEST_F(HandshakeTest, ARequestThatIsSentTwiceOpensOneSession) {
  Reply second;
  in_the_middle([&](const net::HttpRequest& request) {
    Reply first = forward(request);
    second = forward(request);
    return first;
  });
  ASSERT_TRUE(ask());
  EXPECT_EQ(second->status, 403);
  EXPECT_EQ(server_.door->sessions(), 1u);
}

// --- Older servers ---------------------------------------------------------------------------------------------------

// Answers as a server of version 8 did, with one endpoint.
Reply old_answer(const net::HttpRequest& request, const Json& endpoint) {
  const Json wanted = Json::parse(as_text(request.body));
  wire::SessionNumbers numbers{.session = 0x1234};
  std::ranges::copy(*from_hex(wanted["client_nonce"].get<std::string>()), numbers.client.begin());
  fill_random(numbers.server);
  net::HttpReply reply;
  reply.status = 200;
  reply.body = Json{{"version", 8},         {"session", "0000000000001234"}, {"server_nonce", to_hex(numbers.server)},
                    {"credits", 64},        {"idle_timeout_s", 300},         {"cores", 1},
                    {"key_hash", "crc32c"}, {"endpoints", {endpoint}}}
                   .dump();
  reply.headers.emplace_back("x-verbena-proof",
                             wire::answer_proof(wire::derive_master(secret_key, numbers), reply.body));
  return reply;
}

Json endpoint_of(const char* provider, bool encrypted, const char* sealed = nullptr) {
  Json endpoint{{"index", 0},
                {"core", 0},
                {"provider", provider},
                {"address", "00"},
                {"inline_max_bytes", 4096},
                {"message_size_max", 16384},
                {"encrypted", encrypted}};
  if (sealed != nullptr) endpoint["sealed"] = sealed;
  return endpoint;
}

class OlderServer : public testing::Test {
 protected:
  ~OlderServer() override { ask_for_sessions_by(nullptr); }
  // What opening a session against it comes to, and how many endpoints it connected to.
  Error open(const Json& endpoint, bool forward_secrecy_only) {
    ask_for_sessions_by(
        [endpoint](const NativeOptions&, const net::HttpRequest& request) { return old_answer(request, endpoint); });
    NativeOptions options;
    options.credentials = {.access_key = "AKROOT", .secret_key = std::string(secret_key), .session_token = {}};
    options.providers = {"verbs", "tcp"};
    options.seals = options.encrypted_only = true;
    options.forward_secrecy_only = forward_secrecy_only;
    dialled_ = 0;
    options.dial = [this](const NativeEndpoint&, const SessionTerms& terms) -> Result<std::unique_ptr<fabric::Link>> {
      ++dialled_;
      EXPECT_FALSE(terms.has_forward_secrecy());
      return fail(Errc::connection_failed, "nothing listens there");
    };
    auto opened = NativeSession::open(options);
    EXPECT_FALSE(opened);
    return opened.error();
  }
  int dialled_ = 0;
};

TEST_F(OlderServer, IsTakenWhereEncryptionIsPreferred) {
  EXPECT_EQ(open(endpoint_of("verbs;ofi_rxm", true, "aes-256-gcm"), false), Errc::connection_failed);
  EXPECT_EQ(dialled_, 1);
}

TEST_F(OlderServer, IsNotTakenSealedWhereEncryptionIsRequired) {
  const Error error = open(endpoint_of("verbs;ofi_rxm", true, "aes-256-gcm"), true);
  EXPECT_EQ(dialled_, 0);
  EXPECT_EQ(std::string_view(error.context),
            "native: the server's version has no forward secrecy, which encryption requires");
}

TEST_F(OlderServer, HasForwardSecrecyByTlsOverTcp) {
  EXPECT_EQ(open(endpoint_of("tcp", true), true), Errc::connection_failed);
  EXPECT_EQ(dialled_, 1);
}

TEST_F(OlderServer, MustProveItsAnswer) {
  ask_for_sessions_by([](const NativeOptions&, const net::HttpRequest& request) {
    Reply reply = old_answer(request, endpoint_of("tcp", true));
    reply->headers.front().second[0] ^= 1;
    return reply;
  });
  NativeOptions options;
  options.credentials = {.access_key = "AKROOT", .secret_key = std::string(secret_key), .session_token = {}};
  const auto terms = request_session(options);
  ASSERT_FALSE(terms);
  EXPECT_EQ(terms.error(), Errc::malformed);
}

}  // namespace
}  // namespace verbena::client
