// Authorization before a body is read, and again after it.
#include <array>

#include "s3/access/authorize.h"
#include "s3/access/test_access.h"

namespace verbena::s3 {
namespace {

using test::alice;
using test::base64_digest;
using test::Reply;
using test::TestCall;
using test::user_of;

class LateBodyTest : public test::AccessRig {};

TEST_F(LateBodyTest, ABodyThatComesLateFindsWhatHoldsThen) {
  as(alice_, "PUT", "/logs");
  TestCall late;
  late.method = "PUT";
  late.principal = alice_;
  late.meanwhile = [this]() -> Task<> {
    EXPECT_TRUE(co_await store.remove_bucket("logs"));
    store::BucketInfo bobs;
    bobs.name = "logs";
    bobs.owner = "bob";
    EXPECT_TRUE(co_await store.create_bucket(std::move(bobs)));
    service.access->all_changed();
  };
  late.target = "/logs?policy";
  late.body = R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",)"
              R"("Resource":"arn:aws:s3:::logs/*"}})";
  EXPECT_EQ(call(late).code, "NoSuchBucket");
  EXPECT_EQ(as(bob_, "GET", "/logs?policy").code, "NoSuchBucketPolicy");

  // The same for operations that authorize by themselves, and when the bucket's name still has the same owner.
  as(alice_, "PUT", "/bucket/tagged", "text");
  const auto user = user_of(alice, "late", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  const std::string denial = R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*",)"
                             R"("Action":["s3:PutBucket*","s3:PutObject*","s3:DeleteObject"],)"
                             R"("Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}})";
  late.principal = user;
  late.meanwhile = [&]() -> Task<> {
    EXPECT_TRUE(co_await store.set_document("bucket", "policy", denial));
    service.access->all_changed();
  };
  const std::string tags = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>";
  const std::vector<std::pair<std::string, std::string>> documents = {
      {"/bucket?tagging", tags},
      {"/bucket/key?tagging", tags},
      {"/bucket?acl", acl("alice", grant_to("bob", "READ"))},
      {"/bucket/key?acl", acl("alice", grant_to("bob", "READ"))},
      {"/bucket?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"}};
  for (const auto& [target, body] : documents) {
    as(alice_, "DELETE", "/bucket?policy");
    late.target = target;
    late.body = body;
    EXPECT_EQ(call(late).code, "AccessDenied") << target;
  }
  as(alice_, "DELETE", "/bucket?policy");
  EXPECT_EQ(as(alice_, "GET", "/bucket?tagging").code, "NoSuchTagSet");
  EXPECT_EQ(as(bob_, "GET", "/bucket/key").code, "AccessDenied");
}

// 300 unauthenticated DeleteObjects requests held 1.2 GB: the document was read before authorization.
TEST_F(LateBodyTest, TheDocumentOfWhoMayDoNothingWithItIsNotRead) {
  const auto reader = user_of(alice, "reader", R"({"Effect":"Allow","Action":"s3:GetObject","Resource":"*"})");
  const auto elsewhere =
      user_of(alice, "elsewhere",
              R"({"Effect":"Allow","Action":"s3:*","Resource":["arn:aws:s3:::other*","arn:aws:s3:::b/*"]})");
  const auto limited = std::make_shared<auth::Principal>(*alice_);
  limited->session = reader->policies;
  const std::string id = as(alice_, "POST", "/bucket/big?uploads").element("UploadId");
  std::vector<std::pair<std::string, std::string>> verbs = {
      {"POST", "/bucket?delete"}, {"POST", "/bucket/big?uploadId=" + id}, {"PUT", "/fresh"}, {"PUT", "/bucket/key"}};
  for (const char* target :
       {"?policy", "?acl", "?cors", "?lifecycle", "?logging", "?tagging", "?versioning", "?encryption", "?object-lock",
        "?ownershipControls", "?publicAccessBlock", "?notification", "?accelerate", "?requestPayment", "/key?acl",
        "/key?tagging", "/none?tagging", "/key?retention", "/key?legal-hold"}) {
    verbs.emplace_back("PUT", std::string("/bucket") + target);
  }
  verbs.emplace_back("PUT", "/bucket/big?partNumber=1&uploadId=" + id);
  for (const auth::PrincipalPtr& who : {nobody_, bob_, reader, elsewhere, auth::PrincipalPtr(limited)}) {
    for (const auto& [method, target] : verbs) {
      if (who == bob_ && target == "/fresh") continue;  // which it may create
      bool read = false;
      TestCall c;
      c.method = method;
      c.target = target;
      c.anonymous = who == nullptr;
      c.principal = who;
      c.body = "<x/>";
      c.headers = {{"content-md5", base64_digest(Algorithm::md5, c.body)}};
      c.meanwhile = [&read]() -> Task<> {
        read = true;
        co_return;
      };
      const Reply reply = call(c);
      EXPECT_EQ(reply.code, "AccessDenied") << method << " " << target;
      EXPECT_FALSE(read) << method << " " << target;
    }
  }
}

// Between the last authorization and the change is a wait, too: for another thread, or for the store.
TEST_F(LateBodyTest, WhatIsChangedIsTheBucketThatItWasAuthorizedFor) {
  const auto bobs_now = [this] {
    store.replace_bucket("logs", "bob");
    service.access->all_changed();
  };
  const auto replaced_before_the_change = [&] {
    EXPECT_EQ(as(alice_, "PUT", "/logs").status, 200);
    store.before_bucket_change = bobs_now;
  };
  const std::string statement = R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*",)"
                                R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::logs/*"}})";
  const std::vector<std::array<std::string, 3>> changes = {
      {"PUT", "/logs?policy", statement},
      {"DELETE", "/logs?policy", ""},
      {"PUT", "/logs?tagging", "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"},
      {"PUT", "/logs?acl", acl("alice", grant_to("bob", "READ"))},
      {"PUT", "/logs?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"},
      {"PUT", "/logs?lifecycle",
       "<LifecycleConfiguration><Rule><ID>all</ID><Status>Enabled</Status><Filter/>"
       "<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>"}};
  for (const auto& [method, target, body] : changes) {
    replaced_before_the_change();
    const auto digest = body.empty() ? Headers{} : Headers{{"content-md5", base64_digest(Algorithm::md5, body)}};
    EXPECT_EQ(as(alice_, method, target, body, digest).code, "NoSuchBucket") << method << " " << target;
    EXPECT_FALSE(store.before_bucket_change) << method << " " << target;
    EXPECT_EQ(as(bob_, "GET", "/logs?lifecycle").code, "NoSuchLifecycleConfiguration") << target;
    EXPECT_EQ(as(bob_, "GET", "/logs?policy").code, "NoSuchBucketPolicy") << target;
    EXPECT_EQ(as(bob_, "GET", "/logs?tagging").code, "NoSuchTagSet") << target;
    EXPECT_EQ(as(bob_, "GET", "/logs?versioning").count("Enabled"), 0u) << target;
    EXPECT_EQ(as(bob_, "DELETE", "/logs").status, 204) << target;
  }
  // The properties of a new bucket are set after it: by then the name may be another's, too.
  store.before_bucket_change = bobs_now;
  EXPECT_EQ(as(alice_, "PUT", "/logs", "", {{"x-amz-grant-full-control", "id=alice"}}).code, "NoSuchBucket");
  EXPECT_EQ(as(alice_, "GET", "/logs?acl").code, "AccessDenied");
  EXPECT_EQ(as(bob_, "PUT", "/logs/key", "text").status, 200);
  // An object is removed from the bucket that the removal was authorized for.
  EXPECT_EQ(as(bob_, "DELETE", "/logs/key").status, 204);
  EXPECT_EQ(as(bob_, "DELETE", "/logs").status, 204);
  EXPECT_EQ(as(alice_, "PUT", "/logs").status, 200);
  store.while_removed = bobs_now;
  EXPECT_EQ(as(alice_, "DELETE", "/logs/key").code, "NoSuchBucket");
}

// The header is there so that no other account's bucket is met, also not one that is made a moment later.
TEST_F(LateBodyTest, ABucketThatIsNotThereIsNotTheExpectedOwners) {
  const Headers expects = {{"x-amz-expected-bucket-owner", "111111111111"}};
  store.after_missing_bucket = [this] {
    store.replace_bucket("later", "bob");
    store.document("later", "policy",
                   R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*",)"
                   R"("Action":"s3:PutObject","Resource":"arn:aws:s3:::later/*"}})");
    service.access->all_changed();
  };
  EXPECT_EQ(as(alice_, "PUT", "/later/key", "text", expects).code, "NoSuchBucket");
  EXPECT_EQ(as(alice_, "PUT", "/later/key", "text", expects).code, "AccessDenied");
  EXPECT_EQ(as(alice_, "PUT", "/later/key", "text").status, 200);
  EXPECT_EQ(as(alice_, "PUT", "/own", "", expects).status, 200);
}

// A client whose first answer was lost asks again, and a user is not its account's root.
TEST_F(LateBodyTest, ACreationThatIsRepeatedIsAnsweredAsTheFirst) {
  const auto user = user_of(alice, "maker", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  const Headers settings = {{"x-verbena-append", "enabled"}, {"x-verbena-etag", "fast"}};
  EXPECT_EQ(as(user, "PUT", "/made", "", settings).status, 200);
  EXPECT_EQ(as(user, "PUT", "/made", "", settings).status, 200);
  EXPECT_EQ(as(user, "PUT", "/made", "", {{"x-verbena-append", "disabled"}}).code, "AccessDenied");
  EXPECT_EQ(as(user, "PUT", "/made", "", {{"x-verbena-etag", "md5"}}).code, "AccessDenied");
}

TEST_F(LateBodyTest, ADocumentIsReadOfWhoMayDoSomethingThatItCouldNameByACondition) {
  const auto deletes = [](const std::string& key) {
    return "<Delete><Object><Key>" + key + "</Key></Object></Delete>";
  };
  const auto remove = [&](const auth::PrincipalPtr& who, const std::string& key) {
    const std::string body = deletes(key);
    return as(who, "POST", "/bucket?delete", body, {{"content-md5", base64_digest(Algorithm::md5, body)}});
  };
  for (const char* resource :
       {"arn:aws:s3:::bucket/mine/*", "arn:aws:s3:::buck*", "arn:aws:s3:::*/mine/*", "*", "arn:aws:s3:::bucke?/mine/*",
        "arn:aws:s3:::b*y/mine/a", "arn:aws:s3:::${aws:username}/*"}) {
    const auto user =
        user_of(alice, "bucket",
                R"({"Effect":"Allow","Action":"s3:DeleteObject*","Resource":")" + std::string(resource) + "\"}");
    EXPECT_EQ(remove(user, "mine/a").status, 200) << resource;
  }
  EXPECT_EQ(policy(allow("\"*\"", "s3:DeleteObjectVersion")).status, 204);
  const Reply one_by_one = remove(nobody_, "a");
  EXPECT_EQ(one_by_one.status, 200);
  EXPECT_EQ(one_by_one.count("AccessDenied"), 1u) << "each key by itself";
  const std::string of_a_version = "<Delete><Object><Key>a</Key><VersionId>null</VersionId></Object></Delete>";
  const Reply removed = as(nobody_, "POST", "/bucket?delete", of_a_version,
                           {{"content-md5", base64_digest(Algorithm::md5, of_a_version)}});
  EXPECT_EQ(removed.count("<Deleted>"), 1u);
  EXPECT_EQ(
      policy(allow("\"*\"", "s3:PutObjectTagging", R"(,"Condition":{"StringEquals":{"s3:RequestObjectTag/a":"b"}})"))
          .status,
      204);
  const std::string tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
  EXPECT_EQ(as(nobody_, "PUT", "/bucket/key?tagging", tags).status, 200);
  EXPECT_EQ(remove(nobody_, "a").code, "AccessDenied");
}

// A store of one key, which can be removed or replaced.
class OneKey : public auth::CredentialStore {
 public:
  explicit OneKey(auth::AccessKey key) : key_(std::make_shared<const auth::AccessKey>(std::move(key))) {}
  Result<auth::AccessKeyPtr> find(std::string_view, std::string_view, int64_t) const override {
    if (key_ == nullptr) return fail(Errc::invalid_access_key_id, "test");
    return key_;
  }
  auth::AccessKeyPtr key() const { return key_; }
  void replace(auth::AccessKeyPtr key) {
    key_ = std::move(key);
    changed();
  }

 private:
  auth::AccessKeyPtr key_;
};

TEST_F(LateBodyTest, WhoMayNotWriteAnyMoreWhenTheBodyHasComeStoresNothing) {
  const auto writer = user_of(alice, "writer", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  const auth::AccessKey first{{"AKID", "SECRET", ""}, writer};
  const auto changes = std::to_array<std::pair<const char*, std::function<void(OneKey&)>>>(
      {{"InvalidAccessKeyId", [](OneKey& keys) { keys.replace(nullptr); }},
       {"InvalidAccessKeyId",
        [&](OneKey& keys) {
          keys.replace(std::make_shared<auth::AccessKey>(auth::AccessKey{{"AKID", "OTHER", ""}, writer}));
        }},
       {"AccessDenied",
        [&](OneKey& keys) {
          keys.replace(std::make_shared<auth::AccessKey>(auth::AccessKey{first.credentials, user_of(alice, "no", "")}));
        }},
       {"", [&](OneKey& keys) { keys.replace(std::make_shared<auth::AccessKey>(first)); }}});
  for (const auto& [code, change] : changes) {
    OneKey keys(first);
    service.credentials = &keys;
    TestCall late;
    late.method = "PUT";
    late.target = "/bucket/late";
    late.principal = writer;
    late.key = keys.key();
    late.body = "text";
    late.meanwhile = [&keys, happens = &change]() -> Task<> {
      (*happens)(keys);
      co_return;
    };
    EXPECT_EQ(call(late).code, code);
    service.credentials = nullptr;
    EXPECT_EQ(status(alice_, "GET", "/bucket/late"), *code == '\0' ? 200 : 404);
  }
  // A policy that was put meanwhile applies, too.
  TestCall late;
  late.method = "PUT";
  late.target = "/bucket/denied";
  late.principal = writer;
  late.body = "text";
  late.meanwhile = [this]() -> Task<> {
    const std::string denial = R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*",)"
                               R"("Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*"}})";
    EXPECT_TRUE(co_await store.set_document("bucket", "policy", denial));
    service.access->all_changed();
  };
  EXPECT_EQ(call(late).code, "AccessDenied");
  EXPECT_EQ(status(alice_, "GET", "/bucket/denied"), 404);
}

// Copies of 1 GiB were stored for a key that had been disabled during the transfer.
TEST_F(LateBodyTest, WhoMayNotCopyAnyMoreWhenTheBytesAreThereStoresNothing) {
  const auto writer = user_of(alice, "writer", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  const auto only_writes = user_of(alice, "writer", R"({"Effect":"Allow","Action":"s3:PutObject","Resource":"*"})");
  const auto only_reads = user_of(alice, "writer", R"({"Effect":"Allow","Action":"s3:GetObject","Resource":"*"})");
  const auth::AccessKey first{{"AKID", "SECRET", ""}, writer};
  const std::string id = as(alice_, "POST", "/bucket/big?uploads").element("UploadId");
  const auto with = [&](const auth::PrincipalPtr& who) {
    return [&, who](OneKey& keys) {
      keys.replace(std::make_shared<auth::AccessKey>(auth::AccessKey{first.credentials, who}));
    };
  };
  const auto changes = std::to_array<std::pair<const char*, std::function<void(OneKey&)>>>(
      {{"InvalidAccessKeyId", [](OneKey& keys) { keys.replace(nullptr); }},
       {"AccessDenied", with(only_writes)},
       {"AccessDenied", with(only_reads)},
       {"", with(writer)}});
  for (const std::string& target : {std::string("/bucket/copy"), "/bucket/big?partNumber=1&uploadId=" + id}) {
    for (const auto& [code, change] : changes) {
      OneKey keys(first);
      service.credentials = &keys;
      TestCall copy;
      copy.method = "PUT";
      copy.target = target;
      copy.headers = {{"x-amz-copy-source", "bucket/key"}};
      copy.principal = writer;
      copy.key = keys.key();
      store.while_written = [&keys, happens = &change] { (*happens)(keys); };
      EXPECT_EQ(call(copy).code, code) << target;
      EXPECT_EQ(store.while_written, nullptr) << target;
      service.credentials = nullptr;
      const bool stored = status(alice_, "GET", "/bucket/copy") == 200 ||
                          as(alice_, "GET", "/bucket/big?uploadId=" + id).count("<ETag>") != 0;
      EXPECT_EQ(stored, *code == '\0') << target << " " << code;
    }
    as(alice_, "DELETE", "/bucket/copy");
  }
}

TEST_F(LateBodyTest, WhoMayRemoveNoMoreStopsInTheMiddleOfManyKeys) {
  const auto remover = user_of(alice, "remover", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  std::string body = "<Delete>";
  for (int i = 0; i < 200; ++i) {
    as(alice_, "PUT", "/bucket/many" + std::to_string(i), "x");
    body += "<Object><Key>many" + std::to_string(i) + "</Key></Object>";
  }
  body += "</Delete>";
  // Keys are authorized one by one; the first look-up that finds another credential is the last.
  class TurnedOff : public OneKey {
   public:
    using OneKey::OneKey;
    Result<auth::AccessKeyPtr> find(std::string_view a, std::string_view b, int64_t c) const override {
      if (++looks > 2) return fail(Errc::invalid_access_key_id, "test");
      return OneKey::find(a, b, c);
    }
    void change() { changed(); }
    mutable int looks = 0;
  };
  TurnedOff keys({{"AKID", "SECRET", ""}, remover});
  service.credentials = &keys;
  TestCall many;
  many.method = "POST";
  many.target = "/bucket?delete";
  many.headers = {{"content-md5", base64_digest(Algorithm::md5, body)}};
  many.body = body;
  many.principal = remover;
  many.key = keys.key();
  store.while_removed = [&] { keys.change(); };
  const Reply reply = call(many);
  service.credentials = nullptr;
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_GT(reply.count("<Deleted>"), 0u);
  EXPECT_GT(reply.count("<Code>InvalidAccessKeyId</Code>"), 100u);
}

TEST_F(LateBodyTest, WhoMayNotWriteIsNotToldWhatElseIsWrong) {
  const Headers wrong = {{"x-amz-tagging", "%"}};
  EXPECT_EQ(as(alice_, "PUT", "/bucket/new", "x", wrong).status, 400);
  EXPECT_EQ(as(bob_, "PUT", "/bucket/new", "x", wrong).status, 403);
}

}  // namespace
}  // namespace verbena::s3
