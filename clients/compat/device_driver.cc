#include "device_driver.h"

#include <dlfcn.h>

#include <cstdlib>

namespace verbena::compat {
namespace {

template <class Function>
void find(void* library, const char* name, Function*& into) {
  into = reinterpret_cast<Function*>(dlsym(library, name));
}

// What is null without a driver.
DeviceDriver load() {
  DeviceDriver driver{};
  const char* const named = secure_getenv("TEST_VERBENA_CUDA_DRIVER");
  void* const library = dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return driver;
  find(library, "cuPointerGetAttribute", driver.attribute);
  find(library, "cuDeviceGet", driver.device);
  find(library, "cuDevicePrimaryCtxRetain", driver.context);
  find(library, "cuCtxPushCurrent_v2", driver.push);
  find(library, "cuCtxPopCurrent_v2", driver.pop);
  find(library, "cuMemcpyHtoD_v2", driver.to_device);
  find(library, "cuMemcpyDtoH_v2", driver.to_host);
  find(library, "cuStreamSynchronize", driver.finish);
  find(library, "cuMemHostRegister_v2", driver.lock);
  find(library, "cuMemHostUnregister", driver.unlock);
  find(library, "cuDeviceGetAttribute", driver.device_attribute);
  find(library, "cuPointerSetAttribute", driver.set_attribute);
  find(library, "cuDriverGetVersion", driver.version);
  find(library, "cuMemGetHandleForAddressRange", driver.export_range);
  return driver;
}

}  // namespace

const DeviceDriver* device_driver() {
  static const DeviceDriver driver = load();
  return driver.attribute != nullptr ? &driver : nullptr;
}

}  // namespace verbena::compat
