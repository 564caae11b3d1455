// Resets of requests. Each function binds all fields of its struct by name, so that a new field does not compile until
// it is cleared here.
#include "s3/service.h"

namespace verbena::s3 {

void Preconditions::clear() {
  auto& [match, none_match, modified_since_s, unmodified_since_s, range] = *this;
  match.clear();
  none_match.clear();
  modified_since_s.reset();
  unmodified_since_s.reset();
  range.reset();
}

void GetRequest::clear() {
  auto& [bucket_, key_, version, bytes, part, conditions, customer] = *this;
  bucket_.clear();
  key_.clear();
  version.clear();
  bytes.reset();
  part.reset();
  conditions.clear();
  customer.reset();
}

void PutRequest::clear() {
  auto& [bucket_, key_, object_headers, object_tags, object_lock, wish, commit_conditions, sums, md5, list, computed,
         trailers, is_md5_etag, append_at, continued] = *this;
  bucket_.clear();
  key_.clear();
  object_headers.clear();
  object_tags.clear();
  object_lock = {};
  wish = {};
  commit_conditions = {};
  sums.clear();
  md5.reset();
  list = {};
  computed.reset();
  trailers = nullptr;
  is_md5_etag = true;
  append_at.reset();
  continued.clear();
}

void RenameObjectRequest::clear() {
  auto& [bucket_, from_key, to_key, of_source, of_target, repeat_token, still_wanted] = *this;
  bucket_.clear();
  from_key.clear();
  to_key.clear();
  of_source.clear();
  of_target.clear();
  repeat_token.clear();
  still_wanted = {};
}

}  // namespace verbena::s3
