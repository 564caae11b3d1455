#include "store/logic/list_versions.h"

#include <algorithm>

#include "store/logic/damage.h"
#include "store/logic/ends.h"
#include "store/logic/keys.h"
#include "store/logic/object_ops.h"
#include "store/logic/versions.h"

namespace verbena::store {

// Walks all versions of a bucket from a prefix on: by key, then newest first. Merges the two tables that hold them, at
// one moment: an overwrite takes a head from one to the other.
class VersionCursor {
 public:
  VersionCursor(Moment& rows, const Bucket& bucket, std::string_view prefix)
      : rows_(rows),
        bucket_(bucket.id),
        objects_(rows.cursor(Table::objects, keys::object(bucket.id, prefix))),
        versions_(rows.cursor(Table::versions, keys::version_key_prefix(bucket.id, prefix))) {}

  // Moves to the next version; false at the end. After an error key() is that of the version which could not be read;
  // empty where it is not known.
  Result<bool> next() {
    key_.clear();
    VB_TRY(look());
    if (!current_key_ && !older_) return false;
    const bool current = current_key_ && (!older_ || *current_key_ <= older_->first);
    key_ = current ? *current_key_ : older_->first;
    latest_ = key_ != newest_seen_;
    newest_seen_ = key_;
    VB_ASSIGN(record_, decode_object(current ? objects_->value() : versions_->value()));
    if (current) {
      objects_->next();
      current_key_.reset();
    } else {
      versions_->next();
      older_.reset();
    }
    return true;
  }
  const std::string& key() const { return key_; }
  const ObjectRecord& record() const { return record_; }
  bool latest() const { return latest_; }  // the key's newest version

  // Skips all versions of all keys that start with `prefix`. False: nothing can follow.
  bool skip_prefix(const std::string& prefix) {
    auto object = keys::after_prefix(keys::object(bucket_, prefix));
    auto version = keys::after_prefix(keys::version_key_prefix(bucket_, prefix));
    if (!object || !version) return false;
    return seek(*object, *version);
  }
  // Skips all versions of the key; of that at which next() found damage, those that are left.
  void skip_key(const std::string& key) {
    seek(keys::object(bucket_, key) + '\0', *keys::after_prefix(keys::version_prefix(bucket_, key)));
  }
  // Skips the version of the key with that record id, whether it still exists or not.
  Result<void> skip_version(const std::string& key, uint64_t id) {
    std::string object_key = keys::object(bucket_, key);
    seek(object_key, keys::version(bucket_, key, id) + '\0');
    // Versions newer than the marker were listed already. All rows needed here are requested first, so that they arrive
    // together.
    const auto newest = rows_.cursor(Table::versions, keys::version_prefix(bucket_, key));
    (void)objects_->valid();
    (void)versions_->valid();
    if (!newest->valid()) VB_TRY(newest->status());
    auto parsed = newest->valid() ? keys::parse_version(newest->key()) : std::nullopt;
    if (parsed && parsed->second >= id) newest_seen_ = key;
    if (!objects_->valid() || objects_->key() != object_key) return objects_->status();
    VB_ASSIGN(ObjectRecord current, decode_object(objects_->value()));
    if (current.id < id) return {};
    newest_seen_ = key;
    objects_->next();
    return {};
  }

 private:
  bool seek(const std::string& object, const std::string& version) {
    objects_->seek(object);
    versions_->seek(version);
    current_key_.reset();
    older_.reset();
    return true;
  }
  // Reads the keys under both cursors.
  Result<void> look() {
    if (!current_key_ && objects_->valid()) current_key_ = objects_->key().substr(keys::object_prefix_size);
    if (!older_ && versions_->valid()) {
      older_ = keys::parse_version(versions_->key());
      if (!older_) return fail(Errc::corrupt_object, "index: version key");
    }
    if (!current_key_) VB_TRY(objects_->status());
    if (!older_) VB_TRY(versions_->status());
    return {};
  }

