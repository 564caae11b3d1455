#include "memory/cuda_crc.h"

#include "memory/cuda_context.h"

namespace verbena::memory::cuda {

Outcome<std::unique_ptr<DeviceCrc>> DeviceCrc::load(Queue& queue, Algorithm algorithm, const std::string& text) {
  const Driver& driver = queue.driver_;
  if (!driver.calls().runs_kernels()) {
    return std::unexpected(Fault{.text = driver.path() + " runs no kernels of a text"});
  }
  std::unique_ptr<DeviceCrc> made(new DeviceCrc(queue, algorithm));
  const std::string given = text.empty() ? crc_kernel(algorithm) : text;
  size_t size = 0;
  auto done = in_context(driver, queue.context_, "cuModuleLoadData",
                         [&](const Calls& c) { return c.module_load(&made->module_, given.c_str()); });
  if (done) {
    done = in_context(driver, queue.context_, "cuModuleGetFunction",
                      [&](const Calls& c) { return c.module_function(&made->function_, made->module_, crc_entry); });
  }
  if (done) {
    done = in_context(driver, queue.context_, "cuModuleGetGlobal", [&](const Calls& c) {
      return c.module_global(&made->results_, &size, made->module_, crc_results);
    });
  }
  if (done && size < crc_results_max * sizeof(uint64_t)) done = std::unexpected(Fault{.text = "a kernel without room"});
  if (!done) return std::unexpected(std::move(done).error());
  return made;
}

DeviceCrc::~DeviceCrc() {
  if (module_ == nullptr) return;
  static_cast<void>(in_context(queue_.driver_, queue_.context_, "cuModuleUnload",
                               [&](const Calls& c) { return c.module_unload(module_); }));
}

Outcome<> DeviceCrc::launch(uint64_t address, uint64_t size, size_t first) {
  uint64_t place = first;
  void* parameters[] = {&address, &size, &place};  // copied by the call
  const auto blocks = static_cast<unsigned>(crc_blocks(algorithm_, address, size));
  return in_context(queue_.driver_, queue_.context_, "cuLaunchKernel", [&](const Calls& c) {
    return c.launch(function_, blocks, 1, 1, crc_threads, 1, 1, 0, queue_.stream_, parameters, nullptr);
  });
}

}  // namespace verbena::memory::cuda
