// A cursor that has no rows.
#pragma once

#include <string_view>
#include <utility>

#include "store/catalogue.h"

namespace verbena::store {

class EmptyCursor final : public Cursor {
 public:
  // An error: why the rows, if there are any, cannot be had.
  explicit EmptyCursor(Result<void> status = {}) : status_(std::move(status)) {}

  bool valid() const override { return false; }
  std::string_view key() const override { return {}; }
  std::string_view value() const override { return {}; }
  void next() override {}
  void seek(std::string_view) override {}
  Result<void> status() const override { return status_; }

 private:
  Result<void> status_;
};

}  // namespace verbena::store
