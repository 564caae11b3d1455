// Bucket documents.
#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

class DocumentStore : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
};

TEST_P(DocumentStore, GivesBackWhatWasSetAlsoAfterARestart) {
  EXPECT_EQ(t.document("b", "cors").error(), Errc::not_found);
  ASSERT_TRUE(t.set_document("b", "cors", "one"));
  ASSERT_TRUE(t.set_document("b", "tags", ""));
  ASSERT_TRUE(t.set_document("b", "cors", std::string("two\0", 4)));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*t.document("b", "cors"), std::string("two\0", 4));
    EXPECT_EQ(*t.document("b", "tags"), "");
    t.reopen();
  }
  ASSERT_TRUE(t.run(t.engine().remove_document("b", "cors")));
  ASSERT_TRUE(t.run(t.engine().remove_document("b", "cors")));
  EXPECT_EQ(t.document("b", "cors").error(), Errc::not_found);
  t.reopen();
  EXPECT_EQ(t.document("b", "cors").error(), Errc::not_found);
  EXPECT_TRUE(t.document("b", "tags"));
}

TEST_P(DocumentStore, AreReadTogetherWithTheirBucket) {
  constexpr std::string_view names[] = {"cors", "none", "lifecycle", "tags"};
  const std::string large = pattern(document_size_max, 1);
  ASSERT_TRUE(t.set_document("b", "cors", "one"));
  ASSERT_TRUE(t.set_document("b", "tags", ""));
  ASSERT_TRUE(t.set_document("b", "lifecycle", large));
  ASSERT_TRUE(t.set_document("b", "other", "not asked for"));
  for (int round = 0; round < 2; ++round) {
    const auto all = t.run(t.engine().bucket_and_documents("b", names));
    ASSERT_TRUE(all);
    EXPECT_EQ(all->bucket.name, "b");
    ASSERT_EQ(all->documents.size(), std::size(names));
    EXPECT_EQ(*all->documents[0], "one");
    EXPECT_EQ(all->documents[1], nullptr);
    EXPECT_EQ(*all->documents[2], large);
    EXPECT_EQ(*all->documents[3], "");
    t.reopen();
  }
  EXPECT_EQ(t.run(t.engine().bucket_and_documents("none", names)).error(), Errc::no_such_bucket);
}

TEST_P(DocumentStore, ReplacesWhatWasReadAndNothingElse) {
  const auto replace = [&](Document was, const std::string& bytes) {
    return t.run(t.engine().replace_document("b", "tags", std::move(was), bytes));
  };
  const auto of = [](const std::string& text) { return std::make_shared<const std::string>(text); };
  EXPECT_EQ(replace(of("one"), "two").error(), Errc::precondition_failed) << "there is none";
  ASSERT_TRUE(replace(nullptr, "one"));
  EXPECT_EQ(replace(nullptr, "two").error(), Errc::precondition_failed) << "there is one";
  EXPECT_EQ(replace(of("other"), "two").error(), Errc::precondition_failed);
  EXPECT_EQ(*t.document("b", "tags"), "one");
  ASSERT_TRUE(replace(of("one"), "two"));
  EXPECT_EQ(*t.document("b", "tags"), "two");
  ASSERT_TRUE(t.run(t.engine().remove_document("b", "tags")));
  ASSERT_TRUE(replace(nullptr, "three"));
  EXPECT_EQ(replace(of("two"), "").error(), Errc::precondition_failed) << "nor does it remove another one";
  EXPECT_EQ(replace(nullptr, "").error(), Errc::precondition_failed);
  EXPECT_EQ(*t.document("b", "tags"), "three");
  ASSERT_TRUE(replace(of("three"), ""));
  EXPECT_EQ(t.document("b", "tags").error(), Errc::not_found);
  EXPECT_TRUE(replace(nullptr, ""));
  EXPECT_EQ(t.run(t.engine().replace_document("none", "tags", nullptr, "x")).error(), Errc::no_such_bucket);
}

TEST_P(DocumentStore, RefusesNamesAndSizesOutOfBounds) {
  for (const char* name : {"", "Cors", "a/b", "a b", "\xc3\xa9"}) {
    EXPECT_EQ(t.set_document("b", name, "x").error(), Errc::invalid_argument) << name;
  }
  EXPECT_EQ(t.set_document("b", std::string(65, 'a'), "x").error(), Errc::invalid_argument);
  EXPECT_EQ(t.set_document("b", "large", std::string(document_size_max + 1, 'x')).error(), Errc::too_large);
  EXPECT_TRUE(t.set_document("b", "large", std::string(document_size_max, 'x')));
  for (size_t i = 1; i < documents_max; ++i) ASSERT_TRUE(t.set_document("b", "n" + std::to_string(i), "x"));
  EXPECT_EQ(t.set_document("b", "more", "x").error(), Errc::invalid_argument);
  EXPECT_TRUE(t.set_document("b", "large", "y"));
  EXPECT_EQ(t.set_document("none", "cors", "x").error(), Errc::no_such_bucket);
  EXPECT_EQ(t.document("none", "cors").error(), Errc::no_such_bucket);
}

