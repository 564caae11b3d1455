#include "store/local/list.h"

#include <algorithm>

#include "store/local/lookup.h"
#include "store/local/versions.h"

namespace verbena::store::local {
namespace {

// Moves behind everything that starts with `hidden`. False when nothing can follow.
bool skip(Cursor& cursor, const std::string& hidden) {
  auto next = keys::after_prefix(hidden);
  if (next) cursor.seek(*next);
  return next.has_value();
}

Result<UploadInfo> to_upload(const Bucket& bucket, std::string key, std::string upload_id, std::string_view value) {
  VB_ASSIGN(UploadRecord record, decode_upload(value));
  record.info.bucket = bucket.name;
  record.info.key = std::move(key);
  record.info.upload_id = std::move(upload_id);
  return std::move(record.info);
}

}  // namespace

std::string_view common_prefix(std::string_view key, std::string_view prefix, std::string_view delimiter) {
  if (delimiter.empty()) return {};
  size_t at = key.find(delimiter, prefix.size());
  return at == std::string_view::npos ? std::string_view{} : key.substr(0, at + delimiter.size());
}

Result<ListPage> list_objects(Engine& engine, const Bucket& bucket, const ListRequest& request) {
  ListPage page;
  int room = std::clamp(request.max_keys, 0, page_max);
  if (room == 0) return page;
  // The smallest key above `after` is `after` and a zero byte.
  const std::string from = keys::object(bucket.id, request.after) + '\0';
  Cursor cursor =
      engine.index->cursor(Family::objects, keys::object(bucket.id, request.prefix), from, view_of(bucket));
  while (cursor.valid()) {
    std::string_view key = cursor.key().substr(keys::object_prefix_size);
    std::string hidden(common_prefix(key, request.prefix, request.delimiter));
    bool seen = !hidden.empty() && hidden <= request.after;
    if (!seen && room == 0) {
      page.truncated = true;
      break;
    }
    if (hidden.empty()) {
      VB_ASSIGN(ObjectRecord record, decode_object(cursor.value()));
      name_version(record.info, bucket.versioning.load(std::memory_order_acquire));
      page.entries.push_back({std::string(key), std::move(record.info)});
      page.next_after = key;
      --room;
      cursor.next();
      continue;
    }
    if (!seen) {
      page.common_prefixes.push_back(hidden);
      page.next_after = hidden;
      --room;
    }
    if (!skip(cursor, keys::object(bucket.id, hidden))) break;
  }
  VB_TRY(cursor.status());
  if (!page.truncated) page.next_after.clear();
  return page;
}

Result<UploadPage> list_uploads(Engine& engine, const Bucket& bucket, const ListUploadsRequest& request) {
  UploadPage page;
  int room = std::clamp(request.max_uploads, 0, page_max);
  if (room == 0) return page;
  Cursor cursor =
      engine.index->cursor(Family::uploads, keys::upload_key_prefix(bucket.id, request.prefix), {}, view_of(bucket));
  if (!request.key_marker.empty() && request.key_marker >= request.prefix) {
    // With an upload id: behind that upload. Without: behind all uploads of the key.
    std::string from = keys::upload(bucket.id, request.key_marker, request.upload_id_marker);
    cursor.seek(request.upload_id_marker.empty() ? *keys::after_prefix(from) : from + '\0');
  }
  while (cursor.valid()) {
    auto parsed = keys::parse_upload(cursor.key());
    if (!parsed) return fail(Errc::corrupt_object, "index: upload key");
    auto& [key, upload_id] = *parsed;
    std::string hidden(common_prefix(key, request.prefix, request.delimiter));
    bool seen = !hidden.empty() && hidden <= request.key_marker;
    if (!seen && room == 0) {
      page.truncated = true;
      break;
    }
    if (hidden.empty()) {
      page.next_key_marker = key;
      page.next_upload_id_marker = upload_id;
      VB_ASSIGN(UploadInfo info, to_upload(bucket, std::move(key), std::move(upload_id), cursor.value()));
      page.uploads.push_back(std::move(info));
      --room;
      cursor.next();
      continue;
    }
    if (!seen) {
      page.common_prefixes.push_back(hidden);
      page.next_key_marker = hidden;
      page.next_upload_id_marker.clear();
      --room;
    }
    if (!skip(cursor, keys::upload_key_prefix(bucket.id, hidden))) break;
  }
  VB_TRY(cursor.status());
  if (!page.truncated) {
    page.next_key_marker.clear();
    page.next_upload_id_marker.clear();
  }
  return page;
}

}  // namespace verbena::store::local
