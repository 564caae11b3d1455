#include "cli/report.h"

#include <gtest/gtest.h>

namespace verbena::cli {
namespace {

ClientError error_of(ErrorCode code, std::string s3_code = "") {
  ClientError error;
  error.code = code;
  error.s3_code = std::move(s3_code);
  return error;
}

const ClientError denied = error_of(ErrorCode::access_denied, "AccessDenied");
const ClientError late = error_of(ErrorCode::timed_out);

TEST(RunFailures, EndARunAtOnceWhereNoCallCanSucceed) {
  EXPECT_TRUE(RunFailures().ended_by(error_of(ErrorCode::connection_failed)));
  EXPECT_TRUE(RunFailures().ended_by(error_of(ErrorCode::unknown_access_key)));
  for (const char* code : {"SignatureDoesNotMatch", "RequestTimeTooSkewed", "ExpiredToken", "InvalidToken"}) {
    RunFailures failures;
    failures.succeeded();
    EXPECT_TRUE(failures.ended_by(error_of(ErrorCode::access_denied, code))) << code;
  }
}

TEST(RunFailures, EndARunWhoseCallsAreNotAnsweredSeveralTimesInARow) {
  RunFailures failures;
  failures.succeeded();
  EXPECT_FALSE(failures.ended_by(late));
  EXPECT_FALSE(failures.ended_by(error_of(ErrorCode::outcome_unknown)));
  failures.succeeded();
  EXPECT_FALSE(failures.ended_by(late));
  EXPECT_FALSE(failures.ended_by(late));
  EXPECT_FALSE(failures.ended_by(denied)) << "an answer";
  EXPECT_FALSE(failures.ended_by(late));
  EXPECT_FALSE(failures.ended_by(error_of(ErrorCode::outcome_unknown)));
  EXPECT_TRUE(failures.ended_by(late));
}

TEST(RunFailures, OfManyDeniedObjectsEndARunThatHadNoSuccessYet) {
  RunFailures none, some;
  some.succeeded();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(none.ended_by(denied), i >= 9) << i;
    EXPECT_FALSE(some.ended_by(denied)) << i;
    EXPECT_FALSE(RunFailures().ended_by(error_of(ErrorCode::no_such_key)));
  }
}

}  // namespace
}  // namespace verbena::cli
