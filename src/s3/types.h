// Names that all of S3 uses. S3 knows no socket and no fabric: bytes come from a memory::Source and go to a
// memory::Sink.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "call/call.h"
#include "s3/access_generation.h"

namespace verbena::store {
class ObjectReader;
}

namespace verbena::s3 {

using call::Call;
using call::Door;

using Headers = std::vector<std::pair<std::string, std::string>>;
using HeaderSpan = std::span<const Headers::value_type>;

// An object found in memory, and the mark of the bucket's record before that look-up: under another record the bucket
// may be another one.
struct FoundObject {
  std::shared_ptr<store::ObjectReader> reader{};
  AccessGeneration::Mark record{};
};

}  // namespace verbena::s3
