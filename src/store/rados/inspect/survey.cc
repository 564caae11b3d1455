#include "store/rados/inspect/survey.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "store/rados/inspect/row_survey.h"

namespace verbena::store::rados {
namespace {

constexpr size_t names_max = 100;

constexpr int looks_max = 50;  // at what a bucket that others change names
constexpr std::chrono::milliseconds check_again_after{100};

bool misses(const RowSurvey& rows, const std::string& small) {
  return rows.small_wanted.contains(small) && !rows.small_there.contains(small);
}

void lose(Engine& engine, const RowSurvey::Named& named, Survey& survey) {
  ++survey.lost_count;
  if (survey.lost.size() >= names_max) return;
  const auto bucket = engine.registry.find(named.bucket);
  survey.lost.push_back((bucket ? bucket->record.info.name : "") + "/" + name_in(named.row));
}

Task<Result<bool>> is_named(Registry& registry, std::string tablet, const RowSurvey::Named& named) {
  std::string name = named.row;
  VB_CO_ASSIGN(const std::string value, co_await registry.row(std::move(tablet), std::move(name)));
  if (value.empty()) co_return false;
  VB_CO_ASSIGN(const auto blobs, blobs_in(named.row, value));
  co_return std::ranges::find(blobs, named.blob) != blobs.end();
}

Task<Result<bool>> has_bytes(Engine& engine, std::string tablet, const RowSurvey::Named& named) {
  if (named.blob.kind == BlobKind::in_index) {
    std::string row = small_row(named.row, named.blob);
    VB_CO_ASSIGN(const std::string bytes, co_await engine.registry.row(std::move(tablet), std::move(row)));
    co_return !bytes.empty();
  }
  for (uint64_t stripe = 0; stripe < stripes_of(named.blob.size); ++stripe) {
    struct Reply {
      uint64_t size = 0;
      time_t modified = 0;
      int code = 0;
    };
    auto reply = std::make_shared<Reply>();
    librados::ObjectReadOperation op;
    op.stat(&reply->size, &reply->modified, &reply->code);
    const int code =
        co_await engine.cluster->read(Cluster::Pool::data, stripe_object(named.blob.id, stripe), std::move(op), reply);
    if (code == -ENOENT) co_return false;
    if (code < 0) co_return std::unexpected(to_error(code, "rados: stripe"));
  }
  co_return true;
}

}  // namespace

// Whether a row names bytes that are not there. The row is read before and after the bytes: it named them all the time
// between, since ids are not reused. Both must be of the tablet that has the key: one that was joined with another
// keeps the rows of then for a while. It is, as long as the bucket's epoch is the same.
Task<Result<bool>> is_lost(Engine& engine, RowSurvey::Named named) {
  for (int look = 0; look < looks_max; ++look) {
    if (look != 0) co_await pause(check_again_after);
    const auto state = co_await engine.registry.load(named.bucket);
    if (!state && state.error() == Errc::no_such_bucket) co_return false;
    if (!state) co_return std::unexpected(state.error());
    const std::string tablet = (*state)->tablets[(*state)->tablet_of(named.row)].object;
    const auto before = co_await is_named(engine.registry, tablet, named);
    if (!before && before.error() == Errc::not_found) continue;  // joined since
    if (!before) co_return before;
    VB_CO_ASSIGN(const bool there, co_await has_bytes(engine, tablet, named));
    if (there) co_return false;
    const auto after = co_await is_named(engine.registry, tablet, named);
    const auto now = co_await engine.registry.load(named.bucket);
    if (!after || !now || (*now)->epoch != (*state)->epoch) continue;
    co_return *before && *after;
  }
  co_return fail(Errc::slow_down, "rados: a bucket is changed too often to be checked");
}

namespace {

// Rows and bytes are read one after the other while servers may run, so bytes removed in between are not lost, nor are
// those that only a tablet without a name still names. So what was found is looked for again: in all rows, because a
// row may have moved, and then each by itself.
Result<void> tell_lost(Engine& engine, const RowSurvey& rows, std::map<uint64_t, uint64_t>& found, Survey& survey) {
  std::vector<uint64_t> striped;
  std::vector<std::string> small;
  for (const auto& [blob, named] : rows.striped) {
    if (found[blob] != stripes_of(named.blob.size)) striped.push_back(blob);
  }
  for (const auto& [row, by] : rows.small_wanted) {
    if (misses(rows, row)) small.push_back(row);
  }
  if (striped.empty() && small.empty()) return {};
  Survey counts;
  RowSurvey again(engine.registry, counts);
  VB_TRY(engine.run(again.run()));
  std::vector<RowSurvey::Named> missing;
  for (const uint64_t blob : striped) {
    if (const auto named = again.striped.find(blob); named != again.striped.end()) missing.push_back(named->second);
  }
  for (const std::string& row : small) {
    if (misses(again, row)) missing.push_back(again.small_wanted.at(row));
  }
  for (const RowSurvey::Named& named : missing) {
    VB_ASSIGN(const bool lost, engine.run(is_lost(engine, named)));
    if (lost) lose(engine, named, survey);
  }
  return {};
}

}  // namespace

Result<Survey> survey_store(Engine& engine) {
  Survey survey;
  RowSurvey rows(engine.registry, survey);
  VB_TRY(engine.run(rows.run()));
  std::map<uint64_t, uint64_t> found;  // blob -> number of its stripes found
  librados::IoCtx& pool = engine.cluster->context(Cluster::Pool::data);
  try {
    for (auto it = pool.nobjects_begin(); it != pool.nobjects_end(); ++it) {
      const auto stripe = parse_stripe(it->get_oid());
      if (!stripe) continue;
      ++survey.stripes;
      const auto named = rows.striped.find(stripe->first);
      if (named != rows.striped.end() && stripe->second < stripes_of(named->second.blob.size)) {
        ++found[stripe->first];
        survey.stripe_bytes += std::min(stripe_size, named->second.blob.size - stripe->second * stripe_size);
      } else if (!rows.waiting.contains(stripe->first)) {
        ++survey.unnamed_stripes;
      }
    }
  } catch (const std::exception&) {  // librados's iterator throws
    return fail(Errc::service_unavailable, "The Ceph cluster did not list its objects.");
  }
  VB_TRY(tell_lost(engine, rows, found, survey));
  return survey;
}

Result<Survey> RadosStore::survey() { return survey_store(*engine_); }

}  // namespace verbena::store::rados
