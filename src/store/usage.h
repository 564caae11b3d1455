// The contents of a bucket in numbers, updated with every change.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace verbena::store {

// Also used for differences: a decrease is added as its complement, so sums wrap around and come out right.
struct Usage {
  uint64_t objects = 0, bytes = 0;           // current objects; bytes are those that clients see
  uint64_t versions = 0, version_bytes = 0;  // older versions of objects
  uint64_t delete_markers = 0;
  uint64_t uploads = 0, upload_bytes = 0;  // unfinished uploads, and the bytes of their parts

  static constexpr size_t member_count = 7;
  static constexpr std::array<uint64_t Usage::*, member_count> members();

  // The number that quotas limit: everything that takes a row, or space.
  uint64_t all_objects() const { return objects + versions + delete_markers + uploads; }
  uint64_t all_bytes() const { return bytes + version_bytes + upload_bytes; }

  constexpr Usage& operator+=(const Usage& more);
  constexpr Usage operator-() const;
  bool operator==(const Usage&) const = default;
};

constexpr std::array<uint64_t Usage::*, Usage::member_count> Usage::members() {
  return {&Usage::objects,        &Usage::bytes,   &Usage::versions,    &Usage::version_bytes,
          &Usage::delete_markers, &Usage::uploads, &Usage::upload_bytes};
}

constexpr Usage& Usage::operator+=(const Usage& more) {
  for (const auto member : members()) this->*member += more.*member;
  return *this;
}

constexpr Usage Usage::operator-() const {
  Usage out;
  for (const auto member : members()) out.*member = 0 - this->*member;
  return out;
}

constexpr Usage operator+(Usage a, const Usage& b) { return a += b; }
constexpr Usage operator-(Usage a, const Usage& b) { return a += -b; }

// Usage without waiting: acknowledged objects that are not in the catalogue yet count in addition to those that they
// may replace there.
struct UsageNow {
  Usage bucket, owner;  // owner: of all buckets of the bucket's owner
  // False: the usage from before the start of the server is still being counted.
  bool bucket_counted = false, owner_counted = false;
};

struct BucketUsage {
  std::string name, owner;
  Usage usage;
  bool counted = false;
};

}  // namespace verbena::store
