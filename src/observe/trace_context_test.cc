#include "observe/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace verbena::observe {
namespace {

constexpr const char* sound_header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, IsReadAsTheRecommendationHasIt) {
  const auto context = parse_traceparent(sound_header);
  ASSERT_TRUE(context);
  EXPECT_EQ(to_hex(context->trace), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(to_hex(context->parent), "00f067aa0ba902b7");
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02")->sampled);
  EXPECT_TRUE(parse_traceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-will-be"))
      << "a later version's";
}

TEST(TraceContext, WhatIsNoneIsIgnored) {
  const std::string sound = sound_header;
  for (std::string text :
       {std::string(), sound.substr(1), sound + "0", sound + "-0", "ff" + sound.substr(2), "cc" + sound.substr(2) + "x",
        std::string("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
        std::string("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"),
        std::string("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"),
        std::string("00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01"),
        std::string("00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01"), std::string(55, '-'),
        std::string(55, '\0')}) {
    EXPECT_FALSE(parse_traceparent(text)) << text;
  }
}

TEST(TraceContext, OfAMessageIsReadFromItsBytes) {
  std::array<std::byte, trace_context_size> bytes{};
  EXPECT_FALSE(read_trace_context(bytes)) << "zeros";
  bytes[15] = std::byte{1};
  EXPECT_FALSE(read_trace_context(bytes)) << "no parent";
  bytes[16] = std::byte{2};
  bytes[24] = std::byte{1};
  const auto context = read_trace_context(bytes);
  ASSERT_TRUE(context);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->trace[15], std::byte{1});
  EXPECT_EQ(context->parent[0], std::byte{2});
  EXPECT_FALSE(read_trace_context(Bytes(bytes).first(24)));
}

}  // namespace
}  // namespace verbena::observe
