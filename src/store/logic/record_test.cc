#include "store/logic/record.h"
#include "store/local/keys.h"
#include "store/local/record.h"

#include <gtest/gtest.h>

#include "store/logic/keys.h"

namespace verbena::store {
namespace {

using local::block_size;
using local::decode_extent_owner;
using local::decode_inline;
using local::decode_segment;
using local::encode_inline;
using local::Extent;
using local::ExtentOwner;
using local::Segment;
using local::segment_size;

ObjectRecord sample_object() {
  ObjectRecord record;
  record.id = 77;
  record.info.size = 100'000;
  record.info.etag = "abc-1";
  record.info.modified_us = -5;
  record.info.headers = {{"content-type", "text/plain"}, {"x-amz-meta-a", std::string("\0\xff", 2)}};
  record.info.checksums = {{Algorithm::crc32c, "1234", 0},
                           {Algorithm::sha1, std::string(20, 's'), 12},
                           {Algorithm::xxhash128, std::string(16, 'x'), 0}};
  record.info.version_id = "v";
  record.info.delete_marker = true;
  record.info.tags = {{"k", "v"}, {"empty", ""}};
  record.info.lock = {LockMode::compliance, 123'456'789'012, true};
  record.info.attributes = {{"acl", std::string("\0x", 2)}};
  record.blob = {BlobKind::extents, 1234567890123, 100'000};
  return record;
}

TEST(Record, AListingReadsTheSameHeadAndRefusesTheSameDamage) {
  const ObjectRecord object = sample_object();
  const std::string bytes = encode(object);
  ObjectInfo info;
  ASSERT_TRUE(decode_info(bytes, info));
  EXPECT_EQ(info.size, object.info.size);
  EXPECT_EQ(info.etag, object.info.etag);
  EXPECT_EQ(info.modified_us, object.info.modified_us);
  EXPECT_EQ(info.version_id, object.info.version_id);
  EXPECT_EQ(info.headers, object.info.headers);
  EXPECT_EQ(info.checksums, object.info.checksums);
  EXPECT_EQ(info.tags, object.info.tags);
  EXPECT_EQ(info.lock, object.info.lock);
  EXPECT_EQ(info.attributes, object.info.attributes);
  const auto brief = decode_brief(bytes);
  ASSERT_TRUE(brief);
  EXPECT_EQ(brief->size, object.info.size);
  EXPECT_EQ(brief->etag, object.info.etag);
  EXPECT_EQ(brief->modified_us, object.info.modified_us);
  EXPECT_FALSE(brief->may_end);
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char wrong : {'\0', '\x7f', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] = wrong;
      ObjectInfo read;
      EXPECT_EQ(decode_info(damaged, read).has_value(), decode_object(damaged).has_value()) << at;
      EXPECT_EQ(decode_brief(damaged).has_value(), decode_object(damaged).has_value()) << at;
    }
    ObjectInfo read;
    EXPECT_FALSE(decode_info(bytes.substr(0, at), read)) << at;
    EXPECT_FALSE(decode_brief(bytes.substr(0, at))) << at;
  }
}

TEST(Record, ASinkGetsTheHeaderAndTheAttributeThatItWants) {
  ObjectRecord object = sample_object();
  object.info.headers = {{"x-amz-storage-class", "GLACIER_IR"}, {"acl", "a header"}};
  const auto head = decode_brief(encode(object));
  ASSERT_TRUE(head);
  EXPECT_TRUE(head->header.empty() && head->attribute.empty());
  const std::string bytes = encode(object);
  const auto wanted = decode_brief(bytes, {.header = "x-amz-storage-class", .attribute = "acl"});
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->header, "GLACIER_IR");
  EXPECT_EQ(wanted->attribute, object.info.attributes.front().second);
  ASSERT_EQ(wanted->algorithm_count, object.info.checksums.size());
  for (size_t i = 0; i < object.info.checksums.size(); ++i) {
    EXPECT_EQ(wanted->algorithms[i], object.info.checksums[i].algorithm);
  }
  EXPECT_EQ(wanted->composite, object.info.checksums.front().parts != 0);
}

TEST(Record, ASinkLearnsThatAnObjectMayHaveAnEnd) {
  ObjectRecord object = sample_object();
  object.info.headers.emplace_back("x-verbena-expires", "1700000000");
  EXPECT_TRUE(decode_brief(encode(object))->may_end);
}

TEST(Record, ComesBackAsItWas) {
  ObjectRecord object = sample_object();
  auto decoded = decode_object(encode(object));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, object.id);
  EXPECT_EQ(decoded->blob, object.blob);
  EXPECT_EQ(decoded->info.headers, object.info.headers);
  EXPECT_EQ(decoded->info.checksums, object.info.checksums);
  EXPECT_EQ(decoded->info.modified_us, -5);
  EXPECT_EQ(decoded->info.version_id, "v");
  EXPECT_TRUE(decoded->info.delete_marker);
  EXPECT_EQ(decoded->info.tags, object.info.tags);
  EXPECT_EQ(decoded->info.lock, object.info.lock);
  EXPECT_EQ(decoded->info.attributes, object.info.attributes);

