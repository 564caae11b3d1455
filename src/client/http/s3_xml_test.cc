#include "client/http/s3_xml.h"

#include <gtest/gtest.h>

namespace verbena::client {
namespace {

TEST(S3Xml, ReadsAPageOfAListing) {
  auto page = parse_list_xml(R"(<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
    <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>abc=</NextContinuationToken>
    <Contents><Key>a%20b%2Bc+d</Key><Size>12</Size><ETag>&quot;e1&quot;</ETag>
      <LastModified>2026-01-02T03:04:05.678Z</LastModified></Contents>
    <CommonPrefixes><Prefix>x/</Prefix></CommonPrefixes></ListBucketResult>)");
  ASSERT_TRUE(page);
  ASSERT_EQ(page->objects.size(), 1u);
  EXPECT_EQ(page->objects[0].key, "a b+c d");
  EXPECT_EQ(page->objects[0].size, 12u);
  EXPECT_EQ(page->objects[0].etag, "e1");
  EXPECT_EQ(page->objects[0].last_modified.time_since_epoch(), std::chrono::milliseconds(1767323045678));
  ASSERT_EQ(page->common_prefixes.size(), 1u);
  EXPECT_TRUE(page->truncated);
  EXPECT_EQ(page->continuation, "abc=");
}

TEST(S3Xml, ReadsAPageOfBuckets) {
  const auto page = parse_buckets_xml(
      "<ListAllMyBucketsResult><Buckets><Bucket><Name>one</Name></Bucket></Buckets>"
      "<ContinuationToken>one</ContinuationToken></ListAllMyBucketsResult>");
  ASSERT_TRUE(page);
  ASSERT_EQ(page->buckets.size(), 1u);
  EXPECT_EQ(page->buckets[0].name, "one");
  EXPECT_EQ(page->continuation, "one");
  const auto last = parse_buckets_xml("<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>");
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->continuation.empty());
}

TEST(S3Xml, AnAnswerIsReadByItsNamespaceWhateverThePrefix) {
  auto page = parse_list_xml(
      R"(<s:ListBucketResult xmlns:s="http://s3.amazonaws.com/doc/2006-03-01/" xmlns:more="urn:more">
      <s:Contents><s:Key>k</s:Key><more:Size>7</more:Size><s:Size>12</s:Size></s:Contents></s:ListBucketResult>)");
  ASSERT_TRUE(page);
  ASSERT_EQ(page->objects.size(), 1u);
  EXPECT_EQ(page->objects[0].key, "k");
  EXPECT_EQ(page->objects[0].size, 12u);
  EXPECT_EQ(parse_error_xml("<e:Error xmlns:e=\"urn:e\"><e:Code>NoSuchKey</e:Code></e:Error>").code, "NoSuchKey");
}

TEST(S3Xml, HostileListingsAreRefused) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  for (const std::string& xml : {
           std::string(),
           std::string("<"),
           std::string("not xml"),
           std::string("<Other/>"),
           deep,
           std::string("<ListBucketResult><Contents><Key>k</Key><Size>-1</Size></Contents></ListBucketResult>"),
           std::string("<ListBucketResult><Contents><Key>k</Key><Size>99999999999999999999999</Size></Contents>"
                       "</ListBucketResult>"),
           std::string("<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>"),
           // Truncated without a continuation: following it would never end.
           std::string("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
           std::string("<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%zz</Key><Size>1</Size>"
                       "</Contents></ListBucketResult>"),
       }) {
    auto page = parse_list_xml(xml);
    ASSERT_FALSE(page) << xml.substr(0, 100);
    EXPECT_EQ(page.error().code, ErrorCode::malformed_reply);
  }
}

TEST(S3Xml, EntitiesAreNotExpanded) {
  const XmlError error = parse_error_xml(
      R"(<!DOCTYPE x [<!ENTITY a "boom">]><Error><Code>NoSuchKey</Code><Message>&a;</Message></Error>)");
  EXPECT_EQ(error.message.find("boom"), std::string::npos);
}

TEST(S3Xml, ReadsAnError) {
  const XmlError error =
      parse_error_xml("<Error><Code>NoSuchKey</Code><Message>gone</Message><RequestId>R1</RequestId></Error>");
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "gone");
  EXPECT_EQ(error.request_id, "R1");
  EXPECT_TRUE(parse_error_xml("<html>oops</html>").code.empty());
}

