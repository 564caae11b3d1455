#include "client/outcome.h"

#include <gtest/gtest.h>

#include "s3/errors.h"

namespace verbena::client {
namespace {

// Errors must not depend on the door that answered.
TEST(OutcomeTest, WhatAServerSaysIsTheSameByBothDoors) {
  for (unsigned number = 1; number < static_cast<unsigned>(Errc::would_block); ++number) {
    const auto code = static_cast<Errc>(number);
    const auto form = s3::error_form(code);
    // Errors without an S3 code, internal errors, missing bucket documents, and bodies that do not arrive occur over
    // HTTP only.
    if (form.code == "InternalError" && number < static_cast<unsigned>(Errc::internal)) continue;
    if (form.status == 404 && form.code != "NoSuchKey" && form.code != "NoSuchBucket") continue;
    if (code == Errc::request_timeout) continue;
    EXPECT_EQ(from_error({.code = code, .sys = 0, .context = ""}, "").code, code_for(form.code, form.status, true))
        << form.code;
  }
}

TEST(OutcomeTest, AServerWithoutRoomHasACodeOfItsOwn) {
  EXPECT_EQ(from_error({.code = Errc::insufficient_storage}, "").code, ErrorCode::insufficient_storage);
  EXPECT_EQ(code_for("", 507, true), ErrorCode::insufficient_storage);
  EXPECT_EQ(s3_code_for(ErrorCode::insufficient_storage), "InsufficientStorage");
  EXPECT_EQ(to_string(ErrorCode::insufficient_storage), "insufficient_storage");
}

}  // namespace
}  // namespace verbena::client
