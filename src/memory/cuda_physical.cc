#include "memory/cuda_physical.h"

#include "memory/cuda_context.h"

namespace verbena::memory::cuda {
namespace {

// One more reference to what is mapped at the address.
Outcome<uint64_t> handle_behind(const Driver& driver, void* context, uint64_t address) {
  uint64_t handle = 0;
  void* const at = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  auto found = in_context(driver, context, "cuMemRetainAllocationHandle",
                          [&](const Calls& c) { return c.physical_behind(&handle, at); });
  if (!found) return std::unexpected(std::move(found).error());
  return handle;
}

void release(const Driver& driver, void* context, uint64_t handle) {
  static_cast<void>(
      in_context(driver, context, "cuMemRelease", [&](const Calls& c) { return c.physical_release(handle); }));
}

}  // namespace

Outcome<std::shared_ptr<const Physical>> Physical::behind(const Driver& driver, const Allocation& mapping) {
  if (!driver.calls().shares_physical()) {
    return std::unexpected(Fault{Fault::Kind::failed, driver.path() + " shares no memory by descriptors"});
  }
  auto context = context_of(driver, mapping.device);
  if (!context) return std::unexpected(std::move(context).error());
  auto handle = handle_behind(driver, *context, mapping.begin);
  if (!handle) return std::unexpected(std::move(handle).error());
  return std::shared_ptr<const Physical>(new Physical(driver, *context, *handle, mapping));
}

Physical::~Physical() { release(driver_, context_, handle_); }

// As long as this object keeps the handle, no other memory has it.
bool Physical::is_there() const {
  const auto now = handle_behind(driver_, context_, begin_);
  if (!now) return false;
  release(driver_, context_, *now);
  return *now == handle_;
}

Outcome<Fd> Physical::descriptor() const {
  int descriptor = -1;
  auto exported = in_context(driver_, context_, "cuMemExportToShareableHandle", [&](const Calls& c) {
    return c.physical_export(&descriptor, handle_, handle_is_descriptor, 0);
  });
  if (!exported) return std::unexpected(std::move(exported).error());
  return Fd(descriptor);
}

}  // namespace verbena::memory::cuda
