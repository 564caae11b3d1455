// Messages from and to a NATS server.
#include <gtest/gtest.h>

#include "events/nats_wire.h"

namespace verbena::events {
namespace {

using Kind = NatsLine::Kind;

TEST(NatsLine, WhatAServerSays) {
  const auto info = parse_nats_line("INFO {\"tls_required\":true,\"headers\":true,\"max_payload\":1000}");
  ASSERT_TRUE(info && info->kind == Kind::info);
  const auto facts = parse_nats_info(info->rest);
  ASSERT_TRUE(facts);
  EXPECT_TRUE(facts->tls_required && facts->headers);
  EXPECT_EQ(facts->payload_max, 1000u);
  const auto message = parse_nats_line("MSG _INBOX.a.1 1 31");
  ASSERT_TRUE(message && message->kind == Kind::message);
  EXPECT_EQ(message->subject, "_INBOX.a.1");
  EXPECT_EQ(message->bytes, 31u);
  const auto headed = parse_nats_line("HMSG _INBOX.a.1 1 reply 12 40");
  ASSERT_TRUE(headed && headed->kind == Kind::headed_message);
  EXPECT_EQ(headed->head, 12u);
  EXPECT_EQ(headed->bytes, 40u);
  EXPECT_EQ(parse_nats_line("PING")->kind, Kind::ping);
  EXPECT_EQ(parse_nats_line("-ERR 'Authorization Violation'")->rest, "'Authorization Violation'");
}

TEST(NatsLine, WhatIsNone) {
  for (const char* bad : {"", "HTTP/1.1 200 OK", "MSG", "MSG a 1", "MSG a 1 -1", "MSG a 1 99999999", "MSG a 1 b c 3",
                          "HMSG a 1 5", "HMSG a 1 6 5", "MSG a 1 18446744073709551616"}) {
    EXPECT_FALSE(parse_nats_line(bad)) << bad;
  }
  EXPECT_FALSE(parse_nats_info("[]"));
  EXPECT_FALSE(parse_nats_info("{"));
  EXPECT_EQ(parse_nats_info("{\"max_payload\":-1,\"headers\":1}")->payload_max, 0u);
}

TEST(NatsWire, APasswordIsNoJson) {
  const std::string hello = nats_connect("user:pa\"ss:word", true);
  EXPECT_NE(hello.find(R"("pass":"pa\"ss:word")"), std::string::npos) << hello;
  EXPECT_NE(hello.find(R"("tls_required":true)"), std::string::npos);
  EXPECT_NE(nats_connect("token", false).find(R"("auth_token":"token")"), std::string::npos);
  EXPECT_EQ(nats_connect("", false).find("auth"), std::string::npos);
}

TEST(NatsWire, APublicationCountsItsBytes) {
  EXPECT_EQ(nats_publication("s", "r", "id", "{}"), "HPUB s r 29 31\r\nNATS/1.0\r\nNats-Msg-Id: id\r\n\r\n{}\r\n");
}

TEST(NatsWire, OnlyAStreamConfirms) {
  EXPECT_EQ(parse_stream_answer("", R"({"stream":"S","seq":7})"), "");
  EXPECT_EQ(parse_stream_answer("", R"({"stream":"S","seq":7,"duplicate":true})"), "");
  EXPECT_NE(parse_stream_answer("NATS/1.0 503\r\n\r\n", ""), "");
  for (const char* other : {"", "ok", "[]", "{}", R"({"stream":"S"})", R"({"stream":"","seq":1})",
                            R"({"stream":1,"seq":1})", R"({"error":{"code":503},"stream":"S","seq":1})"}) {
    EXPECT_NE(parse_stream_answer("", other), "") << other;
  }
}

}  // namespace
}  // namespace verbena::events
