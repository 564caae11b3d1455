#include "store/logic/key_rows.h"

#include <algorithm>
#include <functional>

#include "store/logic/keys.h"
#include "store/logic/object_ops.h"

namespace verbena::store {
namespace {

bool blocks(const Error& error) { return error == Errc::would_block; }

// Reads the parts of each version that has some. One that would block does not keep the others from being requested.
Result<void> read_parts(Moment& rows, std::vector<KeyRows::Version*>& versions) {
  bool waits = false;
  for (KeyRows::Version* version : versions) {
    if (version->record.part_count == 0) continue;
    auto parts = object_parts(rows, version->record);
    if (!parts && !blocks(parts.error())) return std::unexpected(parts.error());
    waits |= !parts;
    if (parts) version->parts = std::move(*parts);
  }
  if (waits) return fail(Errc::would_block, "parts");
  return {};
}

Result<void> read_uploads(Moment& rows, uint64_t bucket, std::string_view key, std::vector<KeyRows::Upload>& uploads) {
  const auto cursor = rows.cursor(Table::uploads, keys::upload(bucket, key, ""));
  for (; cursor->valid(); cursor->next()) {
    KeyRows::Upload upload;
    VB_ASSIGN(upload.record, decode_upload(cursor->value()));
    const auto name = keys::parse_upload(cursor->key());
    if (!name) return fail(Errc::malformed, "name of an upload");
    upload.record.info.key = name->first;
    upload.record.info.upload_id = name->second;
    uploads.push_back(std::move(upload));
  }
  VB_TRY(cursor->status());
  bool waits = false;
  for (KeyRows::Upload& upload : uploads) {
    const auto parts = rows.cursor(Table::uploads, keys::part_prefix(upload.record.id));
    for (; parts->valid(); parts->next()) {
      VB_ASSIGN(StoredPart part, decode_part(parts->value()));
      upload.parts.push_back(std::move(part));
    }
    const auto status = parts->status();
    if (!status && !blocks(status.error())) return status;
    waits |= !status;
  }
  if (waits) return fail(Errc::would_block, "parts of uploads");
  return {};
}

Result<void> read_older(Moment& rows, uint64_t bucket, std::string_view key, std::vector<KeyRows::Version>& older) {
  const auto cursor = rows.cursor(Table::versions, keys::version_prefix(bucket, key));
  for (; cursor->valid(); cursor->next()) {
    VB_ASSIGN(ObjectRecord record, decode_object(cursor->value()));
    older.push_back({std::move(record), {}});
  }
  return cursor->status();
}

// Removes the location from a reference: two copies of the same bytes compare equal.
BlobRef unplaced(const BlobRef& blob) { return {BlobKind::empty, 0, blob.size}; }

std::string shape_of(std::vector<StoredPart> parts) {
  for (StoredPart& part : parts) part.blob = unplaced(part.blob);
  return encode(parts);
}

std::string shape_of(const KeyRows::Version& version) {
  ObjectRecord record = version.record;
  record.blob = unplaced(record.blob);
  return encode(record) + shape_of(version.parts);
}

bool has(const std::vector<KeyRows::Version>& newest_first, const KeyRows::Version& version) {
  const auto id = [](const KeyRows::Version& one) { return one.record.id; };
  const auto found = std::ranges::lower_bound(newest_first, id(version), std::greater<>(), id);
  return found != newest_first.end() && shape_of(*found) == shape_of(version);
}

bool has(const KeyRows::Upload& upload, const StoredPart& part) {
  const auto number = [](const StoredPart& one) { return one.info.number; };
  const auto found = std::ranges::lower_bound(upload.parts, number(part), {}, number);
  return found != upload.parts.end() && shape_of({*found}) == shape_of({part});
}

bool has(const std::vector<KeyRows::Upload>& uploads, const KeyRows::Upload& upload) {
  const auto name = [](const KeyRows::Upload& one) { return one.record.info.upload_id; };
  const auto found = std::ranges::find(uploads, name(upload), name);
  return found != uploads.end() && encode(found->record) == encode(upload.record) &&
         std::ranges::all_of(upload.parts, [&](const StoredPart& part) { return has(*found, part); });
}

// Walks the rows of one table that are named by key, a key at a time.
class KeyCursor {
 public:
  using Prefix = std::string (*)(uint64_t bucket, std::string_view key);
  using KeyOf = std::optional<std::string> (*)(std::string_view row);
  KeyCursor(Moment& rows, Table table, uint64_t bucket, std::string all, Prefix prefix, KeyOf key_of,
            std::string_view from)
      : bucket_(bucket), prefix_(prefix), key_of_(key_of), cursor_(rows.cursor(table, all, prefix(bucket, from))) {}

