// The view of an engine that has nothing without waiting: every look says would_block.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/catalogue.h"
#include "store/empty_cursor.h"

namespace verbena::store {

class NothingAtHand final : public View {
 public:
  Result<std::string> get(Table, std::string_view) override { return fail(Errc::would_block, "rows"); }
  std::unique_ptr<Cursor> cursor(Table, std::string, std::string_view) override {
    return std::make_unique<EmptyCursor>(fail(Errc::would_block, "rows"));
  }
  std::unique_ptr<Moment> moment() override { return std::make_unique<SameMoment>(*this); }
};

}  // namespace verbena::store
