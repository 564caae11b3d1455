// The writer of an object.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/logic/context.h"

namespace verbena::store {

std::unique_ptr<ObjectWriter> make_object_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint);

}  // namespace verbena::store
