// A survey of everything that the pools have of a store: lost objects, and bytes that no row names.
#pragma once

#include "store/rados/engine.h"
#include "store/rados/inspect/row_survey.h"

namespace verbena::store::rados {

Result<Survey> survey_store(Engine& engine);  // blocks
// Whether that row names these bytes, and they are not there. Servers may run.
Task<Result<bool>> is_lost(Engine& engine, RowSurvey::Named named);

}  // namespace verbena::store::rados
