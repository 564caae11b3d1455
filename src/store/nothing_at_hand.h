// The view of an engine that has nothing without waiting: every look says would_block.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/catalogue.h"

namespace verbena::store {

class NothingAtHand final : public View {
 public:
  Result<std::string> get(Table, std::string_view) override { return fail(Errc::would_block, "rows"); }
  std::unique_ptr<Cursor> cursor(Table, std::string, std::string_view) override { return std::make_unique<None>(); }
  std::unique_ptr<Moment> moment() override { return std::make_unique<SameMoment>(*this); }

 private:
  class None final : public Cursor {
   public:
    bool valid() const override { return false; }
    std::string_view key() const override { return {}; }
    std::string_view value() const override { return {}; }
    void next() override {}
    void seek(std::string_view) override {}
    Result<void> status() const override { return fail(Errc::would_block, "rows"); }
  };
};

}  // namespace verbena::store