  // Empty: at the end, or the rows have to be waited for.
  std::string key() const { return cursor_->valid() ? key_of_(cursor_->key()).value_or("") : ""; }
  Result<void> status() const { return cursor_->status(); }
  void leave(const std::string& key) { cursor_->seek(prefix_(bucket_, key + '\0')); }

 private:
  const uint64_t bucket_;
  const Prefix prefix_;
  const KeyOf key_of_;
  const std::unique_ptr<Cursor> cursor_;
};

std::optional<std::string> key_of_object(std::string_view row) {
  return std::string(row.substr(keys::object_prefix_size));
}
std::optional<std::string> key_of_version(std::string_view row) {
  const auto parsed = keys::parse_version(row);
  if (!parsed) return std::nullopt;
  return parsed->first;
}
std::optional<std::string> key_of_upload(std::string_view row) {
  const auto parsed = keys::parse_upload(row);
  if (!parsed) return std::nullopt;
  return parsed->first;
}

}  // namespace

uint64_t KeyRows::id_max() const {
  uint64_t id = current ? current->record.id : 0;
  for (const Version& version : older) id = std::max(id, version.record.id);
  for (const Upload& upload : uploads) id = std::max(id, upload.record.id);
  return id;
}

std::string KeyRows::shape() const {
  std::string shape = keys::number(null_version.value_or(0)) + (current ? 'c' : '-');
  if (current) shape += shape_of(*current);
  for (const Version& version : older) shape += shape_of(version);
  for (const Upload& upload : uploads) {
    shape += upload.record.info.upload_id + encode(upload.record) + shape_of(upload.parts);
  }
  return shape;
}

bool KeyRows::is_part_of(const KeyRows& whole) const {
  if (null_version && null_version != whole.null_version) return false;
  if (current && (!whole.current || shape_of(*current) != shape_of(*whole.current))) return false;
  return std::ranges::all_of(older, [&whole](const Version& version) { return has(whole.older, version); }) &&
         std::ranges::all_of(uploads, [&whole](const Upload& upload) { return has(whole.uploads, upload); });
}

Result<KeyRows> read_key(View& view, uint64_t bucket, std::string_view key) {
  const auto moment = view.moment();  // of four kinds of rows
  Moment& rows = *moment;
  KeyRows found;
  bool waits = false;
  const auto met = [&waits](const Result<void>& result) -> Result<void> {
    if (result || !blocks(result.error())) return result;
    waits = true;
    return {};
  };
  auto head = find_row(rows, Table::objects, keys::object(bucket, key));
  if (!head) VB_TRY(met(std::unexpected(head.error())));
  auto null = find_row(rows, Table::uploads, keys::null_version(bucket, key));
  if (!null) VB_TRY(met(std::unexpected(null.error())));
  VB_TRY(met(read_older(rows, bucket, key, found.older)));
  VB_TRY(met(read_uploads(rows, bucket, key, found.uploads)));
  if (waits) return fail(Errc::would_block, "rows of a key");
  if (*null) found.null_version = keys::parse_number(**null);
  if (*head) {
    VB_ASSIGN(ObjectRecord record, decode_object(**head));
    found.current = KeyRows::Version{std::move(record), {}};
  }
  std::vector<KeyRows::Version*> versions;
  if (found.current) versions.push_back(&*found.current);
  for (KeyRows::Version& version : found.older) versions.push_back(&version);
  VB_TRY(read_parts(rows, versions));
  return found;
}

Result<KeyPage> list_keys(View& view, uint64_t bucket, std::string_view from, size_t keys_max) {
  const auto moment = view.moment();  // a key's rows go from one table to another
  Moment& rows = *moment;
  KeyCursor cursors[] = {
      {rows, Table::objects, bucket, keys::object_prefix(bucket), keys::object, key_of_object, from},
      {rows, Table::versions, bucket, keys::version_bucket(bucket), keys::version_key_prefix, key_of_version, from},
      {rows, Table::uploads, bucket, keys::upload_prefix(bucket), keys::upload_key_prefix, key_of_upload, from},
  };
  KeyPage page;
  for (;;) {
    std::string least;
    bool waits = false;
    for (const KeyCursor& cursor : cursors) {
      const std::string key = cursor.key();
      const auto status = cursor.status();
      if (!status && !blocks(status.error())) return std::unexpected(status.error());
      waits |= !status;
      if (!key.empty() && (least.empty() || key < least)) least = key;
    }
    if (waits) return fail(Errc::would_block, "keys");
    if (least.empty()) return page;
    page.more = page.keys.size() == keys_max;
    if (page.more) return page;
    for (KeyCursor& cursor : cursors) {
      if (cursor.key() == least) cursor.leave(least);
    }
    page.keys.push_back(std::move(least));
  }
}

}  // namespace verbena::store
