#include "store/rados/survey.h"

#include <map>

#include "store/rados/row_survey.h"

namespace verbena::store::rados {
namespace {

constexpr size_t names_max = 100;

void lose(Survey& survey, const std::string& name) {
  ++survey.lost_count;
  if (survey.lost.size() < names_max) survey.lost.push_back(name);
}

}  // namespace

Result<Survey> survey_store(Engine& engine) {
  Survey survey;
  RowSurvey rows(engine.registry, survey);
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
