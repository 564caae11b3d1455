#include "s3/tag_set.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

class BucketConfigTest : public Rig {
 protected:
  BucketConfigTest() { make_bucket(); }
  Reply set(const std::string& name, const std::string& xml) {
    return call("PUT", "/bucket?" + name, {{"content-md5", base64_digest(Algorithm::md5, xml)}}, xml);
  }
};

TEST_F(BucketConfigTest, TagsAreKeptGivenBackAndDeleted) {
  EXPECT_EQ(call("GET", "/bucket?tagging").code, "NoSuchTagSet");
  const std::string xml =
      "<Tagging><TagSet><Tag><Key>a</Key><Value>1 "
      "+-=._:/@</Value></Tag><Tag><Key>b</Key><Value/></Tag></TagSet></Tagging>";
  EXPECT_EQ(set("tagging", xml).status, 204);
  const Reply r = call("GET", "/bucket?tagging");
  EXPECT_EQ(r.count("<Tag>"), 2u);
  EXPECT_EQ(r.element("Value"), "1 +-=._:/@");
  EXPECT_EQ(call("DELETE", "/bucket?tagging").status, 204);
  EXPECT_EQ(call("GET", "/bucket?tagging").code, "NoSuchTagSet");
}

TEST_F(BucketConfigTest, TagsThatAreNoneAreRefused) {
  const auto tag = [](const std::string& key, const std::string& value) {
    return "<Tag><Key>" + key + "</Key><Value>" + value + "</Value></Tag>";
  };
  const auto code = [&](const std::string& tags) {
    return set("tagging", "<Tagging><TagSet>" + tags + "</TagSet></Tagging>").code;
  };
  EXPECT_EQ(code(tag("", "v")), "InvalidTag");
  EXPECT_EQ(code(tag(std::string(129, 'k'), "v")), "InvalidTag");
  EXPECT_EQ(code(tag("k", std::string(257, 'v'))), "InvalidTag");
  EXPECT_EQ(code(tag("k", "bad\tvalue")), "InvalidTag");
  EXPECT_EQ(code(tag("aws:k", "v")), "InvalidTag");
  EXPECT_EQ(code(tag("k", "1") + tag("k", "2")), "InvalidTag");
  EXPECT_EQ(code("<Tag><Key>k</Key></Tag>"), "MalformedXML");
  EXPECT_EQ(set("tagging", "<Tagging/>").code, "MalformedXML");
  std::string many;
  for (int i = 0; i < 51; ++i) many += tag("k" + std::to_string(i), "v");
  EXPECT_EQ(code(many), "InvalidTag");
  std::string wide;  // 128 characters, not bytes
  for (int i = 0; i < 128; ++i) wide += "\xc3\xa9";
  EXPECT_EQ(code(tag(wide, "v")), "");
}

TEST_F(BucketConfigTest, OwnershipControlsAreKept) {
  EXPECT_EQ(call("GET", "/bucket?ownershipControls").code, "OwnershipControlsNotFoundError");
  const auto with = [&](const std::string& ownership) {
    return set("ownershipControls", "<OwnershipControls><Rule><ObjectOwnership>" + ownership +
                                        "</ObjectOwnership></Rule></OwnershipControls>");
  };
  EXPECT_EQ(with("BucketOwnerPreferred").status, 200);
  EXPECT_EQ(call("GET", "/bucket?ownershipControls").element("ObjectOwnership"), "BucketOwnerPreferred");
  EXPECT_EQ(with("Nobody").code, "MalformedXML");
  EXPECT_EQ(call("DELETE", "/bucket?ownershipControls").status, 204);
  EXPECT_EQ(call("PUT", "/another", {{"x-amz-object-ownership", "ObjectWriter"}}).status, 200);
  EXPECT_EQ(call("GET", "/another?ownershipControls").element("ObjectOwnership"), "ObjectWriter");
  EXPECT_EQ(call("PUT", "/third", {{"x-amz-object-ownership", "Nobody"}}).code, "InvalidArgument");
  EXPECT_EQ(call("HEAD", "/third").status, 404);
}

TEST_F(BucketConfigTest, ThePublicAccessBlockIsKept) {
  EXPECT_EQ(call("GET", "/bucket?publicAccessBlock").code, "NoSuchPublicAccessBlockConfiguration");
  EXPECT_EQ(
      set("publicAccessBlock",
          "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>")
          .status,
      200);
  const Reply r = call("GET", "/bucket?publicAccessBlock");
  EXPECT_EQ(r.element("BlockPublicAcls"), "true");
  EXPECT_EQ(r.element("RestrictPublicBuckets"), "false");
  EXPECT_EQ(
      set("publicAccessBlock",
          "<PublicAccessBlockConfiguration><BlockPublicAcls>maybe</BlockPublicAcls></PublicAccessBlockConfiguration>")
          .code,
      "MalformedXML");
  EXPECT_EQ(call("DELETE", "/bucket?publicAccessBlock").status, 204);
}

