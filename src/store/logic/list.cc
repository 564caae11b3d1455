#include "store/logic/list.h"

#include <algorithm>

#include "store/ends.h"
#include "store/logic/damage.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"
#include "store/logic/versions.h"

namespace verbena::store {
namespace {

constexpr size_t entries_first = 128;  // of a page, before it grows

// Moves past all keys that start with `hidden`. Complete: nothing can follow.
PageState skip(Cursor& cursor, const std::string& hidden) {
  auto next = keys::after_prefix(hidden);
  if (next) cursor.seek(*next);
  return next ? PageState::incomplete : PageState::complete;
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

ObjectLister::ObjectLister(std::shared_ptr<const Bucket> bucket, ListRequest request)
    : bucket_(std::move(bucket)), request_(std::move(request)) {
  restart();
}

void ObjectLister::restart() {
  cursor_.reset();
  page_ = {};
  if (request_.sink) request_.sink->restart();
  room_ = std::clamp(request_.max_keys, 0, page_max);
}

Result<ListPage> ObjectLister::run(View& rows, size_t work_max) {
  if (room_ == 0 && !cursor_) return std::move(page_);
  if (!cursor_) {
    // The smallest key above `after` is `after` and a zero byte.
    const std::string from = keys::object(bucket_->id, request_.after) + '\0';
    cursor_ = rows.cursor(Table::objects, keys::object(bucket_->id, request_.prefix), from);
  }
  work_left_ = work_max;
  while (cursor_->valid()) {
    if (work_left_ == 0) return fail(Errc::would_block, "list");
    auto state = step();
    if (!state && request_.passes_damage && is_damage(state.error())) state = pass_damaged();
    if (!state) return std::unexpected(state.error());
    if (*state == PageState::complete) break;
  }
  VB_TRY(cursor_->status());
  if (page_.truncated) page_.next_after = last_shown();
  return std::move(page_);
}

PageState ObjectLister::pass_damaged() {
  if (!takes()) return PageState::complete;
  page_.damaged.emplace_back(cursor_->key().substr(keys::object_prefix_size));
  cursor_->next();
  return PageState::incomplete;
}

// Keys and common prefixes are in one order: what was added last is the greatest.
std::string ObjectLister::last_shown() const {
  std::string_view last;
  if (!page_.entries.empty()) last = page_.entries.back().key;
  if (!page_.common_prefixes.empty()) last = std::max(last, std::string_view(page_.common_prefixes.back()));
  if (!page_.damaged.empty()) last = std::max(last, std::string_view(page_.damaged.back()));
  return std::string(last);
}

Result<bool> ObjectLister::is_gone(std::string_view row) const {
  VB_ASSIGN(const ObjectRecord record, decode_object(row));
  return bucket_->is_gone(record.info);
}

Result<PageState> ObjectLister::step() {
  --work_left_;
  const std::string_view key = cursor_->key().substr(keys::object_prefix_size);
  const std::string_view hidden = common_prefix(key, request_.prefix, request_.delimiter);
  if (hidden.empty()) return request_.sink ? pass_object(key) : add_object(key);
  // Few objects have an end: only rows with the name of its header are decoded.
  const std::string_view row = cursor_->value();
  if (row.find(expires_header) != std::string_view::npos) {
    VB_ASSIGN(const bool gone, is_gone(row));
    if (gone) {
      cursor_->next();
      return PageState::incomplete;
    }
  }
  return add_prefix(hidden);
}

// Whether the page has room for one more item, which then takes it.
bool ObjectLister::takes() {
  page_.truncated = room_ == 0;
  if (!page_.truncated) --room_;
  return !page_.truncated;
}

PageState ObjectLister::sink_is_full() {
  page_.truncated = true;
  return PageState::complete;
}

// Decodes in place: a page has up to a thousand objects.
Result<PageState> ObjectLister::add_object(std::string_view key) {
  if (page_.entries.empty()) page_.entries.reserve(std::min<size_t>(static_cast<size_t>(room_), entries_first));
  ListEntry& entry = page_.entries.emplace_back();
  if (const auto read = decode_info(cursor_->value(), entry.info); !read) {
    page_.entries.pop_back();
    return std::unexpected(read.error());
  }
  const bool gone = bucket_->is_gone(entry.info);
  if (gone || !takes()) {
    page_.entries.pop_back();
    if (!gone) return PageState::complete;
  } else {
    entry.key = key;
    name_version(entry.info, bucket_->versioning.load(std::memory_order_acquire));
  }
  cursor_->next();
  return PageState::incomplete;
}

// Few objects have an end: only those are decoded as a whole.
Result<PageState> ObjectLister::pass_object(std::string_view key) {
  const std::string_view row = cursor_->value();
  VB_ASSIGN(const BriefHead head, decode_brief(row, request_.sink->wanted()));
  bool gone = false;
  if (head.may_end) {
    VB_ASSIGN(gone, is_gone(row));
  }
  if (!gone) {
    if (!takes()) return PageState::complete;
    if (!request_.sink->add(key, head)) return sink_is_full();
  }
  cursor_->next();
  return PageState::incomplete;
}

PageState ObjectLister::add_prefix(std::string_view hidden) {
  if (hidden > request_.after) {
    if (!takes()) return PageState::complete;
    if (!request_.sink) {
      page_.common_prefixes.emplace_back(hidden);
    } else if (!request_.sink->add_prefix(hidden)) {
      return sink_is_full();
    }
  }
  work_left_ -= std::min(work_left_, seek_work);
  return skip(*cursor_, keys::object(bucket_->id, hidden));
}

UploadLister::UploadLister(std::shared_ptr<const Bucket> bucket, ListUploadsRequest request)
    : bucket_(std::move(bucket)), request_(std::move(request)), room_(std::clamp(request_.max_uploads, 0, page_max)) {}

void UploadLister::begin(View& rows) {
  std::string from;
  if (!request_.key_marker.empty() && request_.key_marker >= request_.prefix) {
    // With an upload id: after that upload. Without: after all uploads of the key.
    from = keys::upload(bucket_->id, request_.key_marker, request_.upload_id_marker);
    from = request_.upload_id_marker.empty() ? *keys::after_prefix(from) : from + '\0';
  }
  cursor_ = rows.cursor(Table::uploads, keys::upload_key_prefix(bucket_->id, request_.prefix), from);
}

Result<UploadPage> UploadLister::run(View& rows) {
  if (room_ == 0 && !cursor_) return std::move(page_);
  if (!cursor_) begin(rows);
  while (cursor_->valid()) {
    VB_ASSIGN(const PageState state, step());
    if (state == PageState::complete) break;
  }
  VB_TRY(cursor_->status());
  if (!page_.truncated) {
    page_.next_key_marker.clear();
    page_.next_upload_id_marker.clear();
  }
  return std::move(page_);
}

Result<PageState> UploadLister::step() {
  auto parsed = keys::parse_upload(cursor_->key());
  if (!parsed) return fail(Errc::corrupt_object, "index: upload key");
  auto& [key, upload_id] = *parsed;
  std::string hidden(common_prefix(key, request_.prefix, request_.delimiter));
  const bool seen = !hidden.empty() && hidden <= request_.key_marker;
  if (!seen && room_ == 0) {
    page_.truncated = true;
    return PageState::complete;
  }
  if (hidden.empty()) {
    VB_TRY(add_upload(std::move(key), std::move(upload_id)));
    cursor_->next();
    return PageState::incomplete;
  }
  if (!seen) {
    page_.common_prefixes.push_back(hidden);
    page_.next_key_marker = hidden;
    page_.next_upload_id_marker.clear();
    --room_;
  }
  return skip(*cursor_, keys::upload_key_prefix(bucket_->id, hidden));
}

Result<void> UploadLister::add_upload(std::string key, std::string upload_id) {
  page_.next_key_marker = key;
  page_.next_upload_id_marker = upload_id;
  auto info = to_upload(*bucket_, key, std::move(upload_id), cursor_->value());
  if (info) {
    page_.uploads.push_back(std::move(*info));
  } else if (request_.passes_damage && is_damage(info.error())) {
    page_.damaged.push_back(std::move(key));
  } else {
    return std::unexpected(info.error());
  }
  --room_;
  return {};
}

}  // namespace verbena::store
