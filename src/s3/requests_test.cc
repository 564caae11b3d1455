// A recycled request is as good as a new one.
#include <gtest/gtest.h>

#include <tuple>

#include "s3/service.h"
#include "store/event.h"

namespace verbena::s3::test {
namespace {

class NoEvents final : public store::Announcement {
 public:
  Result<std::vector<store::EventRow>> events(const store::Happened&) const override {
    return std::vector<store::EventRow>();
  }
  void committed(uint64_t, const std::vector<store::EventRow>&) const override {}
};

auto fields(const Preconditions& of) {
  const auto& [match, none_match, modified, unmodified, range] = of;
  return std::tuple(match, none_match, modified, unmodified, range);
}

auto fields(const GetRequest& of) {
  const auto& [bucket, key, version, range, part, preconditions, customer] = of;
  return std::tuple(bucket, key, version, range.has_value(), part, fields(preconditions), customer);
}

auto fields(const EncryptionWish& of) {
  const auto& [method, kms_key, bucket_key, customer] = of;
  return std::tuple(method, kms_key, bucket_key, customer);
}

auto fields(const store::Wanted& of) {
  const auto& [until, withdrawn] = of;
  return std::tuple(until, withdrawn);
}

auto fields(const store::CommitConditions& of) {
  const auto& [match, none_match, modified_s, modified_us, size, without, may_make, announcement, wanted] = of;
  return std::tuple(match, none_match, modified_s, modified_us, size, without, may_make, announcement, fields(wanted));
}

auto fields(const PutRequest& of) {
  const auto& [bucket, key, headers, tags, lock, encryption, conditions, expected, md5, acl, compute, trailing,
               md5_etag, append, continues] = of;
  return std::tuple(bucket, key, headers, tags, lock, fields(encryption), fields(conditions), expected, md5, acl.canned,
                    acl.grants.size(), compute, trailing == nullptr, md5_etag, append.has_value(), continues);
}

auto fields(const RenameObjectRequest& of) {
  const auto& [bucket, from, to, source, target, token, wanted] = of;
  return std::tuple(bucket, from, to, fields(source), fields(target), token, fields(wanted));
}

// Whether each field differs between the two: a request that says less would hide what clear() forgets.
template <class... T>
bool all_differ(const std::tuple<T...>& one, const std::tuple<T...>& other);
template <class T>
bool differs(const T& one, const T& other) {
  return one != other;
}
template <class... T>
bool differs(const std::tuple<T...>& one, const std::tuple<T...>& other) {
  return all_differ(one, other);
}
template <class... T>
bool all_differ(const std::tuple<T...>& one, const std::tuple<T...>& other) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return (differs(std::get<I>(one), std::get<I>(other)) && ...);
  }(std::index_sequence_for<T...>());
}

Preconditions full_preconditions() {
  Preconditions all;
  all.if_match = {"a"};
  all.if_none_match = {"b"};
  all.if_modified_since_s = 1;
  all.if_unmodified_since_s = 2;
  all.if_range = "c";
  return all;
}

template <class Request>
void expect_clear_makes_new(Request full) {
  EXPECT_TRUE(all_differ(fields(full), fields(Request()))) << "the test fills every field";
  full.clear();
  EXPECT_EQ(fields(full), fields(Request()));
}

store::Wanted full_wanted() { return {.until = {}, .withdrawn = std::make_shared<std::atomic<bool>>(true)}; }

TEST(Requests, AClearedGetIsAsNew) {
  GetRequest full;
  full.bucket = "bucket";
  full.key = "key";
  full.version_id = "version";
  full.range = ByteRange{1, 2, {}};
  full.part_number = 3;
  full.preconditions = full_preconditions();
  full.customer_key = std::make_shared<const CustomerKey>();
  expect_clear_makes_new(full);
}

TEST(Requests, AClearedPutIsAsNew) {
  PutRequest full;
  full.bucket = "bucket";
  full.key = "key";
  full.headers = {{"content-type", "text/plain"}};
  full.tags = {{"a", "b"}};
  full.lock.legal_hold = true;
  full.encryption = {Encryption::customer, "kms", true, std::make_shared<const CustomerKey>()};
  full.conditions = {.if_match = "a",
                     .if_none_match = "b",
                     .if_modified_s = 1,
                     .if_modified_us = 2,
                     .if_size = 3,
                     .if_without = "attribute",
                     .may_make_object = false,
                     .announcement = std::make_shared<NoEvents>(),
                     .wanted = full_wanted()};
  full.expected = {{Algorithm::crc32c, "sum", 0}};
  full.content_md5 = "md5";
  full.acl = {.canned = "private", .grants = std::vector<Grant>(1)};
  full.compute = Algorithm::crc32;
  full.trailing = [] { return Result<std::vector<store::Checksum>>(); };
  full.md5_etag = false;
  full.append = PutRequest::Append();
  full.continues = {Algorithm::crc32};
  expect_clear_makes_new(full);
}

TEST(Requests, AClearedRenameIsAsNew) {
  RenameObjectRequest full;
  full.bucket = "bucket";
  full.from = "from";
  full.to = "to";
  full.source = full.target = full_preconditions();
  full.token = "token";
  full.wanted = full_wanted();
  expect_clear_makes_new(full);
}

TEST(Requests, AClearedRequestKeepsItsMemory) {
  GetRequest get;
  get.key.assign(1000, 'k');
  get.clear();
  EXPECT_GE(get.key.capacity(), 1000u);
  PutRequest put;
  put.key.assign(1000, 'k');
  put.headers.resize(10);
  put.clear();
  EXPECT_GE(put.key.capacity(), 1000u);
  EXPECT_GE(put.headers.capacity(), 10u);
}

}  // namespace
}  // namespace verbena::s3::test
