// The writer of an object.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/logic/context.h"
#include "store/whole_put.h"

namespace verbena::store {

std::unique_ptr<ObjectWriter> make_object_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint);

// Store::put_whole(), in an existing bucket.
bool put_whole(Context& context, std::shared_ptr<const Bucket> bucket, WholePut& put);

}  // namespace verbena::store
