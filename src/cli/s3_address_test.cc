#include "cli/s3_address.h"

#include <gtest/gtest.h>

#include "cli/transfer_file.h"

namespace verbena::cli {
namespace {

TEST(S3Address, SplitsBucketAndKey) {
  auto address = parse_s3_address("s3://bucket/a/b c//d?e#f%20");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->bucket, "bucket");
  EXPECT_EQ(address->key, "a/b c//d?e#f%20") << "every byte after the bucket belongs to the key";
  EXPECT_EQ(address->text(), "s3://bucket/a/b c//d?e#f%20");
  EXPECT_EQ(parse_s3_address("s3://bucket")->key, "");
  EXPECT_EQ(parse_s3_address("s3://bucket/")->key, "");
}

TEST(S3Address, SaysWhatIsWrong) {
  for (const char* text : {"", "bucket/key", "s3:/b/k", "s3://", "s3:///key", "s3://Bucket/k", "s3://b_c/k"}) {
    auto address = parse_s3_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_FALSE(address.error().empty());
  }
  EXPECT_FALSE(parse_s3_address("s3://b/" + std::string(1025, 'k')));
}

TEST(LocalPath, KeysStayInsideTheFolder) {
  EXPECT_EQ(local_path("out", "a/b.txt"), std::filesystem::path("out/a/b.txt"));
  for (std::string_view key : {"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "a/..", "."}) {
    EXPECT_FALSE(local_path("out", key)) << key;
  }
  EXPECT_FALSE(local_path("out", std::string_view("a\0b", 3)));
  EXPECT_FALSE(local_path("out", std::string(300, 'x')));
}

}  // namespace
}  // namespace verbena::cli