TEST_F(BucketConfigTest, WhatHasOneStateTellsItAndTakesNoOther) {
  const auto got = [&](const std::string& name) { return call("GET", "/bucket?" + name); };
  EXPECT_EQ(got("notification").count("<NotificationConfiguration"), 1u);
  EXPECT_EQ(got("logging").count("<BucketLoggingStatus"), 1u);
  EXPECT_EQ(got("accelerate").count("<AccelerateConfiguration"), 1u);
  EXPECT_EQ(got("requestPayment").element("Payer"), "BucketOwner");
  EXPECT_EQ(got("policyStatus").element("IsPublic"), "false");
  EXPECT_EQ(got("website").code, "NoSuchWebsiteConfiguration");
  EXPECT_EQ(got("replication").code, "ReplicationConfigurationNotFoundError");
  EXPECT_EQ(got("encryption").code, "ServerSideEncryptionConfigurationNotFoundError");
  for (const char* name : {"website", "replication", "encryption"}) {
    EXPECT_EQ(call("DELETE", std::string("/bucket?") + name).status, 204) << name;
    const int status = std::string_view(name) == "encryption" ? 400 : 501;
    EXPECT_EQ(call("PUT", std::string("/bucket?") + name, {}, "<x/>").status, status) << name;
    EXPECT_EQ(call("DELETE", std::string("/nobucket?") + name).status, 404) << name;
  }
  EXPECT_EQ(set("notification", "<NotificationConfiguration/>").status, 200);
  EXPECT_EQ(set("logging", "<BucketLoggingStatus/>").status, 200);
  EXPECT_EQ(set("logging", "<BucketLoggingStatus><LoggingEnabled/></BucketLoggingStatus>").status, 400);
  const auto payer = [&](const std::string& who) {
    return set("requestPayment",
               "<RequestPaymentConfiguration><Payer>" + who + "</Payer></RequestPaymentConfiguration>");
  };
  EXPECT_EQ(payer("BucketOwner").status, 200);
  EXPECT_EQ(payer("Requester").status, 501);
  EXPECT_EQ(payer("Me").code, "MalformedXML");
  const auto accelerate = [&](const std::string& status) {
    return set("accelerate", "<AccelerateConfiguration><Status>" + status + "</Status></AccelerateConfiguration>")
        .status;
  };
  EXPECT_EQ(accelerate("Suspended"), 200);
  EXPECT_EQ(accelerate("Enabled"), 501);
  EXPECT_EQ(accelerate("Perhaps"), 400);
}

TEST_F(BucketConfigTest, AnAccessControlListMayBeSetAgainAsItWasRead) {
  put("k", "x");
  for (const std::string target : {"/bucket?acl", "/bucket/k?acl"}) {
    const std::string xml = call("GET", target).body;
    EXPECT_EQ(call("PUT", target, {}, xml).status, 200) << target;
    EXPECT_EQ(call("PUT", target, {{"x-amz-acl", "private"}}).status, 200) << target;
    EXPECT_EQ(call("PUT", target, {{"x-amz-acl", "public-ready"}}).code, "InvalidArgument") << target;
    EXPECT_EQ(call("PUT", target, {}, "<no/>").code, "MalformedACLError") << target;
    std::string other = xml;
    other.replace(other.find("FULL_CONTROL"), 12, "READ");
    EXPECT_EQ(call("PUT", target, {}, other).status, 200) << target;
    EXPECT_EQ(call("GET", target).element("Permission"), "READ") << target;
  }
  EXPECT_EQ(call("PUT", "/bucket/none?acl", {{"x-amz-acl", "private"}}).code, "NoSuchKey");
}

TEST_F(BucketConfigTest, AnOwnerThatIsExpectedMustBeTheOne) {
  put("k", "x");
  EXPECT_EQ(call("GET", "/bucket/k", {{"x-amz-expected-bucket-owner", "root"}}).status, 200);
  EXPECT_EQ(call("GET", "/bucket/k", {{"x-amz-expected-bucket-owner", "123456789012"}}).code, "AccessDenied");
  EXPECT_EQ(call("GET", "/bucket?location", {{"x-amz-expected-bucket-owner", "123456789012"}}).code, "AccessDenied");
}

}  // namespace
}  // namespace verbena::s3::test
