// Parsing of request documents: long ones on another thread, so that the core can serve other requests.
#pragma once

#include <string_view>

#include "base/beside_loop.h"
#include "base/bytes.h"

namespace verbena::s3 {

inline constexpr size_t read_at_once_bytes = 64 * KiB;

// `text` must stay valid until this returns.
template <class T>
Task<Result<T>> read_beside(std::string_view text, Result<T> (*parse)(std::string_view)) {
  if (text.size() <= read_at_once_bytes) co_return parse(text);
  const auto work = [text, parse] { return parse(text); };
  co_return co_await beside_loop("document", work);
}

}  // namespace verbena::s3
