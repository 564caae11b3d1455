// Looks at a write: what each of them says is missing, refused or settled.
#include "s3/objects/write_plan.h"

#include <gtest/gtest.h>

#include "auth/keyring.h"
#include "s3/access/test_access.h"

namespace verbena::s3::test {
namespace {

class WritePlanTest : public AccessRig {
 protected:
  WritePlanTest() {
    request.bucket = "bucket";
    request.key = "new";
  }
  Call call_of(const auth::PrincipalPtr& principal) {
    Call call;
    call.identity.principal = principal;
    call.identity.anonymous = principal == nullptr;
    call.door = Door::native;
    return call;
  }
  PlannedWrite write(std::optional<uint64_t> size = 5) { return planned(request, size); }
  Result<WritePlan> look(const WriteFacts& have, const auth::PrincipalPtr& who) {
    const PlannedWrite one = write();
    return plan_write(service, call_of(who), one, have);
  }
  WriteFacts with_access() {
    (void)run(bucket_access(service, "bucket"));
    return facts_at_hand(service, write());
  }
  Result<WritePlan> settled(const auth::PrincipalPtr& who) {
    const PlannedWrite one = write();
    const Call call = call_of(who);
    WriteFacts have;
    return run(settle_plan(service, call, one, have, plan_write(service, call, one, have)));
  }
  void encrypt_bucket() {
    const std::string rule =
        "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256"
        "</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";
    ASSERT_EQ(as(alice_, "PUT", "/bucket?encryption", rule).status, 200);
  }

  PutRequest request{};
};

TEST_F(WritePlanTest, TheFirstLookAnswersWhereTheRecordIsAtHand) {
  service.access->all_changed();
  EXPECT_EQ(facts_at_hand(service, write()).access, nullptr);
  EXPECT_EQ(look({}, alice_)->needs, WriteNeed::access);
  const auto plan = look(with_access(), alice_);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->needs, WriteNeed::nothing);
  EXPECT_EQ(plan->encryption.method, Encryption::none);
  EXPECT_EQ(look(with_access(), bob_).error(), Errc::access_denied);
}

TEST_F(WritePlanTest, WhatTheRequestSaysWronglyNeedsNothingToBeRefused) {
  request.key.clear();
  EXPECT_FALSE(look({}, alice_));
  request.key = "new";
  request.bucket = "../etc";
  EXPECT_EQ(look({}, alice_).error(), Errc::invalid_bucket_name);
  request.bucket = "bucket";
  request.headers = {{"x-amz-storage-class", "EXPRESS_ONEZONE"}};
  EXPECT_EQ(look({}, alice_).error(), Errc::invalid_storage_class);
}

TEST_F(WritePlanTest, ConditionsThatTellWhatIsThereNeedTheCurrentObject) {
  request.conditions.if_none_match = "*";
  WriteFacts have = with_access();
  EXPECT_EQ(look(have, alice_)->needs, WriteNeed::nothing) << "that one asks for no right to read";
  request.conditions.if_match = "etag";
  EXPECT_EQ(look(have, alice_)->needs, WriteNeed::current);
  have.current = run(service.store.stat("bucket", "new", ""));
  EXPECT_EQ(look(have, alice_)->needs, WriteNeed::nothing) << "the commit says that it is missing";
  request.key = "key";
  policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*"})");
  have = with_access();
  have.current = run(service.store.stat("bucket", "key", ""));
  EXPECT_EQ(look(have, bob_).error(), Errc::access_denied) << "bob may write the key but not read it";
}

TEST_F(WritePlanTest, TheBucketsDefaultEncryptionIsFetchedOnlyWhereItHasAny) {
  const auto keys = auth::KeyRing::in_memory();
  service.encryption.keys = keys.get();
  EXPECT_EQ(look(with_access(), alice_)->encryption.method, Encryption::none);
  service.encryption.by_default = true;
  EXPECT_EQ(look(with_access(), alice_)->encryption.method, Encryption::aes256);
  service.encryption.by_default = false;
  encrypt_bucket();
  EXPECT_EQ(look(with_access(), alice_)->needs, WriteNeed::encryption);
  EXPECT_EQ(settled(alice_)->encryption.method, Encryption::aes256);
  WriteFacts have = with_access();
  have.encryption.emplace();  // the rule went between the two
  EXPECT_EQ(look(have, alice_)->encryption.method, Encryption::none);
}

TEST_F(WritePlanTest, ALookMayBeRepeatedAndLeavesTheRequestAsItIs) {
  request.headers = {{"x-amz-storage-class", "STANDARD"}, {"x-amz-meta-a", "1"}};
  request.encryption.kms_key_id = "key";
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(look(with_access(), alice_));
    EXPECT_EQ(request.headers.size(), 2u) << "policies judge the class that it names";
    EXPECT_EQ(request.encryption.kms_key_id, "key");
  }
}

// As the engine over Ceph is.
class EndlessStore final : public store::in_memory::TestStore {
 public:
  using TestStore::TestStore;
  bool keeps_ends() const override { return false; }
};

TEST_F(WritePlanTest, ATtlIsRefusedBeforeTheBodyWhereTheStoreKeepsNone) {
  EndlessStore endless(*arena);
  Service of_it{.store = endless, .arena = *arena, .clock = system_clock()};
  request.headers = {{"x-verbena-ttl", "60"}};
  const PlannedWrite one = write();
  EXPECT_EQ(plan_write(of_it, call_of(alice_), one, {}).error(), Errc::not_implemented);
  ASSERT_TRUE(look(with_access(), alice_));
  request.headers = {{"x-verbena-ttl", "0"}};
  EXPECT_EQ(plan_write(of_it, call_of(alice_), one, {}).error(), Errc::invalid_argument);
  request.headers.clear();
  EXPECT_EQ(plan_write(of_it, call_of(alice_), one, {})->needs, WriteNeed::access);
}

TEST_F(WritePlanTest, FetchingAndLookingEndsInTheAnswerOfAFirstLook) {
  request.conditions.if_match = "etag";
  service.access->all_changed();
  EXPECT_TRUE(settled(alice_));
  EXPECT_EQ(settled(bob_).error(), Errc::access_denied);
  request.bucket = "no-such-bucket";
  EXPECT_EQ(settled(alice_).error(), Errc::no_such_bucket);
}

TEST_F(WritePlanTest, TheJudgeIsAskedAgainByWhatHasChanged) {
  const WriteFacts have = with_access();
  const PlannedWrite one = write();
  const Call of_alice = call_of(alice_);
  EXPECT_TRUE(run(judge_again(service, of_alice, one, *have.access)));
  policy(R"({"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/new"})");
  EXPECT_EQ(run(judge_again(service, of_alice, one, *have.access)).error(), Errc::access_denied);
  BucketAccess replaced = *have.access;
  --replaced.created_us;
  EXPECT_EQ(run(judge_again(service, of_alice, one, replaced)).error(), Errc::no_such_bucket);
}

TEST_F(WritePlanTest, APartIsJudgedByTheRightToWriteAlone) {
  request.conditions.if_match = "etag";
  const WriteFacts have = with_access();
  const PlannedWrite part{.bucket = "bucket", .key = "new", .of = WriteOf::part};
  EXPECT_EQ(plan_write(service, call_of(alice_), part, have)->needs, WriteNeed::nothing);
  EXPECT_EQ(plan_write(service, call_of(bob_), part, have).error(), Errc::access_denied);
}

}  // namespace
}  // namespace verbena::s3::test
