#include "memory/cuda_crc.h"

#include "memory/cuda_context.h"
#include "memory/limited_call.h"

namespace verbena::memory::cuda {

// Of a device's primary context, which stays until the process ends.
class CrcModule {
 public:
  static Outcome<std::unique_ptr<CrcModule>> load(const Driver& driver, void* context, const std::string& text);
  ~CrcModule() {
    if (module_ == nullptr) return;
    static_cast<void>(
        in_context(driver_, context_, "cuModuleUnload", [&](const Calls& c) { return c.module_unload(module_); }));
  }
  CrcModule(const CrcModule&) = delete;

  void* function() const { return function_; }
  uint64_t results() const { return results_; }

 private:
  CrcModule(const Driver& driver, void* context) : driver_(driver), context_(context) {}

  const Driver& driver_;
  void* const context_;
  void* module_ = nullptr;
  void* function_ = nullptr;
  uint64_t results_ = 0;
};

Outcome<std::unique_ptr<CrcModule>> CrcModule::load(const Driver& driver, void* context, const std::string& text) {
  std::unique_ptr<CrcModule> made(new CrcModule(driver, context));
  size_t size = 0;
  auto done = in_context(driver, context, "cuModuleLoadData",
                         [&](const Calls& c) { return c.module_load(&made->module_, text.c_str()); });
  if (done) {
    done = in_context(driver, context, "cuModuleGetFunction",
                      [&](const Calls& c) { return c.module_function(&made->function_, made->module_, crc_entry); });
  }
  if (done) {
    done = in_context(driver, context, "cuModuleGetGlobal", [&](const Calls& c) {
      return c.module_global(&made->results_, &size, made->module_, crc_results);
    });
  }
  if (done && size < crc_results_max * sizeof(uint64_t)) done = std::unexpected(Fault{.text = "a kernel without room"});
  if (!done) return std::unexpected(std::move(done).error());
  return made;
}

namespace {

std::atomic<unsigned> loads_left_alone{0};  // that no caller waits for

}  // namespace

Outcome<std::unique_ptr<DeviceCrc>> DeviceCrc::load(Queue& queue, Algorithm algorithm, Deadline until,
                                                    const std::stop_token& stop, const std::string& text) {
  const Driver& driver = queue.driver_;
  if (!driver.calls().runs_kernels()) {
    return std::unexpected(Fault{.text = driver.path() + " runs no kernels of a text"});
  }
  if (loads_left_alone != 0) {
    return std::unexpected(Fault{Fault::Kind::late, "the driver still loads a kernel that was given up"});
  }
  const auto load = [&driver, context = queue.context_, given = text.empty() ? crc_kernel(algorithm) : text] {
    return CrcModule::load(driver, context, given);
  };
  auto loaded = limited_call(load, loads_left_alone, until, stop);
  if (!loaded) {
    if (stop.stop_requested()) return std::unexpected(Fault{Fault::Kind::cancelled, "cancelled by the caller"});
    return std::unexpected(Fault{Fault::Kind::late, "the driver did not load the kernel in time"});
  }
  if (!*loaded) return std::unexpected(std::move(*loaded).error());
  return std::unique_ptr<DeviceCrc>(new DeviceCrc(queue, algorithm, std::move(**loaded)));
}

DeviceCrc::DeviceCrc(Queue& queue, Algorithm algorithm, std::unique_ptr<CrcModule> module)
    : queue_(queue), algorithm_(algorithm), module_(std::move(module)) {}

DeviceCrc::~DeviceCrc() = default;

uint64_t DeviceCrc::results() const { return module_->results(); }

Outcome<> DeviceCrc::launch(uint64_t address, uint64_t size, size_t first) {
  uint64_t place = first;
  void* parameters[] = {&address, &size, &place};  // copied by the call
  const auto blocks = static_cast<unsigned>(crc_blocks(algorithm_, address, size));
  return in_context(queue_.driver_, queue_.context_, "cuLaunchKernel", [&](const Calls& c) {
    return c.launch(module_->function(), blocks, 1, 1, crc_threads, 1, 1, 0, queue_.stream_, parameters, nullptr);
  });
}

}  // namespace verbena::memory::cuda