  Segment segment{{{9, 4096, 2 * block_size}, {10, 8192, 4096}}, {1, 2, 0xffffffff}};
  EXPECT_EQ(*decode_segment(encode(segment)), segment);

  StoredPart part{{3, 5, "e", 9, {}, {{"sse", "x"}}}, {BlobKind::in_index, 4, 5}};
  auto parts = decode_parts(encode(std::vector<StoredPart>{part, part}));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->size(), 2u);
  EXPECT_EQ(parts->at(1).blob, part.blob);
  EXPECT_EQ(parts->at(1).info.attributes, part.info.attributes);

  UploadRecord upload;
  upload.id = 5;
  upload.info.owner = "me";
  upload.info.checksum_algorithm = Algorithm::sha512;
  upload.info.checksum_full_object = true;
  upload.info.tags = {{"k", "v"}};
  upload.info.lock.legal_hold = true;
  upload.info.attributes = {{"acl", "a"}, {"sse", "s"}};
  auto upload_back = decode_upload(encode(upload));
  ASSERT_TRUE(upload_back);
  EXPECT_EQ(upload_back->info.checksum_algorithm, Algorithm::sha512);
  EXPECT_TRUE(upload_back->info.checksum_full_object);
  EXPECT_EQ(upload_back->info.tags, upload.info.tags);
  EXPECT_EQ(upload_back->info.lock, upload.info.lock);
  EXPECT_EQ(upload_back->info.attributes, upload.info.attributes);

  const BucketLock lock{.enabled = true, .mode = LockMode::governance, .years = true, .period = 7};
  BucketRecord bucket{8, {"b", 7, "root", Durability::memory, Versioning::enabled, lock}};
  auto bucket_back = decode_bucket(encode(bucket));
  ASSERT_TRUE(bucket_back);
  EXPECT_EQ(bucket_back->info.name, "b");
  EXPECT_EQ(bucket_back->info.durability, Durability::memory);
  EXPECT_EQ(bucket_back->info.versioning, Versioning::enabled);
  EXPECT_EQ(bucket_back->info.lock, lock);
}

TEST(Record, ThoseOfFormat1AreRead) {
  using namespace std::string_literals;
  // Format, id, size, etag, modified, no version, no headers, no checksums, no parts; an inline blob.
  auto object = decode_object(
      "\x01\x07\x05\x02"
      "ab\x09\x00\x00\x00\x00\x01\x06\x05"s);
  ASSERT_TRUE(object);
  EXPECT_EQ(object->id, 7u);
  EXPECT_EQ(object->info.etag, "ab");
  EXPECT_TRUE(object->is_null());
  EXPECT_FALSE(object->info.delete_marker);
  EXPECT_EQ(object->blob, (BlobRef{BlobKind::in_index, 6, 5}));
  auto bucket = decode_bucket("\x01\x08\x01\x62\x07\x04root\x01"s);
  ASSERT_TRUE(bucket);
  EXPECT_EQ(bucket->info.durability, Durability::memory);
  EXPECT_EQ(bucket->info.versioning, Versioning::off);
  auto upload = decode_upload("\x01\x05\x03\x02me\x00\x00\x01"s);
  ASSERT_TRUE(upload);
  EXPECT_TRUE(upload->info.checksum_full_object);
  EXPECT_EQ(decode_object("\x04\x07\x05\x02"
                          "ab\x09\x00\x00\x00\x00\x01\x06\x05"s)
                .error(),
            Errc::malformed);
}

