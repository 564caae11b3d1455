// Kernels in the driver double: the text that cuModuleLoadData is given is what runs, interpreted (ptx.h), on memory of
// the double's devices.
#include <utility>

#include "double.h"
#include "double_world.h"
#include "ptx.h"

using namespace cuda_double;

namespace {

constexpr int invalid_ptx = 218, not_found = 500, illegal_address = 700;

struct Loaded {
  int device = 0;
  ptx::Module module;
};

std::string last_fault;  // under the world's lock

void note(const std::string& why) {
  const std::lock_guard lock(world().mutex);
  last_fault = why;
}

// The bytes of one allocation on the device, found again only where the last one does not have them. An allocation of a
// GPU has whole units of 256 bytes at least, whatever was asked for: here the last word of 8 bytes counts as its own.
class DeviceBytes {
 public:
  explicit DeviceBytes(int device) : device_(device) {}
  std::byte* operator()(uint64_t address, size_t size) {
    if (address < begin_ || address + size > begin_ + size_) {
      const std::lock_guard lock(world().mutex);
      constexpr size_t unit = 8;
      const Allocation* const one = ::find(address, 1, &begin_);
      if (one == nullptr || one->device != device_ || !one->accessible) return nullptr;
      size_ = (one->size + unit - 1) / unit * unit;
      if (address + size > begin_ + size_) return nullptr;
      bytes_ = one->bytes;
    }
    return bytes_ + (address - begin_);
  }

 private:
  int device_;
  uint64_t begin_ = 0, size_ = 0;
  std::byte* bytes_ = nullptr;
};

}  // namespace

extern "C" {

int cuModuleLoadData(void** module, const void* text) {
  const int status = enter_here("cuModuleLoadData");
  if (status != ok) return status;
  auto made = std::make_unique<Loaded>();
  made->device = stack.back()->device;
  std::string why;
  if (!ptx::parse(static_cast<const char*>(text), made->module, why)) {
    note(why);
    return invalid_ptx;
  }
  for (auto& [name, global] : made->module.globals) {
    global.address = double_allocate(made->device, global.size);
    if (global.address == 0) return out_of_memory;
    if (!global.initial.empty()) double_poke(global.address, global.initial.data(), global.size);
  }
  *module = made.release();
  return ok;
}
int cuModuleUnload(void* module) {
  const int status = enter_here("cuModuleUnload");
  if (status != ok) return status;
  const std::unique_ptr<Loaded> ended(static_cast<Loaded*>(module));
  for (const auto& [name, global] : ended->module.globals) double_free(global.address);
  return ok;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  const int status = enter_here("cuModuleGetFunction");
  if (status != ok) return status;
  if (!static_cast<Loaded*>(module)->module.kernels.contains(name)) return not_found;
  *function = module;  // it has one
  return ok;
}
int cuModuleGetGlobal_v2(uint64_t* address, size_t* size, void* module, const char* name) {
  const int status = enter_here("cuModuleGetGlobal_v2");
  if (status != ok) return status;
  const auto& globals = static_cast<Loaded*>(module)->module.globals;
  const auto found = globals.find(name);
  if (found == globals.end()) return not_found;
  *address = found->second.address;
  *size = found->second.size;
  return ok;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned blocks_y, unsigned blocks_z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void* handle, void** parameters,
                   void** extra) {
  const int status = enter_here("cuLaunchKernel");
  if (status != ok) return status;
  Stream* const stream = stream_of(handle);
  const Loaded* const loaded = static_cast<Loaded*>(function);
  if (stream == nullptr || stream->device != loaded->device) return invalid_handle;
  if (blocks == 0 || threads == 0 || threads > 1024 || blocks_y * blocks_z * threads_y * threads_z != 1 ||
      shared_bytes != 0 || extra != nullptr) {
    return invalid_value;
  }
  const ptx::Kernel& kernel = loaded->module.kernels.begin()->second;
  std::vector<uint64_t> values;
  for (size_t i = 0; i < kernel.parameters.size(); ++i) values.push_back(*static_cast<uint64_t*>(parameters[i]));
  stream->add([loaded, &kernel, values, blocks, threads] {
    if (world().contexts[loaded->device].lost) return;
    std::string why;
    DeviceBytes bytes(loaded->device);
    if (ptx::run(loaded->module, kernel, values, blocks, threads, std::ref(bytes), why)) return;
    note(why);
    world().contexts[loaded->device].lost = true;  // as a device after an illegal access
  });
  return ok;
}

const char* double_kernel_fault() {
  static thread_local std::string told;
  const std::lock_guard lock(world().mutex);
  told = std::exchange(last_fault, {});
  return told.c_str();
}
}
