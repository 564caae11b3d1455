// Authorization, through the router.
#include "s3/access/authorize.h"
#include "s3/access/test_access.h"

namespace verbena::s3 {
namespace {

using test::alice;
using test::base64_digest;
using test::Reply;
using test::user_of;

class AccessTest : public test::AccessRig {};

TEST_F(AccessTest, ABucketIsItsOwnersAlone) {
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(auth::superuser(), "GET", "/bucket/key"), 200);
  for (const auto& who : {bob_, nobody_}) {
    for (const char* target : {"/bucket", "/bucket?acl", "/bucket?versions", "/bucket?uploads", "/bucket?policy",
                               "/bucket?location", "/bucket?lifecycle", "/bucket/key", "/bucket/key?acl",
                               "/bucket/key?tagging", "/bucket/none", "/bucket/none?tagging"}) {
      EXPECT_EQ(status(who, "GET", target), 403) << target;
    }
    for (const char* target :
         {"/bucket/key", "/bucket/new", "/bucket?acl", "/bucket/key?acl", "/bucket?policy", "/bucket?versioning"}) {
      EXPECT_EQ(status(who, "PUT", target), 403) << target;
    }
    const std::string tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    EXPECT_EQ(as(who, "PUT", "/bucket/key?tagging", tags).status, 403);
    EXPECT_EQ(as(who, "PUT", "/bucket/none?tagging", tags).status, 403);
    EXPECT_EQ(as(who, "PUT", "/bucket/key?legal-hold", "<LegalHold><Status>ON</Status></LegalHold>").status, 403);
    for (const char* target : {"/bucket", "/bucket/key", "/bucket/none", "/bucket?policy"}) {
      EXPECT_EQ(status(who, "DELETE", target), 403) << target;
    }
    EXPECT_EQ(status(who, "HEAD", "/bucket/key"), 403);
    EXPECT_EQ(as(who, "POST", "/bucket/new?uploads").code, "AccessDenied");
  }
  EXPECT_EQ(status(bob_, "GET", "/no-bucket/key"), 404);
}

// Removed between the authorization and the commit: the bucket would have had no account.
TEST_F(AccessTest, AnAccountThatIsGoneMakesNoBucket) {
  class OnlyBob final : public test::TwoAccounts {
   public:
    auth::AccountPtr by_canonical_id(std::string_view id) const override {
      return id == "bob" ? TwoAccounts::by_canonical_id(id) : nullptr;
    }
  };
  const OnlyBob left;
  service.accounts = &left;
  EXPECT_EQ(as(alice_, "PUT", "/late").code, "InvalidAccessKeyId");
  EXPECT_EQ(as(auth::superuser(), "HEAD", "/late").status, 404);
  EXPECT_EQ(as(bob_, "PUT", "/of-bob").status, 200);
  EXPECT_EQ(as(auth::superuser(), "PUT", "/of-root").status, 200);
  store.bucket_removals_refused = 2;
  EXPECT_EQ(as(alice_, "PUT", "/late").code, "InvalidAccessKeyId");
  EXPECT_EQ(as(auth::superuser(), "HEAD", "/late").status, 404) << "one failure left it";
  store.before_bucket_removal = [&]() -> Task<> {
    (void)co_await store.remove_bucket("late");
    store::BucketInfo other;
    other.name = "late";
    other.owner = "bob";
    (void)co_await store.create_bucket(std::move(other), store::buckets_unlimited);
  };
  EXPECT_EQ(as(alice_, "PUT", "/late").code, "InvalidAccessKeyId");
  EXPECT_EQ(as(bob_, "HEAD", "/late").status, 200) << "another account's of the same name";
}

TEST_F(AccessTest, OfABucketThatOthersAreChangingNothingIsKept) {
  service.access->keep_where([](std::string_view bucket) { return bucket != "bucket"; });
  service.access->all_changed();
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(cached_access(service, "bucket"), nullptr);
  service.access->keep_where({});
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  EXPECT_NE(cached_access(service, "bucket"), nullptr);
}

TEST_F(AccessTest, ARecordFromBeforeAChangeIsNotUsedAgain) {
  int reads = 0;
  bool changes = true;
  service.access->keep_where([&](std::string_view) {
    ++reads;
    if (std::exchange(changes, false)) service.access->all_changed();
    return true;
  });
  service.access->all_changed();
  EXPECT_TRUE(run(bucket_access(service, "bucket")));
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(cached_access(service, "bucket"), nullptr);
  EXPECT_TRUE(run(bucket_access(service, "bucket")));
  EXPECT_EQ(reads, 2);
  EXPECT_NE(cached_access(service, "bucket"), nullptr);
  EXPECT_TRUE(run(bucket_access(service, "bucket")));
  EXPECT_EQ(reads, 2);
  service.access->keep_where({});
}

// A caller that repeated them made all others' requests read their buckets' records again.
TEST_F(AccessTest, ChangesThatAreRefusedOrConcernNoRecordMakeNoneStale) {
  ASSERT_EQ(as(bob_, "PUT", "/bobs").status, 200);
  ASSERT_EQ(status(bob_, "PUT", "/bobs/key"), 200);
  ASSERT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  const auto stays = [&] { return cached_access(service, "bucket") != nullptr; };
  ASSERT_TRUE(stays());
  EXPECT_EQ(as(bob_, "PUT", "/bucket").status, 409);
  EXPECT_TRUE(stays());
  EXPECT_EQ(status(bob_, "DELETE", "/bobs"), 409);
  EXPECT_TRUE(stays());
  const std::string tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
  EXPECT_EQ(as(bob_, "PUT", "/bobs?tagging", tags, {{"content-md5", base64_digest(Algorithm::md5, tags)}}).status, 204);
  EXPECT_TRUE(stays());
  // To remove what is not there.
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 204);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?lifecycle"), 204);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?encryption"), 204);
  EXPECT_TRUE(stays());
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-acl", "public-read"}}).status, 200);
  EXPECT_FALSE(stays()) << "what records are made of has changed";
}

