#include "store/local/list_versions.h"

#include <algorithm>

#include "store/local/list.h"
#include "store/local/lookup.h"
#include "store/local/versions.h"

namespace verbena::store::local {
namespace {

// Walks all versions of a bucket from a prefix on: by key, then newest first. Merges the two families that hold them.
class VersionCursor {
 public:
  VersionCursor(Engine& engine, const Bucket& bucket, std::string_view prefix)
      : engine_(engine),
        bucket_(bucket.id),
        view_(view_of(bucket)),
        objects_(engine.index->cursor(Family::objects, keys::object(bucket.id, prefix), {}, view_)),
        versions_(engine.index->cursor(Family::versions, keys::version_key_prefix(bucket.id, prefix), {}, view_)) {}

  // To the next version; false at the end.
  Result<bool> next() {
    VB_TRY(look());
    if (!current_key_ && !older_) return false;
    const bool current = current_key_ && (!older_ || *current_key_ <= older_->first);
    key_ = current ? *current_key_ : older_->first;
    latest_ = key_ != newest_seen_;
    newest_seen_ = key_;
    VB_ASSIGN(record_, decode_object(current ? objects_.value() : versions_.value()));
    if (current) {
      objects_.next();
      current_key_.reset();
    } else {
      versions_.next();
      older_.reset();
    }
    return true;
  }
  const std::string& key() const { return key_; }
  const ObjectRecord& record() const { return record_; }
  bool latest() const { return latest_; }  // the key's newest version

  // Behind all versions of all keys that start with `prefix`. False: nothing can follow.
  bool skip_prefix(const std::string& prefix) {
    auto object = keys::after_prefix(keys::object(bucket_, prefix));
    auto version = keys::after_prefix(keys::version_key_prefix(bucket_, prefix));
    if (!object || !version) return false;
    return seek(*object, *version);
  }
  // Behind all versions of the key.
  void skip_key(const std::string& key) {
    seek(keys::object(bucket_, key) + '\0', *keys::after_prefix(keys::version_prefix(bucket_, key)));
  }
  // Behind the version of the key with that record id, whether it is still there or not.
  Result<void> skip_version(const std::string& key, uint64_t id) {
    std::string object_key = keys::object(bucket_, key);
    seek(object_key, keys::version(bucket_, key, id) + '\0');
    // What is newer than the marker has been seen, if it was there.
    Cursor newest = engine_.index->cursor(Family::versions, keys::version_prefix(bucket_, key), {}, view_);
    VB_TRY(newest.status());
    auto parsed = newest.valid() ? keys::parse_version(newest.key()) : std::nullopt;
    if (parsed && parsed->second >= id) newest_seen_ = key;
    if (!objects_.valid() || objects_.key() != object_key) return objects_.status();
    VB_ASSIGN(ObjectRecord current, decode_object(objects_.value()));
    if (current.id < id) return {};
    newest_seen_ = key;
    objects_.next();
    return {};
  }

 private:
  bool seek(const std::string& object, const std::string& version) {
    objects_.seek(object);
    versions_.seek(version);
    current_key_.reset();
    older_.reset();
    return true;
  }
  // Reads the keys under both cursors.
  Result<void> look() {
    if (!current_key_ && objects_.valid()) current_key_ = objects_.key().substr(keys::object_prefix_size);
    if (!older_ && versions_.valid()) {
      older_ = keys::parse_version(versions_.key());
      if (!older_) return fail(Errc::corrupt_object, "index: version key");
    }
    VB_TRY(objects_.status());
    return versions_.status();
  }

  Engine& engine_;
  const uint64_t bucket_;
  const View view_;
  Cursor objects_, versions_;
  std::optional<std::string> current_key_;
  std::optional<std::pair<std::string, uint64_t>> older_;
  std::string key_;
  ObjectRecord record_;
  bool latest_ = false;
  std::optional<std::string> newest_seen_;
};

// The record id behind a marker. A null version that is gone has none: its key is then begun again.
Result<std::optional<uint64_t>> marker_id(Engine& engine, const Bucket& bucket, const ListVersionsRequest& request) {
  if (request.version_id_marker != null_version_id) {
    auto id = parse_version_id(request.version_id_marker);
    if (!id) return fail(Errc::invalid_version);
    return id;
  }
  const View view = view_of(bucket);
  auto value = engine.index->get(Family::objects, keys::object(bucket.id, request.key_marker), Tier::disk, view);
  if (value) {
    VB_ASSIGN(ObjectRecord current, decode_object(*value));
    if (current.is_null()) return current.id;
  }
  const std::string null_key = keys::null_version(bucket.id, request.key_marker);
  auto pointer = engine.index->get(Family::uploads, null_key, Tier::disk, view);
  if (!pointer && pointer.error() == Errc::not_found) return std::nullopt;
  if (!pointer) return std::unexpected(pointer.error());
  return keys::parse_number(*pointer);
}

Result<void> go_to_marker(Engine& engine, const Bucket& bucket, const ListVersionsRequest& request,
                          VersionCursor& cursor) {
  if (request.key_marker.empty() || request.key_marker < request.prefix) return {};
  if (request.version_id_marker.empty()) {
    cursor.skip_key(request.key_marker);
    return {};
  }
  VB_ASSIGN(auto id, marker_id(engine, bucket, request));
  return cursor.skip_version(request.key_marker, id.value_or(UINT64_MAX));
}

// Adds what is under the cursor. False: the page is full.
struct Filler {
  const ListVersionsRequest& request;
  Versioning versioning;
  VersionPage& page;
  int room;

  bool add_prefix(const std::string& hidden) {
    if (room == 0) return false;
    page.common_prefixes.push_back(hidden);
    page.next_key_marker = hidden;
    page.next_version_id_marker.clear();
    --room;
    return true;
  }
  bool add_version(const VersionCursor& cursor) {
    if (room == 0) return false;
    ObjectInfo info = cursor.record().info;
    name_version(info, versioning);
    page.next_key_marker = cursor.key();
    page.next_version_id_marker = info.version_id.empty() ? std::string(null_version_id) : info.version_id;
    page.versions.push_back({cursor.key(), std::move(info), cursor.latest()});
    --room;
    return true;
  }
};

}  // namespace

Result<VersionPage> list_versions(Engine& engine, const Bucket& bucket, const ListVersionsRequest& request) {
  VersionPage page;
  Filler filler{request, bucket.versioning.load(), page, std::clamp(request.max_keys, 0, page_max)};
  if (filler.room == 0) return page;
  VersionCursor cursor(engine, bucket, request.prefix);
  VB_TRY(go_to_marker(engine, bucket, request, cursor));
  for (;;) {
    VB_ASSIGN(bool more, cursor.next());
    if (!more) break;
    const std::string hidden(common_prefix(cursor.key(), request.prefix, request.delimiter));
    if (hidden.empty()) {
      page.truncated = !filler.add_version(cursor);
      if (page.truncated) break;
      continue;
    }
    if (hidden > request.key_marker) {
      page.truncated = !filler.add_prefix(hidden);
      if (page.truncated) break;
    }
    if (!cursor.skip_prefix(hidden)) break;
  }
  if (!page.truncated) {
    page.next_key_marker.clear();
    page.next_version_id_marker.clear();
  }
  return page;
}

}  // namespace verbena::store::local
