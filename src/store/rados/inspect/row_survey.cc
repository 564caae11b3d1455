#include "store/rados/inspect/row_survey.h"

#include "store/logic/keys.h"

namespace verbena::store::rados {

Task<Result<void>> RowSurvey::run() {
  VB_CO_ASSIGN(auto buckets, co_await registry_.all(std::string(root_object), "b"));
  for (const auto& [name, value] : buckets) {
    const uint64_t id = keys::parse_number(value).value_or(0);
    auto looked = co_await look_at_bucket(id);
    const bool missing = !looked && (looked.error() == Errc::no_such_bucket || looked.error() == Errc::not_found);
    if (missing) looked = co_await registry_.check_removed(name.substr(1), id);
    if (!looked) co_return looked;
  }
  co_return Result<void>{};
}

Task<Result<void>> RowSurvey::look_at_bucket(uint64_t id) {
  VB_CO_ASSIGN(const BucketPtr state, co_await registry_.load(id));
  ++survey_.buckets;
  for (size_t i = 0; i < state->tablets.size(); ++i) {
    ++survey_.tablets;
    VB_CO_TRY(co_await look_at(*state, i));
  }
  co_return Result<void>{};
}

Task<Result<void>> RowSurvey::look_at(const BucketState& state, size_t tablet) {
  const std::string object = state.tablets[tablet].object;
  for (std::string after;;) {
    VB_CO_ASSIGN(auto page, co_await registry_.page(object, after, ""));
    for (auto& [row, value] : page->rows) {
      after = row;
      const char letter = row.front();
      // Rows left behind by a split belong to another tablet.
      if (tablet_letters.contains(letter) && state.tablet_of(row) != tablet) continue;
      VB_CO_TRY(add(state, row, to_text(value)));
    }
    if (!page->more || page->rows.empty()) co_return Result<void>{};
  }
}

Result<void> RowSurvey::add(const BucketState& state, const std::string& row, const std::string& value) {
  const std::string bucket = state.record.info.name + "/";
  switch (row.front()) {
    case '!':
      waiting.insert(parse_dead_row(row).value_or(0));
      ++survey_.waiting_blobs;
      return {};
    case 'i':
      ++survey_.small_blobs;
      survey_.small_bytes += value.size() - std::min<size_t>(value.size(), 4);
      small_there.insert(std::to_string(state.id) + row);
      return {};
    case 'o':
    case 'v': {
      VB_ASSIGN(const ObjectRecord record, decode_object(value));
      ++(row.front() == 'o' ? survey_.objects : survey_.versions);
      std::string key = row.substr(1);
      if (row.front() == 'v') {
        const auto parsed = keys::parse_version(keys::number(state.id) + row.substr(1));
        if (!parsed) return fail(Errc::corrupt_object, "rados: row of a version");
        key = parsed->first;
      }
      if (record.part_count == 0) name(state.id, key, record.blob, bucket + key);
      return {};
    }
    case 'x':
      return add_parts(state, row.substr(1), value, bucket);
    default:
      return {};
  }
}

Result<void> RowSurvey::add_parts(const BucketState& state, const std::string& row, const std::string& value,
                                  const std::string& bucket) {
  // Like an upload's row: key, end mark, and the rest.
  const auto parsed = keys::parse_upload(keys::upload_prefix(state.id) + row);
  if (!parsed) return fail(Errc::corrupt_object, "rados: row of parts");
  const auto& [key, rest] = *parsed;
  if (keys::is_part(rest)) {
    VB_ASSIGN(const StoredPart part, decode_part(value));
    ++survey_.parts;
    name(state.id, key, part.blob, bucket + key + " (a part)");
  } else if (keys::is_object_parts(rest)) {
    VB_ASSIGN(const auto parts, decode_parts(value));
    for (const StoredPart& part : parts) name(state.id, key, part.blob, bucket + key);
  }
  return {};
}

void RowSurvey::name(uint64_t bucket, const std::string& key, const BlobRef& blob, std::string by) {
  if (blob.kind == BlobKind::in_index) {
    small_wanted.emplace(std::to_string(bucket) + inline_row(key, blob.id), std::move(by));
  }
  if (blob.kind == BlobKind::extents) striped.insert_or_assign(blob.id, Named{blob.size, std::move(by)});
}

Result<void> add_striped(std::string_view row, std::string_view value, std::set<uint64_t>& blobs) {
  const auto add = [&blobs](const BlobRef& blob) {
    if (blob.kind == BlobKind::extents) blobs.insert(blob.id);
  };
  switch (row.front()) {
    case '!':
      blobs.insert(parse_dead_row(row).value_or(0));
      return {};
    case 'o':
    case 'v': {
      VB_ASSIGN(const ObjectRecord record, decode_object(value));
      if (record.part_count == 0) add(record.blob);
      return {};
    }
    case 'x': {
      const auto parsed = keys::parse_upload(keys::upload_prefix(0).append(row.substr(1)));
      if (!parsed) return fail(Errc::corrupt_object, "rados: row of parts");
      if (keys::is_part(parsed->second)) {
        VB_ASSIGN(const StoredPart part, decode_part(value));
        add(part.blob);
      } else if (keys::is_object_parts(parsed->second)) {
        VB_ASSIGN(const auto parts, decode_parts(value));
        for (const StoredPart& part : parts) add(part.blob);
      }
      return {};
    }
    default:
      return {};
  }
}

}  // namespace verbena::store::rados
