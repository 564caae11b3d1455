#include "s3/errors.h"
#include "s3_http/error_response.h"

#include <gtest/gtest.h>

#include <set>

#include "s3_http/routing/router.h"

namespace verbena::s3 {
namespace {

// Every value that has a name, whatever is added later.
std::vector<Errc> all_codes() {
  std::vector<Errc> codes;
  const std::string_view unknown = to_string(static_cast<Errc>(65'535));
  for (int value = 0; value < 1024; ++value) {
    const auto code = static_cast<Errc>(value);
    if (to_string(code) != unknown) codes.push_back(code);
  }
  return codes;
}

TEST(Errors, EveryCodeHasAnS3CodeAnErrorStatusAndAMessage) {
  const auto codes = all_codes();
  EXPECT_GE(codes.size(), 60u);
  for (const Errc code : codes) {
    const ErrorForm form = error_form(code);
    EXPECT_FALSE(form.code.empty()) << to_string(code);
    EXPECT_FALSE(form.message.empty()) << to_string(code);
    EXPECT_GE(form.status, 304) << to_string(code);
    EXPECT_LT(form.status, 600) << to_string(code);
  }
}

TEST(Errors, OnlyTheHousesOwnCodesBecomeInternalErrors) {
  const std::set<Errc> internal = {Errc::ok,          Errc::internal,       Errc::io_error,
                                   Errc::would_block, Errc::cancelled,      Errc::timed_out,
                                   Errc::closed,      Errc::not_found,      Errc::unsupported,
                                   Errc::malformed,   Errc::too_large,      Errc::connection_failed,
                                   Errc::bad_config,  Errc::corrupt_object, Errc::key_unavailable};
  for (const Errc code : all_codes()) {
    EXPECT_EQ(error_form(code).code == "InternalError", internal.contains(code)) << to_string(code);
  }
}

TEST(Errors, KnownCodesAreAwsOwn) {
  EXPECT_EQ(error_form(Errc::no_such_key).code, "NoSuchKey");
  EXPECT_EQ(error_form(Errc::no_such_key).status, 404);
  EXPECT_EQ(error_form(Errc::precondition_failed).status, 412);
  EXPECT_EQ(error_form(Errc::invalid_range).status, 416);
  EXPECT_EQ(error_form(Errc::missing_content_length).status, 411);
  EXPECT_EQ(error_form(Errc::signature_does_not_match).status, 403);
  EXPECT_EQ(error_form(Errc::slow_down).status, 503);
  EXPECT_EQ(error_form(Errc::rdma_transfer_failed).code, "RDMATransferFailed");
  EXPECT_EQ(error_form(Errc::invalid_rdma_token).status, 400);
}

TEST(Errors, WhatXmlHasNotIsNoCharacterOfAnError) {
  const std::string xml = error_xml({Errc::no_such_key}, "/b/a%00b", "1", {{"Key", std::string("a\0\x1f\tb", 5)}});
  EXPECT_NE(xml.find("<Key>a\xef\xbf\xbd\xef\xbf\xbd&#x9;b</Key>"), std::string::npos) << xml;
  const std::string latin = error_xml({Errc::invalid_bucket_name}, "/%C3", "1", {{"BucketName", "\xc3"}});
  EXPECT_NE(latin.find("<BucketName>\xef\xbf\xbd</BucketName>"), std::string::npos) << latin;
}

TEST(Errors, AContextThatIsASentenceReplacesTheMessage) {
  EXPECT_EQ(error_message({Errc::invalid_argument, 0, "Bad part number."}), "Bad part number.");
  EXPECT_EQ(error_message({Errc::no_such_key, 0, "index: get"}), "The specified key does not exist.");
}

TEST(Errors, XmlEscapesWhatTheClientSent) {
  const std::string xml = error_xml({Errc::no_such_key, 0, ""}, "/b/<&>\"", "ID", {{"Key", "<script>"}});
  EXPECT_NE(xml.find("<Resource>/b/&lt;&amp;&gt;&quot;</Resource>"), std::string::npos);
  EXPECT_NE(xml.find("<Key>&lt;script&gt;</Key>"), std::string::npos);
  EXPECT_NE(xml.find("<RequestId>ID</RequestId>"), std::string::npos);
  EXPECT_NE(xml.find("<HostId>"), std::string::npos);
}

TEST(Errors, SlowDownTellsWhenToComeBack) {
  Response response;
  fill_error(response, {Errc::slow_down, 0, "arena"}, "/", "ID");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.error_code, "SlowDown");
  bool retry = false;
  for (const auto& [name, value] : response.headers) retry |= name == "retry-after";
  EXPECT_TRUE(retry);
}

}  // namespace
}  // namespace verbena::s3
