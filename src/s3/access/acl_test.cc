// Access control lists, object ownership and the public access block, tested through the router.
#include "s3/access/acl.h"
#include "s3/access/test_access.h"

namespace verbena::s3 {
namespace {

using test::alice;
using test::Reply;
using test::user_of;

class AclTest : public test::AccessRig {};

TEST_F(AclTest, CannedListsOpenABucketAndItsObjects) {
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket"), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/none"), 404);  // a caller that may list may know
  EXPECT_EQ(status(nobody_, "PUT", "/bucket/new"), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key?acl", {{"x-amz-acl", "authenticated-read"}}), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key?acl"), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read-write"}}), 200);
  EXPECT_EQ(status(nobody_, "PUT", "/bucket/new"), 200);
  EXPECT_EQ(status(bob_, "PUT", "/bucket/bobs"), 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/bobs"), 403);  // its writer owns it
  EXPECT_EQ(status(bob_, "GET", "/bucket/bobs"), 200);
  EXPECT_EQ(as(bob_, "GET", "/bucket/bobs?acl").element("ID"), "bob");
  EXPECT_EQ(as(alice_, "GET", "/bucket").count("<ID>bob</ID>"), 1u);
  EXPECT_EQ(status(bob_, "DELETE", "/bucket/bobs"), 204);
}

TEST_F(AclTest, TheOwnersGrantComesFirstInACannedList) {
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}), 200);
  const std::string body = as(alice_, "GET", "/bucket?acl").body;
  EXPECT_LT(body.find("FULL_CONTROL"), body.find("AllUsers"));
}

TEST_F(AclTest, GrantsOfHeadersAndDocuments) {
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-grant-read", "id=bob"}}), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket"), 200);
  EXPECT_EQ(
      as(alice_, "PUT", "/bucket?acl", acl("alice", grant_to("bob", "READ_ACP") + grant_to("alice", "FULL_CONTROL")))
          .status,
      200);
  EXPECT_EQ(status(bob_, "GET", "/bucket"), 403);
  const Reply read = as(bob_, "GET", "/bucket?acl");
  EXPECT_EQ(read.status, 200);
  EXPECT_EQ(read.count("<Grant>"), 2u);
  EXPECT_EQ(read.count("<DisplayName>bob-name</DisplayName>"), 1u);
  EXPECT_EQ(
      status(alice_, "PUT", "/bucket/key?acl", {{"x-amz-grant-full-control", "emailAddress=\"Bob@example.com\""}}),
      200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(as(bob_, "PUT", "/bucket/key?acl", acl("alice", grant_to("bob", "READ_ACP"))).status, 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key?acl"), 200);
}

TEST_F(AclTest, RefusesListsThatNameNoOne) {
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", acl("alice", grant_to("_foo", "READ"))).code, "InvalidArgument");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-grant-read", "emailAddress=x@y"}}).code,
            "UnresolvableGrantByEmailAddress");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", acl("bob", grant_to("bob", "READ"))).code, "AccessDenied");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "<x/>").code, "MalformedACLError");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", acl("alice", grant_to("bob", "EVERYTHING"))).code, "MalformedACLError");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-acl", "private"}, {"x-amz-grant-read", "id=bob"}}).code,
            "InvalidRequest");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-grant-read", "uri=http://example.com/x"}}).code,
            "InvalidArgument");
}

TEST_F(AclTest, AnOwnerWhoTakesItsOwnGrantsKeepsTheList) {
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", acl("alice", "")).status, 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new"), 403);
  EXPECT_EQ(status(alice_, "GET", "/bucket?acl"), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "private"}}), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new"), 200);
}

