#include "memory/cuda_crc.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

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

using LoadedModule = Outcome<std::unique_ptr<CrcModule>>;

// Loads in one context that no caller waits for any more: what they have brought is for the next caller that needs the
// same. Thread-safe.
class LateModules {
 public:
  // Those of a context. They stay until the process ends, for the loads' threads may.
  static LateModules& of(const Driver& driver, void* context) {
    static auto* const all = new std::map<std::pair<const Driver*, void*>, LateModules>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    return (*all)[{&driver, context}];
  }

  std::atomic<unsigned>& loading() { return loading_; }
  void add(std::string text, LoadedModule loaded) {
    const std::lock_guard lock(mutex_);
    brought_.emplace_back(std::move(text), std::move(loaded));
  }
  // One of this text that has ended; `late`: the driver still loads another one. Nothing: there is none.
  std::optional<LoadedModule> take(const std::string& text) {
    const unsigned loading = loading_;  // read first: one that ends meanwhile is found below
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(brought_, text, &std::pair<std::string, LoadedModule>::first);
    if (at != brought_.end()) {
      auto loaded = std::move(at->second);
      brought_.erase(at);
      return loaded;
    }
    if (loading == 0) return std::nullopt;
    return std::unexpected(Fault{Fault::Kind::late, "the driver still loads a kernel that was given up"});
  }

 private:
  std::atomic<unsigned> loading_{0};
  std::mutex mutex_;
  std::vector<std::pair<std::string, LoadedModule>> brought_;
};

LoadedModule load_in_time(const Driver& driver, void* context, const std::string& text, Deadline until,
                          const std::stop_token& stop) {
  LateModules& late = LateModules::of(driver, context);
  if (auto earlier = late.take(text)) return std::move(*earlier);
  auto loaded = limited_call([&driver, context, text] { return CrcModule::load(driver, context, text); },
                             late.loading(), until, stop, NoThread::give_up,
                             [&late, text](LoadedModule brought) { late.add(text, std::move(brought)); });
  if (loaded) return std::move(*loaded);
  if (loaded.error() == NotBrought::no_thread) {
    return std::unexpected(Fault{Fault::Kind::late, "no thread is to be had that loads the kernel"});
  }
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