TEST(Record, ThoseOfFormat2HaveNoAttributes) {
  using namespace std::string_literals;
  // Format 1 fields, and after the checksums: no delete marker, no tags, a lock without mode and hold.
  auto object = decode_object(
      "\x02\x07\x05\x02"
      "ab\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x06\x05"s);
  ASSERT_TRUE(object);
  EXPECT_TRUE(object->info.attributes.empty());
  EXPECT_EQ(object->blob, (BlobRef{BlobKind::in_index, 6, 5}));
}

TEST(Record, EveryTruncationAndEveryLongerFormIsMalformed) {
  std::string bytes = encode(sample_object());
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_EQ(decode_object(bytes.substr(0, n)).error(), Errc::malformed) << n;
  EXPECT_EQ(decode_object(bytes + '\0').error(), Errc::malformed);
  std::string newer = bytes;
  newer[0] = 4;
  EXPECT_EQ(decode_object(newer).error(), Errc::malformed);
}

TEST(Record, ACountBeyondTheBytesAllocatesNothing) {
  // Version 1, then a list that claims 2^63 - 1 elements.
  std::string huge("\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
  EXPECT_EQ(decode_parts(huge).error(), Errc::malformed);
  EXPECT_EQ(decode_segment(huge).error(), Errc::malformed);
  EXPECT_EQ(decode_parts(std::string(12, '\xff')).error(), Errc::malformed);
}

TEST(Record, ASegmentWhoseBlocksDoNotFitItsExtentsIsMalformed) {
  EXPECT_FALSE(decode_segment(encode(Segment{{{1, 0, block_size}}, {}})));
  EXPECT_FALSE(decode_segment(encode(Segment{{{1, 0, block_size}}, {1, 2}})));
  EXPECT_FALSE(decode_segment(encode(Segment{{{1, 0, 4096}, {1, 65536, block_size}}, {1, 2}})));
  EXPECT_FALSE(decode_segment(encode(Segment{{{1, 0, 0}}, {}})));
}

TEST(Record, AnInlineBlobWithAFlippedBitIsCorrupt) {
  std::string value = encode_inline(as_bytes("hello"));
  EXPECT_EQ(*decode_inline(value), "hello");
  for (size_t i = 0; i < value.size(); ++i) {
    std::string flipped = value;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_EQ(decode_inline(flipped).error(), Errc::corrupt_object);
  }
  EXPECT_EQ(decode_inline("abc").error(), Errc::corrupt_object);
}

TEST(Keys, OrderIsByteOrderOfKeysWithinABucket) {
  const std::string sorted[] = {std::string("\0", 1),
                                std::string("\0\0", 2),
                                std::string("\0\1", 2),
                                "a",
                                std::string("a\0", 2),
                                std::string("a\0b", 3),
                                "a\x01",
                                "aa",
                                "\xff",
                                "\xff\xff"};
  for (size_t i = 0; i + 1 < std::size(sorted); ++i) {
    EXPECT_LT(keys::object(1, sorted[i]), keys::object(1, sorted[i + 1]));
    EXPECT_LT(keys::upload(1, sorted[i], "ffff"), keys::upload(1, sorted[i + 1], "0000")) << i;
    EXPECT_LT(keys::object(1, sorted[i]), keys::object(2, sorted[0]));
    auto parsed = keys::parse_upload(keys::upload(1, sorted[i], "id"));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->first, sorted[i]);
    EXPECT_EQ(parsed->second, "id");
  }
  EXPECT_FALSE(keys::parse_upload("u12345678abc"));
  EXPECT_FALSE(keys::parse_upload(std::string("u12345678a\0x", 12)));
}

TEST(Keys, AfterPrefixIsTheNextPossiblePrefix) {
  EXPECT_EQ(keys::after_prefix("ab"), "ac");
  EXPECT_EQ(keys::after_prefix("a\xff\xff"), "b");
  EXPECT_FALSE(keys::after_prefix("\xff"));
}

}  // namespace
}  // namespace verbena::store