// A caller that changed its own bucket in a loop made all others' requests read their buckets' records again.
TEST_F(AccessTest, AChangeOfABucketMakesNoOtherBucketsRecordStale) {
  const auto place = [&](const std::string& name) { return service.access->place_of(name); };
  std::string bobs = "bobs";
  const auto shares_a_place = [&](AccessGeneration::Place other) { return place(bobs) == other; };
  while (shares_a_place(place("bucket")) || shares_a_place(service.access->place_of_owner("alice"))) bobs += "s";
  ASSERT_EQ(as(bob_, "PUT", "/" + bobs).status, 200);
  ASSERT_EQ(status(bob_, "PUT", "/" + bobs + "/key"), 200);
  ASSERT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  const BucketAccess* const record = cached_access(service, "bucket");
  ASSERT_NE(record, nullptr);
  const std::string target = "/" + bobs;
  const std::string text =
      R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"111111111111"},)"
      R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::)" +
      bobs + R"(/*"}})";
  ASSERT_NE(cached_access(service, bobs), nullptr);
  EXPECT_EQ(as(bob_, "PUT", target + "?policy", text).status, 204);
  EXPECT_EQ(cached_access(service, bobs), nullptr) << "its own is stale";
  EXPECT_EQ(status(alice_, "GET", target + "/key"), 200) << "what was allowed counts at once";
  EXPECT_EQ(status(bob_, "DELETE", target + "?policy"), 204);
  EXPECT_EQ(status(alice_, "GET", target + "/key"), 403) << "what is not allowed any more, too";
  EXPECT_EQ(as(bob_, "PUT", target + "?acl", "", {{"x-amz-acl", "private"}}).status, 200);
  EXPECT_EQ(as(bob_, "DELETE", target + "/key").status, 204);
  EXPECT_EQ(as(bob_, "DELETE", target).status, 204);
  EXPECT_EQ(cached_access(service, "bucket"), record);
  service.access->owner_changed("bob");
  EXPECT_EQ(cached_access(service, "bucket"), record) << "another account's limits";
  service.access->owner_changed("alice");
  EXPECT_EQ(cached_access(service, "bucket"), nullptr) << "its owner's limits";
}

// A right that was decided for one owner's bucket was another's by the sum of its counts.
TEST_F(AccessTest, MarksOfTwoOwnersAreNotTheSame) {
  service.access->owner_changed("alice");
  ASSERT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  const AccessGeneration::Mark alices = run(bucket_access(service, "bucket")).value()->mark;
  const AccessGeneration::Mark bobs{.bucket = alices.bucket,
                                    .owner = AccessGeneration::Place(static_cast<uint16_t>(alices.owner) ^ 1),
                                    .number = alices.number};
  EXPECT_TRUE(alices == alices);
  EXPECT_FALSE(alices == bobs);
}

