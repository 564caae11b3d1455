#include "client/api/encryption.h"

#include <gtest/gtest.h>

namespace verbena::client {
namespace {

Outcome<RdmaEncryption> wish(std::string word, Via via, bool https) {
  ClientOptions options;
  options.encryption = std::move(word);
  options.via = via;
  return rdma_encryption(options, https);
}

TEST(Encryption, FollowsTheEndpointUnlessTheCallerSaysMore) {
  for (const char* word : {"", "auto"}) {
    EXPECT_EQ(*wish(word, Via::automatic, false), RdmaEncryption::off);
    EXPECT_EQ(*wish(word, Via::automatic, true), RdmaEncryption::preferred);
  }
  EXPECT_EQ(*wish("off", Via::automatic, true), RdmaEncryption::off);
  EXPECT_EQ(*wish("preferred", Via::token, false), RdmaEncryption::preferred);
  EXPECT_EQ(*wish("required", Via::native, false), RdmaEncryption::required);
  EXPECT_EQ(*wish("required", Via::automatic, true), RdmaEncryption::required);
  EXPECT_EQ(*wish("required", Via::token, true), RdmaEncryption::required);
}

TEST(Encryption, WhatCouldNotHoldIsRefused) {
  EXPECT_EQ(wish("yes", Via::automatic, true).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(wish("required", Via::automatic, false).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(wish("required", Via::http, false).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(wish("required", Via::token, false).error().code, ErrorCode::invalid_argument);
  ClientOptions unverified;
  unverified.encryption = "required";
  unverified.insecure = true;
  EXPECT_EQ(rdma_encryption(unverified, true).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace verbena::client
