#include "store/rados/inspect/survey.h"

#include <map>
#include <string>
#include <vector>

#include "store/rados/inspect/row_survey.h"

namespace verbena::store::rados {
namespace {

constexpr size_t names_max = 100;

void lose(Survey& survey, const std::string& name) {
  ++survey.lost_count;
  if (survey.lost.size() < names_max) survey.lost.push_back(name);
}

bool misses(const RowSurvey& rows, const std::string& small) {
  return rows.small_wanted.contains(small) && !rows.small_there.contains(small);
}

// Rows and bytes are read one after the other while servers may run, so bytes removed in between are not lost. A blob
// that rows name before and after existed all the time, since ids are not reused.
Result<void> tell_lost(Engine& engine, const RowSurvey& rows, std::map<uint64_t, uint64_t>& found, Survey& survey) {
  std::vector<uint64_t> striped;
  std::vector<std::string> small;
  for (const auto& [blob, named] : rows.striped) {
    if (found[blob] != stripes_of(named.size)) striped.push_back(blob);
  }
  for (const auto& [row, by] : rows.small_wanted) {
    if (misses(rows, row)) small.push_back(row);
  }
  if (striped.empty() && small.empty()) return {};
  Survey counts;
  RowSurvey again(engine.registry, counts);
  VB_TRY(engine.run(again.run()));
  for (const uint64_t blob : striped) {
    if (const auto named = again.striped.find(blob); named != again.striped.end()) lose(survey, named->second.by);
  }
  for (const std::string& row : small) {
    if (misses(again, row)) lose(survey, again.small_wanted.at(row));
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
      if (named != rows.striped.end() && stripe->second < stripes_of(named->second.size)) {
        ++found[stripe->first];
        survey.stripe_bytes += std::min(stripe_size, named->second.size - stripe->second * stripe_size);
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
