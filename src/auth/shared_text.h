// A text that several servers share, instead of a file of each one's: their accounts, the ids of their master keys.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace verbena::auth {

// Thread-safe; both calls block.
class SharedText {
 public:
  virtual ~SharedText() = default;
  virtual Result<std::optional<std::string>> read() = 0;  // nullopt: there is none yet
  // What was read becomes `text`, durably. False: it is another text by now.
  virtual Result<bool> replace(const std::optional<std::string>& before, const std::string& text) = 0;
};

}  // namespace verbena::auth