TEST(S3Xml, ACompletionMayFailWithStatus200) {
  auto done = parse_complete_upload_xml("<Error><Code>InternalError</Code><Message>later</Message></Error>");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::server_error);
  done = parse_complete_upload_xml(
      "<CompleteMultipartUploadResult><ETag>&quot;abc-2&quot;</ETag></CompleteMultipartUploadResult>");
  ASSERT_TRUE(done);
  EXPECT_EQ(*done, "abc-2");
}

TEST(S3Xml, ACompletionNamesItsPartsInOrder) {
  EXPECT_EQ(complete_upload_xml({{1, "a<b", "AAAAAA=="}, {2, "c", ""}}),
            R"(<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">)"
            "<Part><PartNumber>1</PartNumber><ETag>&quot;a&lt;b&quot;</ETag><ChecksumCRC32C>AAAAAA==</ChecksumCRC32C>"
            "</Part><Part><PartNumber>2</PartNumber><ETag>&quot;c&quot;</ETag></Part></CompleteMultipartUpload>");
}

TEST(S3Xml, ABoundComesBackAsItWasSaid) {
  const BucketBound bound{
      .bytes_max = UINT64_MAX, .objects_max = 7, .policy = "a<b", .renew_on_read = true, .keep_suffix = "/&.json"};
  const auto back = parse_bound_xml(bound_xml(bound));
  ASSERT_TRUE(back && *back);
  EXPECT_EQ((*back)->bytes_max, bound.bytes_max);
  EXPECT_EQ((*back)->objects_max, bound.objects_max);
  EXPECT_EQ((*back)->policy, bound.policy);
  EXPECT_TRUE((*back)->renew_on_read);
  EXPECT_EQ((*back)->keep_suffix, bound.keep_suffix);
  EXPECT_EQ((*parse_bound_xml("<BoundConfiguration><KeepSuffix/></BoundConfiguration>"))->keep_suffix, "");
  EXPECT_EQ(
      bound_xml({}),
      "<BoundConfiguration><Policy>s3-fifo</Policy><KeepSuffix>/namespace.json</KeepSuffix></BoundConfiguration>");
  EXPECT_FALSE(*parse_bound_xml("<BoundConfiguration>\n</BoundConfiguration>")) << "as a proxy may print it";
  const auto none = parse_bound_xml("<BoundConfiguration/>");
  EXPECT_TRUE(none && !*none);
  for (const char* const wrong :
       {"", "<Bound/>", "<BoundConfiguration><MaxBytes>-1</MaxBytes></BoundConfiguration>",
        "<BoundConfiguration><MaxObjects/></BoundConfiguration>",
        "<BoundConfiguration><MaxBytes>18446744073709551616</MaxBytes></BoundConfiguration>"}) {
    EXPECT_FALSE(parse_bound_xml(wrong)) << wrong;
  }
}

TEST(S3Xml, TimesThatAreNoneAreTheEpoch) {
  EXPECT_EQ(parse_iso_time("yesterday").time_since_epoch().count(), 0);
  // A clock of nanoseconds ends in 2262: reading such a year was an overflow.
  EXPECT_EQ(parse_iso_time("9999-12-31T23:59:59Z").time_since_epoch().count(), 0);
  EXPECT_EQ(parse_http_time("Fri, 31 Dec 9999 23:59:59 GMT").time_since_epoch().count(), 0);
  EXPECT_EQ(parse_http_time("").time_since_epoch().count(), 0);
  EXPECT_EQ(parse_http_time("Fri, 02 Jan 2026 03:04:05 GMT").time_since_epoch(), std::chrono::seconds(1767323045));
}

TEST(S3Xml, ADateThatTheClockCannotHoldIsNone) {
  EXPECT_EQ(parse_iso_time("1013-01-02T03:04:05Z").time_since_epoch().count(), 0);
  EXPECT_EQ(parse_iso_time("9999-12-31T23:59:59.999Z").time_since_epoch().count(), 0);
  EXPECT_EQ(parse_http_time("Fri, 02 Jan 2263 03:04:05 GMT").time_since_epoch().count(), 0);
  EXPECT_EQ(parse_iso_time("1700-01-01T00:00:00Z").time_since_epoch(), std::chrono::seconds(-8520336000));
}

}  // namespace
}  // namespace verbena::client
