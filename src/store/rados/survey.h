// A look at everything that the pools have of a store: what is lost, and what nobody names.
#pragma once

#include "store/rados/engine.h"

namespace verbena::store::rados {

Result<Survey> survey_store(Engine& engine);  // blocks

}  // namespace verbena::store::rados
