// Readers that do more than read, such as filling the hot tier, and the plain reader of the same bytes behind them: for
// whatever keeps a reader for long.
#pragma once

#include <memory>

#include "store/store.h"

namespace verbena::store {

class ReadsBehind {
 public:
  virtual const std::shared_ptr<ObjectReader>& behind() const = 0;

 protected:
  ~ReadsBehind() = default;
};

inline std::shared_ptr<ObjectReader> behind(std::shared_ptr<ObjectReader> reader) {
  const auto* more = dynamic_cast<const ReadsBehind*>(reader.get());
  return more == nullptr ? reader : more->behind();
}

}  // namespace verbena::store
