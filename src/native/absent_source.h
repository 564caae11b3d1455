// The bytes of a PUT that stores only if there is no object: looks for one before the first byte is fetched, so that
// bytes which the store already has are not transferred. What comes between this look and the commit is decided by the
// commit.
#pragma once

#include <string>

#include "base/metrics.h"
#include "memory/stream.h"
#include "store/store.h"

namespace verbena::native {

class AbsentSource final : public memory::Source {
 public:
  // `store` and `from` outlive it.
  AbsentSource(store::Store& store, std::string_view bucket, std::string_view key, memory::Source& from)
      : store_(store), bucket_(bucket), key_(key), from_(from) {}

  std::optional<uint64_t> size() const override { return from_.size(); }
  Task<Result<void>> ready() override {
    VB_CO_TRY(co_await look());
    co_return co_await from_.ready();
  }
  Task<Result<size_t>> read(MutableBytes into) override {
    VB_CO_TRY(co_await look());
    co_return co_await from_.read(into);
  }
  uint64_t arrived() const override { return from_.arrived(); }

  static metrics::Counter& saved() {
    static auto& counter = metrics::counter("verbena_native_put_present_total",
                                            "PUTs whose bytes were not fetched because the store has the object");
    return counter;
  }

 private:
  Task<Result<void>> look() {
    if (looked_) co_return Result<void>{};
    looked_ = true;
    const auto found = co_await store_.stat(bucket_, key_);
    if (!found) co_return Result<void>{};
    saved().add();
    co_return fail(Errc::precondition_failed, "If-None-Match");
  }

  store::Store& store_;
  const std::string bucket_, key_;
  memory::Source& from_;
  bool looked_ = false;
};

}  // namespace verbena::native