TEST_F(AccessTest, BucketsAreListedToTheirOwner) {
  EXPECT_EQ(as(alice_, "GET", "/").count("<Bucket>"), 1u);
  EXPECT_EQ(as(alice_, "GET", "/").element("DisplayName"), "alice-name");
  EXPECT_EQ(as(bob_, "GET", "/").count("<Bucket>"), 0u);
  EXPECT_EQ(status(nobody_, "GET", "/"), 403);
  EXPECT_EQ(as(bob_, "PUT", "/bucket").code, "BucketAlreadyExists");
  EXPECT_EQ(as(alice_, "PUT", "/bucket").status, 200);
}

TEST_F(AccessTest, AWriterNeedsTheRightToWhatComesWithTheObject) {
  const auto writer = user_of(alice, "writer", R"({"Effect":"Allow","Action":"s3:PutObject","Resource":"*"})");
  EXPECT_EQ(status(writer, "PUT", "/bucket/new"), 200);
  EXPECT_EQ(status(writer, "PUT", "/bucket/new", {{"x-amz-acl", "private"}}), 200);
  EXPECT_EQ(status(writer, "PUT", "/bucket/new", {{"x-amz-acl", "public-read"}}), 403);
  EXPECT_EQ(status(writer, "PUT", "/bucket/new", {{"x-amz-tagging", "a=b"}}), 403);
}