// A change that was authorized for one bucket does not reach another that has its name by then.
TEST_P(DocumentStore, IsNotChangedInAnotherBucketOfTheName) {
  auto& t = *rig_;
  const auto made = [&t]() -> BucketMade {
    const auto info = t.run(t.engine().bucket("b"));
    return {.created_us = info->created_us, .owner = info->owner};
  };
  const BucketMade earlier = made();
  EXPECT_TRUE(t.run(t.engine().set_document({"b", earlier}, "own", "1")));
  EXPECT_TRUE(t.run(t.engine().remove_document({"b", earlier}, "own")));
  ASSERT_TRUE(t.run(t.engine().remove_bucket({"b", earlier})));
  ASSERT_TRUE(t.run(t.engine().create_bucket({.name = "b", .created_us = earlier.created_us + 1, .owner = "root"})));
  ASSERT_TRUE(t.set_document("b", "kept", "new"));
  EXPECT_EQ(t.run(t.engine().set_document({"b", earlier}, "own", "1")).error(), Errc::no_such_bucket);
  EXPECT_EQ(t.run(t.engine().remove_document({"b", earlier}, "kept")).error(), Errc::no_such_bucket);
  EXPECT_EQ(t.run(t.engine().replace_document({"b", earlier}, "own", nullptr, "1")).error(), Errc::no_such_bucket);
  EXPECT_EQ(t.run(t.engine().set_versioning({"b", earlier}, Versioning::enabled)).error(), Errc::no_such_bucket);
  EXPECT_EQ(t.run(t.engine().set_lock({"b", earlier}, {})).error(), Errc::no_such_bucket);
  EXPECT_EQ(t.run(t.engine().set_durability({"b", earlier}, Durability::sync)).error(), Errc::no_such_bucket);
  EXPECT_EQ(t.run(t.engine().remove_bucket({"b", earlier})).error(), Errc::no_such_bucket);
  EXPECT_EQ(t.run(t.engine().remove("b", "key", {.bucket_created_us = earlier.created_us})).error(),
            Errc::no_such_bucket);
  EXPECT_TRUE(t.run(t.engine().document("b", "kept")));
  EXPECT_EQ(t.run(t.engine().document("b", "own")).error(), Errc::not_found);
  EXPECT_TRUE(t.run(t.engine().set_document({"b", made()}, "own", "2")));
}

TEST_P(DocumentStore, GoesWithItsBucket) {
  t.make_bucket("other");
  ASSERT_TRUE(t.set_document("b", "cors", "x"));
  ASSERT_TRUE(t.set_document("other", "cors", "y"));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  EXPECT_EQ(t.document("b", "cors").error(), Errc::no_such_bucket);
  t.make_bucket("b");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(t.document("b", "cors").error(), Errc::not_found);
    EXPECT_EQ(*t.document("other", "cors"), "y");
    t.reopen();
  }
}

// They stayed in memory, without bound: 200 buckets of one account took 215 MB permanently.
TEST_P(DocumentStore, LargeOnesAreReadFromTheIndexAndNotKept) {
  const std::string large = pattern(document_size_max, 1);
  ASSERT_TRUE(t.set_document("b", "lifecycle", large));
  for (int i = 0; i < 2; ++i) {
    auto first = t.run(t.engine().document("b", "lifecycle"));
    ASSERT_TRUE(first);
    EXPECT_TRUE(**first == large);
    EXPECT_EQ(first->use_count(), 1) << "only the reader has it";
    t.reopen();
  }
  ASSERT_TRUE(t.set_document("b", "lifecycle", "small"));
  EXPECT_EQ(*t.document("b", "lifecycle"), "small");
  EXPECT_GT(t.run(t.engine().document("b", "lifecycle"))->use_count(), 1) << "a small one is in memory";
}

TEST_P(DocumentStore, OfOneOwnerAreBoundedTogether) {
  const std::string large(document_size_max, 'x');
  const size_t fit = documents_bytes_max / document_size_max;
  for (size_t i = 0; i <= fit; ++i) t.make_bucket("bucket" + std::to_string(i));
  for (size_t i = 0; i < fit; ++i) ASSERT_TRUE(t.set_document("bucket" + std::to_string(i), "lifecycle", large)) << i;
  const std::string last = "bucket" + std::to_string(fit);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(t.set_document(last, "lifecycle", "x").error(), Errc::limit_exceeded);
    EXPECT_TRUE(t.set_document("bucket0", "lifecycle", large)) << "in place of one as large";
    t.reopen();
  }
  auto made = t.run(t.engine().create_bucket({.name = "theirs", .created_us = 0, .owner = "somebody else"}));
  ASSERT_TRUE(made);
  EXPECT_TRUE(t.set_document("theirs", "lifecycle", large)) << "another owner has a total of its own";
  ASSERT_TRUE(t.run(t.engine().remove_document("bucket1", "lifecycle")));
  EXPECT_TRUE(t.set_document(last, "lifecycle", std::string(document_size_max / 2, 'y')));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("bucket2")));
  EXPECT_TRUE(t.set_document(last, "lifecycle", large));
}

ON_ALL_ENGINES(DocumentStore);

}  // namespace
}  // namespace verbena::store::conformance