  Moment& rows_;
  const uint64_t bucket_;
  std::unique_ptr<Cursor> objects_, versions_;
  std::optional<std::string> current_key_;
  std::optional<std::pair<std::string, uint64_t>> older_;
  std::string key_;
  ObjectRecord record_;
  bool latest_ = false;
  std::optional<std::string> newest_seen_;
};

namespace {

// The record id of a marker. A null version that is gone has none: its key is then listed again from its first version.
// It may be in either of two tables, which are read as of one moment.
Result<std::optional<uint64_t>> marker_id(Moment& rows, const Bucket& bucket, const ListVersionsRequest& request) {
  if (request.version_id_marker != null_version_id) {
    auto id = parse_version_id(request.version_id_marker);
    if (!id) return fail(Errc::invalid_version);
    return id;
  }
  auto current = find_object(rows, bucket, request.key_marker);
  auto pointer = find_row(rows, Table::uploads, keys::null_version(bucket.id, request.key_marker));
  if (!current) return std::unexpected(current.error());
  if (*current && (*current)->is_null()) return (*current)->id;
  if (!pointer) return std::unexpected(pointer.error());
  if (!*pointer) return std::nullopt;
  return keys::parse_number(**pointer);
}

}  // namespace

VersionLister::VersionLister(std::shared_ptr<const Bucket> bucket, ListVersionsRequest request)
    : bucket_(std::move(bucket)), request_(std::move(request)), room_(std::clamp(request_.max_keys, 0, page_max)) {}
VersionLister::~VersionLister() = default;

Result<void> VersionLister::begin(View& rows) {
  auto moment = rows.moment();
  auto cursor = std::make_unique<VersionCursor>(*moment, *bucket_, request_.prefix);
  if (!request_.key_marker.empty() && request_.key_marker >= request_.prefix) {
    // Everything under this common prefix was listed with it.
    const std::string seen(common_prefix(request_.key_marker, request_.prefix, request_.delimiter));
    if (!seen.empty()) {
      ends_ = !cursor->skip_prefix(seen);
    } else if (request_.version_id_marker.empty()) {
      cursor->skip_key(request_.key_marker);
    } else if (const auto behind = go_behind_marker(*moment, *cursor); !behind) {
      if (!passes(behind.error())) return behind;
      cursor->skip_key(request_.key_marker);
      note_damaged(request_.key_marker);
    }
  }
  moment_ = std::move(moment);
  cursor_ = std::move(cursor);
  return {};
}

Result<void> VersionLister::go_behind_marker(Moment& moment, VersionCursor& cursor) {
  if (!marker_) {
    VB_ASSIGN(const auto id, marker_id(moment, *bucket_, request_));
    marker_.emplace(id);
  }
  return cursor.skip_version(request_.key_marker, marker_->value_or(UINT64_MAX));
}

bool VersionLister::passes(const Error& error) const { return request_.passes_damage && is_damage(error); }

void VersionLister::note_damaged(const std::string& key) {
  page_.damaged.push_back(key);
  page_.next_key_marker = key;
  page_.next_version_id_marker.clear();
  --room_;
}

// A page is as of one moment: it ends where the moment was lost, and the next page continues there.
bool VersionLister::is_cut_short() {
  if (!moment_ || !moment_->lost()) return false;
  cursor_.reset();
  moment_.reset();
  page_.truncated = !page_.versions.empty() || !page_.common_prefixes.empty() || !page_.damaged.empty();
  return page_.truncated;
}

Result<VersionPage> VersionLister::run(View& rows) {
  if (room_ == 0 && !cursor_) return std::move(page_);
  if (is_cut_short()) return std::move(page_);
  if (!cursor_) VB_TRY(begin(rows));
  while (!ends_) {
    auto state = step();
    if (!state && passes(state.error()) && !cursor_->key().empty()) state = pass_damaged();
    if (!state) return std::unexpected(state.error());
    if (*state == PageState::complete) break;
  }
  if (!page_.truncated) {
    page_.next_key_marker.clear();
    page_.next_version_id_marker.clear();
  }
  return std::move(page_);
}

Result<PageState> VersionLister::step() {
  VB_ASSIGN(const bool found, cursor_->next());
  if (!found) return PageState::complete;
  const Versioning now = bucket_->versioning.load(std::memory_order_acquire);
  if (is_gone_by_name(*bucket_, cursor_->record().info, now)) return PageState::incomplete;
  const std::string hidden(common_prefix(cursor_->key(), request_.prefix, request_.delimiter));
  if (hidden.empty()) {
    page_.truncated = !add_version();
    return page_.truncated ? PageState::complete : PageState::incomplete;
  }
  if (hidden > request_.key_marker) {
    page_.truncated = !add_prefix(hidden);
    if (page_.truncated) return PageState::complete;
  }
  return cursor_->skip_prefix(hidden) ? PageState::incomplete : PageState::complete;
}

// Older versions of the key, too: which version is the next newer one is not known.
Result<PageState> VersionLister::pass_damaged() {
  page_.truncated = room_ == 0;
  if (page_.truncated) return PageState::complete;
  const std::string key = cursor_->key();
  cursor_->skip_key(key);
  note_damaged(key);
  return PageState::incomplete;
}

// Both return false when the page is full.
bool VersionLister::add_prefix(const std::string& hidden) {
  if (room_ == 0) return false;
  page_.common_prefixes.push_back(hidden);
  page_.next_key_marker = hidden;
  page_.next_version_id_marker.clear();
  --room_;
  return true;
}

bool VersionLister::add_version() {
  if (room_ == 0) return false;
  ObjectInfo info = cursor_->record().info;
  name_version(info, bucket_->versioning.load(std::memory_order_acquire));
  page_.next_key_marker = cursor_->key();
  page_.next_version_id_marker = info.version_id.empty() ? std::string(null_version_id) : info.version_id;
  page_.versions.push_back({cursor_->key(), std::move(info), cursor_->latest()});
  --room_;
  return true;
}

}  // namespace verbena::store
