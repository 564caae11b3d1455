#include "store/rados/survey.h"

#include <map>
#include <set>

#include "store/logic/record.h"

namespace verbena::store::rados {
namespace {

constexpr size_t names_max = 100;

struct Named {
  uint64_t size;
  std::string by;
};

// Every row of every bucket.
class RowSurvey {
 public:
  RowSurvey(Engine& engine, Survey& survey) : registry_(engine.registry), survey_(survey) {}

  Task<Result<void>> run() {
    VB_CO_ASSIGN(auto buckets, co_await registry_.all(std::string(root_object), "b"));
    for (const auto& [name, value] : buckets) {
      auto state = co_await registry_.load(keys::parse_number(value).value_or(0));
      if (!state && state.error() == Errc::no_such_bucket) continue;
      if (!state) co_return std::unexpected(state.error());
      ++survey_.buckets;
      for (size_t i = 0; i < (*state)->tablets.size(); ++i) {
        ++survey_.tablets;
        VB_CO_TRY(co_await look_at(**state, i));
      }
    }
    co_return Result<void>{};
  }

  std::map<uint64_t, Named> striped;  // by blob
  std::set<uint64_t> waiting;
  std::map<std::string, std::string> small_wanted;  // row -> whose
  std::set<std::string> small_there;

 private:
  Task<Result<void>> look_at(const BucketState& state, size_t tablet) {
    const std::string object = state.tablets[tablet].object;
    for (std::string after;;) {
      VB_CO_ASSIGN(auto page, co_await registry_.page(object, after, ""));
      for (auto& [row, value] : page->rows) {
        after = row;
        const char letter = row.front();
        // What a split has left behind is another tablet's.
        if (tablet_letters.contains(letter) && state.tablet_of(row) != tablet) continue;
        VB_CO_TRY(add(state, row, to_text(value)));
      }
      if (!page->more || page->rows.empty()) co_return Result<void>{};
    }
  }

  Result<void> add(const BucketState& state, const std::string& row, const std::string& value) {
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

  Result<void> add_parts(const BucketState& state, const std::string& row, const std::string& value,
                         const std::string& bucket) {
    // As an upload's name: key, end mark, and the rest.
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

  void name(uint64_t bucket, const std::string& key, const BlobRef& blob, std::string by) {
    if (blob.kind == BlobKind::in_index) {
      small_wanted.emplace(std::to_string(bucket) + inline_row(key, blob.id), std::move(by));
    }
    if (blob.kind == BlobKind::extents) striped.insert_or_assign(blob.id, Named{blob.size, std::move(by)});
  }

  Registry& registry_;
  Survey& survey_;
};

void lose(Survey& survey, const std::string& name) {
  ++survey.lost_count;
  if (survey.lost.size() < names_max) survey.lost.push_back(name);
}

}  // namespace

Result<Survey> survey_store(Engine& engine) {
  Survey survey;
  RowSurvey rows(engine, survey);
  VB_TRY(engine.run(rows.run()));
  std::map<uint64_t, uint64_t> found;  // blob -> how many of its stripes
  librados::IoCtx& pool = engine.cluster->context(Cluster::Pool::data);
  try {
    for (auto it = pool.nobjects_begin(); it != pool.nobjects_end(); ++it) {
      const auto stripe = parse_stripe(it->get_oid());
      if (!stripe) continue;
      ++survey.stripes;
      const auto named = rows.striped.find(stripe->first);
      if (named != rows.striped.end() && stripe->second < stripes_of(named->second.size)) {
        ++found[stripe->first];
        survey.stripe_bytes += std::min(stripe_size, named->second.size - stripe->second * stripe_size);
      } else if (!rows.waiting.contains(stripe->first)) {
        ++survey.unnamed_stripes;
      }
    }
  } catch (const std::exception&) {  // librados throws out of its iterator
    return fail(Errc::service_unavailable, "The Ceph cluster did not list its objects.");
  }
  for (const auto& [blob, named] : rows.striped) {
    if (found[blob] != stripes_of(named.size)) lose(survey, named.by);
  }
  for (const auto& [row, by] : rows.small_wanted) {
    if (!rows.small_there.contains(row)) lose(survey, by);
  }
  return survey;
}

}  // namespace verbena::store::rados
