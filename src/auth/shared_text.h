// A text that several servers share in place of a file of each: their accounts, the ids of their master keys.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace verbena::auth {

// Thread-safe; both calls block.
class SharedText {
 public:
  virtual ~SharedText() = default;
  virtual Result<std::optional<std::string>> read() = 0;  // nullopt: it does not exist yet
  // Replaces `before` by `text`, durably. False: the current text is another one.
  virtual Result<bool> replace(const std::optional<std::string>& before, const std::string& text) = 0;
};

}  // namespace verbena::auth