// What is said of the whole bucket is what would be said of each object, or nothing.
TEST_F(AccessTest, WhoMayReadAllOfABucketMayReadEachOfItsObjects) {
  const std::string all = R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})";
  const auto deny = [](const std::string& resource) {
    return R"({"Effect":"Deny","Action":"s3:GetObject","Resource":")" + resource + R"("})";
  };
  struct Case {
    auth::PrincipalPtr who;
    bool all;
  };
  const auto user = [](const std::string& statements) { return user_of(alice, "user", statements); };
  const Case cases[] = {
      {alice_, true},
      {auth::superuser(), true},
      {bob_, false},
      {user(all), true},
      {user(""), false},
      {user(R"({"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"})"), true},
      {user(R"({"Effect":"Allow","Action":"s3:PutObject","Resource":"*"})"), false},
      {user(R"({"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/a*"})"), false},
      {user("[" + all + "," + deny("arn:aws:s3:::bucket/secret/*") + "]"), false},
      {user("[" + all + "," + deny("arn:aws:s3:::other/*") + "]"), true},
      {user("[" + all + "," + deny("*") + "]"), false},
      {user(R"({"Effect":"Allow","Action":"s3:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"true"}}})"),
       false}};
  const std::string policies[] = {"", allow("\"*\"", "s3:GetObject"),
                                  R"({"Effect":"Deny","Principal":"*","Action":"s3:GetObject",)"
                                  R"("Resource":"arn:aws:s3:::bucket/secret/*"})"};
  for (const std::string& policy_text : policies) {
    if (!policy_text.empty()) EXPECT_EQ(policy(policy_text).status, 204);
    const BucketAccessPtr access = run(bucket_access(service, "bucket")).value();
    int wholly = 0;
    for (size_t i = 0; i < std::size(cases); ++i) {
      Call caller;
      caller.identity.principal = cases[i].who;
      caller.identity.anonymous = false;
      const bool whole = authorize_all(service, caller, *access, action::get_object);
      wholly += whole ? 1 : 0;
      if (policy_text.empty()) EXPECT_EQ(whole, cases[i].all) << i;
      for (const char* key : {"a", "b", "secret/x", "z/long/name"}) {
        const store::ObjectInfo object;
        const bool one =
            authorize(service, caller, *access, {.action = action::get_object, .key = key, .object = &object})
                .has_value();
        if (whole) EXPECT_TRUE(one) << i << " " << key << " " << policy_text;
      }
    }
    // A bucket's policy that tells keys apart leaves only those whom no policy binds.
    if (&policy_text == &policies[2]) EXPECT_EQ(wholly, 0);
  }
  // Anonymous callers by the bucket's policy.
  EXPECT_EQ(policy(allow("\"*\"", "s3:GetObject")).status, 204);
  Call anonymous;
  anonymous.identity.anonymous = true;
  EXPECT_TRUE(authorize_all(service, anonymous, *run(bucket_access(service, "bucket")).value(), action::get_object));
}

TEST_F(AccessTest, AVersionThatIsNamedNeedsARightOfItsOwnFromEverybody) {
  const std::string on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
  ASSERT_EQ(as(alice_, "PUT", "/bucket?versioning", on).status, 200);
  ASSERT_EQ(as(alice_, "PUT", "/bucket/key", "newer").status, 200);
  as(alice_, "DELETE", "/bucket?publicAccessBlock");
  as(bob_, "PUT", "/bobs-bucket");
  const std::string all = R"("*")", read = allow(all, "s3:GetObject"), versions = allow(all, "s3:GetObjectVersion");
  const std::string deny = R"({"Effect":"Deny","Principal":"*","Action":"s3:GetObjectVersion","Resource":)"
                           R"("arn:aws:s3:::bucket/*"})";
  const auto expect = [&](const std::string& statements, int wanted) {
    ASSERT_EQ(policy("[" + statements + "]").status, 204);
    for (const char* method : {"GET", "HEAD"}) {
      EXPECT_EQ(status(nobody_, method, "/bucket/key"), 200) << method << statements;
      EXPECT_EQ(status(nobody_, method, "/bucket/key?versionId=null"), wanted) << method << statements;
    }
    const Headers copy = {{"x-amz-copy-source", "/bucket/key?versionId=null"}};
    EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", copy).status, wanted) << statements;
  };
  expect(read, 403);
  expect(read + "," + versions, 200);
  expect(read + "," + versions + "," + deny, 403);
}

TEST_F(AccessTest, AnObjectIsJudgedByTheRecordOfItsOwnBucket) {
  for (const char* method : {"GET", "HEAD"}) {
    as(alice_, "PUT", "/bucket");
    as(alice_, "PUT", "/bucket/key", "open");
    as(alice_, "DELETE", "/bucket?publicAccessBlock");
    ASSERT_EQ(policy(allow(R"("*")", "s3:GetObject")).status, 204);
    ASSERT_EQ(status(nobody_, method, "/bucket/key"), 200);
    store.before_look_up = [&] {
      EXPECT_EQ(status(alice_, "DELETE", "/bucket/key"), 204);
      EXPECT_EQ(status(alice_, "DELETE", "/bucket"), 204);
      EXPECT_EQ(as(bob_, "PUT", "/bucket").status, 200);
      EXPECT_EQ(as(bob_, "PUT", "/bucket/key", "bob's own").status, 200);
      service.access->all_changed();  // as on another thread: this one has no record of the new bucket
    };
    EXPECT_GE(status(nobody_, method, "/bucket/key"), 403) << method;
    EXPECT_EQ(status(bob_, "DELETE", "/bucket/key"), 204);
    EXPECT_EQ(status(bob_, "DELETE", "/bucket"), 204);
  }
}

TEST_F(AccessTest, AChangeIsOfTheVersionThatWasAskedAbout) {
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:PutObjectTagging",
                         R"(,"Condition":{"StringEquals":{"s3:ExistingObjectTag/open":"yes"}})"))
                .status,
            204);
  const Headers open = {{"x-amz-tagging", "open=yes"}};
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", open), 200);
  const std::string tags = "<Tagging><TagSet><Tag><Key>open</Key><Value>bob</Value></Tag></TagSet></Tagging>";
  store::Tags written;
  store.before_update = [&]() -> Task<> {
    auto writer = co_await store.create("bucket", "key", 0);
    store::ObjectInfo info;
    info.tags = written;
    store::CommitConditions none;
    EXPECT_TRUE(co_await (*writer)->commit(std::move(info), std::move(none)));
  };
  const auto replace = store.before_update;
  EXPECT_EQ(as(bob_, "PUT", "/bucket/key?tagging", tags).code, "AccessDenied");
  EXPECT_EQ(as(alice_, "GET", "/bucket/key?tagging").count("<Tag>"), 0U);
  // Where the version that came in between may be changed by the caller, the change goes through.
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", open), 200);
  written = {{"open", "yes"}};
  store.before_update = replace;
  EXPECT_EQ(as(bob_, "PUT", "/bucket/key?tagging", tags).status, 200);
  EXPECT_EQ(as(alice_, "GET", "/bucket/key?tagging").element("Value"), "bob");
  store.before_update = replace;
  EXPECT_EQ(as(alice_, "PUT", "/bucket/key?acl", acl("alice", grant_to("bob", "READ"))).code,
            "ConditionalRequestConflict");
}

TEST_F(AccessTest, DeletesAreRefusedKeyByKey) {
  EXPECT_EQ(
      policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::bucket/a*"})")
          .status,
      204);
  const std::string text = "<Delete><Object><Key>a1</Key></Object><Object><Key>key</Key></Object></Delete>";
  const Reply reply =
      as(bob_, "POST", "/bucket?delete", text, {{"content-md5", test::base64_digest(Algorithm::md5, text)}});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.count("<Deleted><Key>a1</Key></Deleted>"), 1u) << reply.body;
  EXPECT_EQ(reply.count("<Error><Key>key</Key><Code>AccessDenied</Code>"), 1u) << reply.body;
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
}

TEST_F(AccessTest, ACopyAsksAtBothEnds) {
  as(bob_, "PUT", "/bobs-bucket");
  const Headers from_alice = {{"x-amz-copy-source", "/bucket/key"}};
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", from_alice).status, 403);
  EXPECT_EQ(as(bob_, "PUT", "/bucket/copy", "", {{"x-amz-copy-source", "/bobs-bucket/none"}}).status, 404);
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:GetObject")).status, 204);
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", from_alice).status, 200);
  EXPECT_EQ(as(bob_, "PUT", "/bucket/copy", "", {{"x-amz-copy-source", "/bobs-bucket/copy"}}).status, 403);
}

TEST_F(AccessTest, ACopyTakesTagsFromWhoMayReadThem) {
  as(bob_, "PUT", "/bobs-bucket");
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"x-amz-tagging", "team=red"}}), 200);
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:GetObject")).status, 204);
  Headers copy = {{"x-amz-copy-source", "/bucket/key"}};
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", copy).code, "AccessDenied");
  copy.emplace_back("x-amz-tagging-directive", "REPLACE");
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", copy).status, 200);
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:GetObject*")).status, 204);
  copy.pop_back();
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", copy).status, 200);
  EXPECT_THAT(as(bob_, "GET", "/bobs-bucket/copy?tagging").body, ::testing::HasSubstr("red"));
}

TEST_F(AccessTest, UploadsBelongToWhoBeganThem) {
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:PutObject")).status, 204);
  const Reply begun = as(bob_, "POST", "/bucket/big?uploads", "", {{"x-amz-acl", "public-read"}});
  ASSERT_EQ(begun.status, 200);
  const std::string id = begun.element("UploadId");
  EXPECT_EQ(as(nobody_, "PUT", "/bucket/big?partNumber=1&uploadId=" + id, "x").status, 403);
  const Reply part = as(bob_, "PUT", "/bucket/big?partNumber=1&uploadId=" + id, "x");
  ASSERT_EQ(part.status, 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/big?uploadId=" + id), 403);
  EXPECT_EQ(as(alice_, "GET", "/bucket?uploads").count("<ID>bob</ID>"), 2u);
  EXPECT_EQ(status(bob_, "DELETE", "/bucket/big?uploadId=" + id), 403);
  const std::string text = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.header("etag") +
                           "</ETag></Part></CompleteMultipartUpload>";
  EXPECT_EQ(as(nobody_, "POST", "/bucket/big?uploadId=" + id, text).status, 403);
  EXPECT_EQ(as(bob_, "POST", "/bucket/big?uploadId=" + id, text).status, 200);
  EXPECT_EQ(as(bob_, "GET", "/bucket/big?acl").element("ID"), "bob");
  EXPECT_EQ(status(nobody_, "GET", "/bucket/big"), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/big?acl", {{"x-amz-acl", "private"}}), 403);
}

TEST_F(AccessTest, OnlyWhoMayBypassesGovernance) {
  EXPECT_EQ(as(alice_, "PUT", "/locked", "", {{"x-amz-bucket-object-lock-enabled", "true"}}).status, 200);
  const Reply put =
      as(alice_, "PUT", "/locked/key", "x",
         {{"x-amz-object-lock-mode", "GOVERNANCE"}, {"x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z"}});
  ASSERT_EQ(put.status, 200);
  const std::string version = "/locked/key?versionId=" + put.header("x-amz-version-id");
  const auto deleter = user_of(alice, "deleter", R"({"Effect":"Allow","Action":"s3:Delete*","Resource":"*"})");
  const auto auditor =
      user_of(alice, "auditor", R"({"Effect":"Allow","Action":["s3:Delete*","s3:Bypass*"],"Resource":"*"})");
  const Headers bypass = {{"x-amz-bypass-governance-retention", "true"}};
  EXPECT_EQ(status(deleter, "DELETE", version, bypass), 403);
  EXPECT_EQ(status(auditor, "DELETE", version), 403);
  EXPECT_EQ(status(auditor, "DELETE", version, bypass), 204);
}

// With a line end inside it was malformed.
TEST_F(AccessTest, AnEmptyRetentionRemovesOneHoweverItIsPrinted) {
  EXPECT_EQ(as(alice_, "PUT", "/locked", "", {{"x-amz-bucket-object-lock-enabled", "true"}}).status, 200);
  for (const char* const text : {"<Retention/>", "<Retention>\n  \n</Retention>", "<Retention>x</Retention>"}) {
    const Reply put =
        as(alice_, "PUT", "/locked/key", "x",
           {{"x-amz-object-lock-mode", "GOVERNANCE"}, {"x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z"}});
    const std::string retention = "/locked/key?retention&versionId=" + put.header("x-amz-version-id");
    const Headers bypass = {{"x-amz-bypass-governance-retention", "true"},
                            {"content-md5", base64_digest(Algorithm::md5, text)}};
    const bool empty = std::string_view(text).find('x') == std::string_view::npos;
    EXPECT_EQ(as(alice_, "PUT", retention, text, bypass).status, empty ? 200 : 400) << text;
    EXPECT_EQ(as(alice_, "GET", retention).status, empty ? 404 : 200) << text;
  }
}

// The difference between 404 and 412 showed callers with no right to read which keys exist.
TEST_F(AccessTest, AConditionOnWhatIsThereNeedsTheRightToReadIt) {
  const auto writer =
      user_of(alice, "writer", R"({"Effect":"Allow","Action":["s3:PutObject","s3:DeleteObject"],"Resource":"*"})");
  const auto both = user_of(
      alice, "both", R"({"Effect":"Allow","Action":["s3:PutObject","s3:DeleteObject","s3:GetObject"],"Resource":"*"})");
  as(alice_, "PUT", "/bucket/from", "text");
  const std::string tag = as(alice_, "GET", "/bucket/key").header("etag");
  const Headers copy = {{"x-amz-copy-source", "/bucket/from"}};
  const auto with = [](Headers headers, const char* name, const std::string& value) {
    headers.emplace_back(name, value);
    return headers;
  };
  for (const char* key : {"/bucket/key", "/bucket/none"}) {
    const std::string target = key;
    for (const std::string& value : {std::string("\"x\""), std::string("*"), tag}) {
      EXPECT_EQ(as(writer, "PUT", target, "x", {{"if-match", value}}).code, "AccessDenied") << key << value;
      EXPECT_EQ(as(writer, "DELETE", target, "", {{"if-match", value}}).code, "AccessDenied") << key << value;
    }
    EXPECT_EQ(as(writer, "PUT", target, "x", {{"if-none-match", tag}}).code, "AccessDenied") << key;
    EXPECT_EQ(as(writer, "PUT", target, "", with(copy, "if-match", "*")).code, "AccessDenied") << key;
    EXPECT_EQ(as(writer, "DELETE", target, "", {{"x-amz-if-match-size", "1"}}).code, "AccessDenied") << key;
    const std::string id = as(alice_, "POST", target + "?uploads").element("UploadId");
    EXPECT_EQ(as(writer, "POST", target + "?uploadId=" + id, "<x/>", {{"if-match", "*"}}).code, "AccessDenied") << key;
    const std::string text = "<Delete><Object><Key>" + target.substr(8) + "</Key><ETag>x</ETag></Object></Delete>";
    const Headers digest = {{"content-md5", base64_digest(Algorithm::md5, text)}};
    EXPECT_EQ(as(writer, "POST", "/bucket?delete", text, digest).element("Code"), "AccessDenied") << key;
  }
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").body, "text");
  EXPECT_EQ(as(writer, "PUT", "/bucket/key", "x", {{"if-none-match", "*"}}).status, 412) << "as AWS";
  EXPECT_EQ(as(both, "PUT", "/bucket/key", "x", {{"if-match", "\"x\""}}).status, 412);
  EXPECT_EQ(as(both, "PUT", "/bucket/key", "new", {{"if-match", tag}}).status, 200);
  EXPECT_EQ(as(both, "PUT", "/bucket/none", "x", {{"if-match", tag}}).code, "AccessDenied") << "may not list";
  EXPECT_EQ(as(alice_, "PUT", "/bucket/none", "x", {{"if-match", tag}}).code, "NoSuchKey");
}

TEST_F(AccessTest, AnotherOwnerThanExpectedIsRefused) {
  EXPECT_EQ(status(alice_, "GET", "/bucket/key", {{"x-amz-expected-bucket-owner", "111111111111"}}), 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key", {{"x-amz-expected-bucket-owner", "222222222222"}}), 403);
}

// An append's offset is an answer about what is there. The tags that deny reading it were not looked at.
TEST_F(AccessTest, AnAppendTellsNothingOfAnObjectThatItsTagsHide) {
  ASSERT_EQ(as(alice_, "PUT", "/appends", "", {{"x-verbena-append", "enabled"}}).status, 200);
  as(alice_, "PUT", "/appends/plain", "text");
  as(alice_, "PUT", "/appends/secret", "text", {{"x-amz-tagging", "class=secret"}});
  const std::string objects = R"("Resource":"arn:aws:s3:::appends/*")";
  const auto clerk = user_of(alice, "clerk",
                             R"([{"Effect":"Allow","Action":["s3:PutObject","s3:GetObject"],)" + objects +
                                 R"(},{"Effect":"Deny","Action":"s3:GetObject",)" + objects +
                                 R"(,"Condition":{"StringEquals":{"s3:ExistingObjectTag/class":"secret"}}}])");
  const auto append = [&](const char* key, const char* offset) {
    return as(clerk, "PUT", std::string("/appends/") + key, "more", {{"x-amz-write-offset-bytes", offset}});
  };
  EXPECT_EQ(append("plain", "9").code, "InvalidWriteOffset");
  EXPECT_EQ(append("plain", "4").status, 200);
  EXPECT_EQ(append("secret", "9").code, "AccessDenied");
  EXPECT_EQ(append("secret", "4").code, "AccessDenied");
}

// Neither were its owner and its ACL.
TEST_F(AccessTest, AnAppendTellsNothingOfAnotherAccountsObject) {
  const Headers both = {{"x-verbena-append", "enabled"}, {"x-amz-object-ownership", "ObjectWriter"}};
  ASSERT_EQ(as(alice_, "PUT", "/appends", "", both).status, 200);
  const std::string bob_writes =
      R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"222222222222"},)"
      R"("Action":"s3:PutObject","Resource":"arn:aws:s3:::appends/*"}})";
  ASSERT_EQ(as(alice_, "PUT", "/appends?policy", bob_writes).status, 204);
  ASSERT_EQ(as(alice_, "PUT", "/appends/own", "text").status, 200);
  ASSERT_EQ(as(bob_, "PUT", "/appends/bobs", "text").status, 200);
  const auto clerk =
      user_of(alice, "clerk", R"({"Effect":"Allow","Action":["s3:PutObject","s3:GetObject"],"Resource":"*"})");
  const auto append = [&](const char* key, const char* offset) {
    return as(clerk, "PUT", std::string("/appends/") + key, "more", {{"x-amz-write-offset-bytes", offset}}).code;
  };
  ASSERT_EQ(status(clerk, "GET", "/appends/bobs"), 403);
  EXPECT_EQ(append("own", "9"), "InvalidWriteOffset");
  EXPECT_EQ(append("bobs", "9"), "AccessDenied");
  EXPECT_EQ(append("bobs", "4"), "AccessDenied");
}

}  // namespace
}  // namespace verbena::s3