TEST_F(AclTest, EnforcedOwnershipKnowsNoLists) {
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read-write"}}), 200);
  EXPECT_EQ(status(bob_, "PUT", "/bucket/bobs"), 200);
  const std::string enforced =
      "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>";
  EXPECT_EQ(as(alice_, "PUT", "/bucket?ownershipControls", enforced).code, "InvalidBucketAclWithObjectOwnership");
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "private"}}), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key?acl", {{"x-amz-acl", "public-read"}}), 200);
  EXPECT_EQ(as(alice_, "PUT", "/bucket?ownershipControls", enforced).status, 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/bobs"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/bobs"), 403);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-acl", "public-read"}}).code, "AccessControlListNotSupported");
  EXPECT_EQ(as(alice_, "PUT", "/bucket/new", "x", {{"x-amz-acl", "public-read"}}).code,
            "AccessControlListNotSupported");
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new", {{"x-amz-acl", "bucket-owner-full-control"}}), 200);
}

TEST_F(AclTest, PreferredOwnershipTakesWhatIsGiven) {
  EXPECT_EQ(as(alice_, "PUT", "/mine", "",
               {{"x-amz-object-ownership", "BucketOwnerPreferred"}, {"x-amz-acl", "public-read-write"}})
                .status,
            200);
  EXPECT_EQ(status(bob_, "PUT", "/mine/given", {{"x-amz-acl", "bucket-owner-full-control"}}), 200);
  EXPECT_EQ(status(bob_, "PUT", "/mine/kept"), 200);
  EXPECT_EQ(as(alice_, "GET", "/mine/given?acl").element("ID"), "alice");
  EXPECT_EQ(status(bob_, "GET", "/mine/given"), 403);
  EXPECT_EQ(status(alice_, "GET", "/mine/kept"), 403);
}

TEST_F(AclTest, AnUploadIsWhosTheObjectWillBe) {
  const std::string full = "bucket-owner-full-control";
  const std::string everybody = "\"*\"";
  const std::pair<const char*, const char*> cases[] = {
      {"BucketOwnerEnforced", "alice"}, {"BucketOwnerPreferred", "alice"}, {"ObjectWriter", "bob"}};
  for (const auto& [ownership, owner] : cases) {
    ASSERT_EQ(as(alice_, "PUT", "/bucket?ownershipControls",
                 std::string("<OwnershipControls><Rule><ObjectOwnership>") + ownership +
                     "</ObjectOwnership></Rule></OwnershipControls>")
                  .status,
              200);
    ASSERT_EQ(policy(allow(everybody, "s3:*")).status, 204);
    const std::string id = as(bob_, "POST", "/bucket/up?uploads", "", {{"x-amz-acl", full}}).element("UploadId");
    const auto told = [](const Reply& r, const std::string& element) {
      const size_t at = r.body.find("<" + element + "><ID>");
      return at == std::string::npos ? r.body : r.body.substr(at + element.size() + 6, 5);
    };
    for (const Reply& r : {as(alice_, "GET", "/bucket/up?uploadId=" + id), as(alice_, "GET", "/bucket?uploads")}) {
      EXPECT_EQ(told(r, "Initiator").substr(0, 3), "bob") << ownership;
      EXPECT_EQ(told(r, "Owner").substr(0, std::strlen(owner)), owner) << ownership;
    }
    ASSERT_EQ(status(alice_, "DELETE", "/bucket/up?uploadId=" + id), 204);
  }
}

