#include "store/rados/inspect/row_survey.h"

#include <algorithm>
#include <optional>

#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

// The key of a row of an object, a version or parts, and what follows it.
std::optional<std::pair<std::string, std::string>> parse_row(std::string_view row) {
  const std::string rest(row.substr(1));
  if (row.front() == 'o') return std::pair(rest, std::string());
  if (row.front() == 'v') {
    const auto version = keys::parse_version(keys::number(0) + rest);
    return version ? std::optional(std::pair(version->first, std::string())) : std::nullopt;
  }
  if (row.front() != 'x') return std::nullopt;
  // Like an upload's row: key, end mark, and the rest.
  const auto upload = keys::parse_upload(keys::upload_prefix(0).append(rest));
  return upload ? std::optional(std::pair(upload->first, std::string(upload->second))) : std::nullopt;
}

}  // namespace

Task<Result<void>> RowSurvey::run() {
  VB_CO_ASSIGN(auto buckets, co_await registry_.all(std::string(root_object), "b"));
  for (const auto& [name, value] : buckets) {
    const uint64_t id = keys::parse_number(value).value_or(0);
    auto state = co_await registry_.load(id);
    auto looked = state ? co_await look_at_bucket(std::move(*state)) : std::unexpected(state.error());
    const bool missing = !looked && (looked.error() == Errc::no_such_bucket || looked.error() == Errc::not_found);
    if (missing) looked = co_await registry_.check_removed(name.substr(1), id);
    if (!looked) co_return looked;
  }
  co_return Result<void>{};
}

// A tablet that is joined while those before it are read goes some minutes later. Its keys are in another one then.
Task<Result<void>> RowSurvey::look_at_bucket(BucketPtr state) {
  ++survey_.buckets;
  for (std::string from;;) {
    const size_t tablet = state->tablet_of("o" + from);
    const uint64_t number = state->tablets[tablet].number;
    auto looked = co_await look_at(*state, tablet, from);
    if (!looked && looked.error() == Errc::not_found) {
      VB_CO_ASSIGN(state, co_await registry_.load(state->id));
      const bool is_lost = std::ranges::find(state->tablets, number, &Tablet::number) != state->tablets.end();
      if (is_lost) co_return looked;
      continue;
    }
    if (!looked) co_return looked;
    ++survey_.tablets;
    if (tablet + 1 == state->tablets.size()) co_return Result<void>{};
    from = state->tablets[tablet + 1].low;
  }
}

// The rows of keys from that one on.
Task<Result<void>> RowSurvey::look_at(const BucketState& state, size_t tablet, const std::string& from) {
  const std::string object = state.tablets[tablet].object;
  for (std::string after;;) {
    VB_CO_ASSIGN(auto page, co_await registry_.page(object, after, ""));
    for (auto& [row, value] : page->rows) {
      after = row;
      const char letter = row.front();
      // Rows left behind by a split belong to another tablet.
      const bool of_key = tablet_letters.contains(letter);
      if (of_key && (state.tablet_of(row) != tablet || row < first_row(letter, from))) continue;
      VB_CO_TRY(add(state, row, to_text(value)));
    }
    if (!page->more || page->rows.empty()) co_return Result<void>{};
  }
}

Result<void> RowSurvey::add(const BucketState& state, const std::string& row, const std::string& value) {
  switch (row.front()) {
    case '!':
      if (waiting.insert(parse_dead_row(row).value_or(0)).second) ++survey_.waiting_blobs;
      return {};
    case 'i':
      ++survey_.small_blobs;
      survey_.small_bytes += value.size() - std::min<size_t>(value.size(), 4);
      small_there.insert(std::to_string(state.id) + row);
      return {};
    case 'o':
      ++survey_.objects;
      break;
    case 'v':
      ++survey_.versions;
      break;
    case 'x': {
      const auto parsed = parse_row(row);
      if (parsed && keys::is_part(parsed->second)) ++survey_.parts;
      break;
    }
    default:
      return {};
  }
  VB_ASSIGN(const auto blobs, blobs_in(row, value));
  for (const BlobRef& blob : blobs) {
    Named named{blob, state.id, row};
    if (blob.kind == BlobKind::in_index) {
      small_wanted.emplace(std::to_string(state.id) + small_row(row, blob), std::move(named));
    } else if (blob.kind == BlobKind::extents) {
      striped.insert_or_assign(blob.id, std::move(named));
    }
  }
  return {};
}

std::string name_in(std::string_view row) {
  const auto parsed = parse_row(row);
  if (!parsed) return {};
  return parsed->first + (keys::is_part(parsed->second) ? " (a part)" : "");
}

std::string small_row(std::string_view row, const BlobRef& blob) {
  const auto parsed = parse_row(row);
  return parsed ? inline_row(parsed->first, blob.id) : std::string();
}

Result<std::vector<BlobRef>> blobs_in(std::string_view row, std::string_view value) {
  const auto parsed = parse_row(row);
  if (!parsed && row.front() == 'v') return fail(Errc::corrupt_object, "rados: row of a version");
  if (!parsed && row.front() == 'x') return fail(Errc::corrupt_object, "rados: row of parts");
  std::vector<BlobRef> blobs;
  if (!parsed) return blobs;
  if (row.front() != 'x') {
    VB_ASSIGN(const ObjectRecord record, decode_object(value));
    if (record.part_count == 0) blobs.push_back(record.blob);
  } else if (keys::is_part(parsed->second)) {
    VB_ASSIGN(const StoredPart part, decode_part(value));
    blobs.push_back(part.blob);
  } else if (keys::is_object_parts(parsed->second)) {
    VB_ASSIGN(const auto parts, decode_parts(value));
    for (const StoredPart& part : parts) blobs.push_back(part.blob);
  }
  return blobs;
}

Result<void> add_striped(std::string_view row, std::string_view value, std::set<uint64_t>& blobs) {
  if (row.front() == '!') {
    blobs.insert(parse_dead_row(row).value_or(0));
    return {};
  }
  VB_ASSIGN(const auto named, blobs_in(row, value));
  for (const BlobRef& blob : named) {
    if (blob.kind == BlobKind::extents) blobs.insert(blob.id);
  }
  return {};
}

}  // namespace verbena::store::rados
