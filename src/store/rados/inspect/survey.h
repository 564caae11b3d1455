// A survey of everything that the pools have of a store: lost objects, and bytes that no row names.
#pragma once

#include "store/rados/engine.h"

namespace verbena::store::rados {

Result<Survey> survey_store(Engine& engine);  // blocks

}  // namespace verbena::store::rados