TEST_F(AclTest, ThePublicAccessBlockHolds) {
  const auto block = [&](const std::string& flag) {
    return as(alice_, "PUT", "/bucket?publicAccessBlock",
              "<PublicAccessBlockConfiguration><" + flag + ">true</" + flag + "></PublicAccessBlockConfiguration>")
        .status;
  };
  EXPECT_EQ(block("BlockPublicAcls"), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"x-amz-acl", "public-read"}}), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key?acl", {{"x-amz-acl", "authenticated-read"}}), 403);
  EXPECT_EQ(block("BlockPublicPolicy"), 200);
  EXPECT_EQ(policy(allow("\"*\"", "s3:GetObject")).code, "AccessDenied");
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:GetObject")).status, 204);
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket"), 200);
  EXPECT_EQ(block("IgnorePublicAcls"), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket"), 403);
  EXPECT_EQ(policy(allow("\"*\"", "s3:GetObject")).status, 204);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(block("RestrictPublicBuckets"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?publicAccessBlock"), 204);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 200);
}

TEST_F(AclTest, CreatingABucketTakesTheRightsToWhatItIsGiven) {
  const auto create = [](const std::string& more) {
    return R"({"Effect":"Allow","Action":["s3:CreateBucket")" + more + R"(],"Resource":"*"})";
  };
  const auto maker = user_of(alice, "maker", create(""));
  const auto keeper = user_of(alice, "keeper",
                              create(R"(,"s3:PutBucketAcl","s3:PutBucketOwnershipControls",)"
                                     R"("s3:PutBucketObjectLockConfiguration","s3:PutBucketVersioning")"));
  const std::vector<Headers> gifts = {{{"x-amz-acl", "public-read"}},
                                      {{"x-amz-object-ownership", "BucketOwnerPreferred"}},
                                      {{"x-amz-bucket-object-lock-enabled", "true"}}};
  for (const Headers& gift : gifts) {
    EXPECT_EQ(as(maker, "PUT", "/given", "", gift).code, "AccessDenied") << gift[0].first;
    EXPECT_EQ(as(keeper, "PUT", "/given", "", gift).status, 200) << gift[0].first;
    EXPECT_EQ(as(alice_, "DELETE", "/given").status, 204);
  }
  EXPECT_EQ(as(maker, "PUT", "/given").status, 200);
}

TEST_F(AclTest, CreatingABucketAgainIsNoWayAroundItsSettings) {
  const auto again = [&](const auth::PrincipalPtr& who, const std::string& name, const std::string& value) {
    return as(who, "PUT", "/bucket", "", {{name, value}}).code;
  };
  const auto lister =
      user_of(alice, "lister", R"({"Effect":"Allow","Action":["s3:CreateBucket","s3:PutBucketAcl"],"Resource":"*"})");
  EXPECT_EQ(again(lister, "x-amz-object-ownership", "BucketOwnerEnforced"), "AccessDenied");
  EXPECT_EQ(again(lister, "x-verbena-durability", "memory"), "AccessDenied");
  EXPECT_EQ(again(lister, "x-verbena-durability", "sync"), "");  // unchanged
  EXPECT_EQ(as(alice_, "PUT", "/bucket?publicAccessBlock",
               "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>"
               "</PublicAccessBlockConfiguration>")
                .status,
            200);
  EXPECT_EQ(again(alice_, "x-amz-acl", "public-read"), "AccessDenied");
  EXPECT_EQ(again(alice_, "x-amz-object-ownership", "BucketOwnerEnforced"), "");
  EXPECT_EQ(again(alice_, "x-amz-grant-read", "id=bob"), "AccessControlListNotSupported");
  EXPECT_EQ(again(alice_, "x-amz-object-ownership", "ObjectWriter"), "");
  EXPECT_EQ(again(lister, "x-amz-grant-read", "id=bob"), "");
  EXPECT_EQ(again(alice_, "x-amz-object-ownership", "BucketOwnerEnforced"), "InvalidBucketAclWithObjectOwnership");
  EXPECT_EQ(again(alice_, "x-verbena-durability", "memory"), "");
  EXPECT_EQ(as(auth::superuser(), "HEAD", "/bucket").header("x-verbena-durability"), "memory");
}

TEST(AclText, KeptTextComesBackAndForeignTextDoesNot) {
  const Acl acl{"alice",
                {{Grant::To::account, "bob", Permission::write_acp},
                 {Grant::To::all_users, "", Permission::read},
                 {Grant::To::authenticated_users, "", Permission::write},
                 {Grant::To::log_delivery, "", Permission::read_acp}}};
  EXPECT_EQ(decode_acl(encode_acl(acl)), acl);
  EXPECT_EQ(encoded_owner(encode_acl(acl)), "alice");
  for (const char* text : {"", "\nrA", "alice\n", "alice\nr", "alice\nxA", "alice\nrX", "alice\n\n"}) {
    EXPECT_FALSE(decode_acl(text)) << text;
  }
}

}  // namespace
}  // namespace verbena::s3
