#include "memory/cuda_crc.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "memory/cuda_context.h"

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

using LoadedModule = Outcome<std::unique_ptr<CrcModule>>;

// What a thread of its own loads. `outcome` is there when the driver has come to an end.
struct ModuleLoad {
  const Driver& driver;
  void* const context;
  const std::string text;
  std::mutex mutex = {};
  std::condition_variable_any ended = {};
  std::optional<LoadedModule> outcome = {};

  void run() {
    auto loaded = CrcModule::load(driver, context, text);
    const std::lock_guard lock(mutex);
    outcome = std::move(loaded);
    ended.notify_one();
  }
};

// Loads that no caller waits for any more, for the next caller that needs the same. Thread-safe.
class LoadsLeftAlone {
 public:
  static LoadsLeftAlone& get() {
    static auto* const instance = new LoadsLeftAlone;  // their threads may outlive the end of the program
    return *instance;
  }

  void add(std::shared_ptr<ModuleLoad> load) {
    const std::lock_guard lock(mutex_);
    loads_.push_back(std::move(load));
  }

  // One of this text that has ended; `late`: the driver still loads another one in this context. Nothing: there is
  // none.
  std::optional<LoadedModule> take(const Driver& driver, void* context, const std::string& text) {
    const std::lock_guard lock(mutex_);
    bool loading = false;
    for (auto at = loads_.begin(); at != loads_.end(); ++at) {
      ModuleLoad& load = **at;
      if (&load.driver != &driver || load.context != context) continue;
      std::unique_lock its(load.mutex);
      loading = loading || !load.outcome;
      if (!load.outcome || load.text != text) continue;
      auto loaded = std::move(load.outcome);
      its.unlock();
      loads_.erase(at);
      return loaded;
    }
    if (!loading) return std::nullopt;
    return std::unexpected(Fault{Fault::Kind::late, "the driver still loads a kernel that was given up"});
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<ModuleLoad>> loads_;
};

LoadedModule load_in_time(const Driver& driver, void* context, std::string text, Deadline until,
                          const std::stop_token& stop) {
  if (auto earlier = LoadsLeftAlone::get().take(driver, context, text)) return std::move(*earlier);
  const auto load = std::make_shared<ModuleLoad>(driver, context, std::move(text));
  try {
    std::thread([load] { load->run(); }).detach();
  } catch (const std::system_error&) {
    return std::unexpected(Fault{Fault::Kind::late, "no thread is to be had that loads the kernel"});
  }
  std::unique_lock lock(load->mutex);
  if (load->ended.wait_until(lock, stop, until, [&] { return load->outcome.has_value(); })) {
    return std::move(*load->outcome);
  }
  lock.unlock();
  LoadsLeftAlone::get().add(load);
  if (stop.stop_requested()) return std::unexpected(Fault{Fault::Kind::cancelled, "cancelled by the caller"});
  return std::unexpected(Fault{Fault::Kind::late, "the driver did not load the kernel in time"});
}

}  // namespace

Outcome<std::unique_ptr<DeviceCrc>> DeviceCrc::load(Queue& queue, Algorithm algorithm, Deadline until,
                                                    const std::stop_token& stop, const std::string& text) {
  const Driver& driver = queue.driver_;
  if (!driver.calls().runs_kernels()) {
    return std::unexpected(Fault{.text = driver.path() + " runs no kernels of a text"});
  }
  auto loaded = load_in_time(driver, queue.context_, text.empty() ? crc_kernel(algorithm) : text, until, stop);
  if (!loaded) return std::unexpected(std::move(loaded).error());
  return std::unique_ptr<DeviceCrc>(new DeviceCrc(queue, algorithm, std::move(*loaded)));
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
