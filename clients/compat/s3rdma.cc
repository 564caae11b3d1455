// libs3rdma.so.0: MinIO's SDKs load it to lend memory for a request; the tokens that it makes are of the dialect ofi1.
#include "s3rdma.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "rail.h"

namespace verbena::compat {
namespace {

thread_local std::string s3rdma_error;

void copy_text(const std::string& text, char* into, size_t size) {
  if (into == nullptr || size == 0) return;
  const size_t length = std::min(text.size(), size - 1);
  memcpy(into, text.data(), length);
  into[length] = 0;
}

class Client {
 public:
  explicit Client(const std::string& devices) : rails_(open_rails(devices)), thread_([this] { progress(); }) {}
  ~Client() {
    stop_ = true;
    thread_.join();
  }

  void pin(void* memory, size_t size) {
    if (memory == nullptr || size == 0) throw FabricFault("no memory to register");
    if (s3rdma_client_memory_type(memory) == S3RDMA_MEM_CUDA_DEVICE) throw FabricFault("memory of a GPU is not lent");
    const std::lock_guard lock(mutex_);
    const auto there = pins_.find(memory);
    if (there != pins_.end()) {
      if (size > there->second.size) throw FabricFault("registered already, and shorter");
      ++there->second.references;
      return;
    }
    Pin pin{.size = size, .references = 1, .regions = {}};
    for (auto& rail : rails_) pin.regions.push_back(rail->pin(memory, size));
    pins_.emplace(memory, std::move(pin));
  }

  void unpin(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto there = pins_.find(memory);
    if (there == pins_.end()) throw FabricFault("not registered");
    if (--there->second.references == 0) pins_.erase(there);
  }

  std::string token(void* memory, size_t size, size_t offset) {
    const std::lock_guard lock(mutex_);
    const auto there = pins_.find(memory);
    if (there == pins_.end()) throw FabricFault("not registered");
    const Pin& pin = there->second;
    if (offset > pin.size || size > pin.size - offset) throw FabricFault("not inside the registered memory");
    const size_t rail = next_rail();
    return rails_[rail]->token(pin.regions[rail], offset, size);
  }

  void failed(std::string_view token) {
    const std::lock_guard lock(mutex_);
    for (auto& rail : rails_) {
      if (rail->minted(token)) return rail->pass_over();
    }
    throw FabricFault("a token of another client");
  }

  int rails() const { return static_cast<int>(rails_.size()); }
  int healthy_rails() {
    const std::lock_guard lock(mutex_);
    int count = 0;
    for (const auto& rail : rails_) count += rail->healthy() ? 1 : 0;
    return count;
  }

 private:
  struct Pin {
    size_t size = 0;
    int references = 0;
    std::vector<Region> regions;  // one for each rail
  };

  // In turn; if every rail has failed, any of them.
  size_t next_rail() {
    for (size_t tried = 0; tried < rails_.size(); ++tried) {
      const size_t rail = turn_++ % rails_.size();
      if (rails_[rail]->healthy()) return rail;
    }
    return turn_++ % rails_.size();
  }

  // Providers in software move bytes, and all of them accept connections, only while they are called.
  void progress() {
    auto pause = std::chrono::microseconds(0);
    while (!stop_) {
      if (pause.count() == 0) {
        std::this_thread::yield();  // other threads want the lock, too
      } else {
        std::this_thread::sleep_for(pause);
      }
      const std::lock_guard lock(mutex_);
      int events = 0;
      for (auto& rail : rails_) events += rail->progress();
      pause = std::chrono::microseconds(events > 0 ? 0 : pins_.empty() ? 2000 : 50);
    }
  }

  std::vector<std::unique_ptr<Rail>> rails_;
  std::mutex mutex_;
  std::map<void*, Pin> pins_;  // closed before the rails
  size_t turn_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

struct Clients {
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<Client>> open;
  uintptr_t last = 0;
};

// Never destroyed: a program may free clients as late as in its exit handlers.
Clients& clients() {
  static auto* const all = new Clients;
  return *all;
}

std::shared_ptr<Client> find_client(S3RdmaClientHandle handle) {
  const std::lock_guard lock(clients().mutex);
  const auto there = clients().open.find(reinterpret_cast<uintptr_t>(handle));
  if (there == clients().open.end()) throw FabricFault("no such client");
  return there->second;
}

// 0, or -1 with the reason in s3rdma_error.
template <class Run>
int guarded(Run run) {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    s3rdma_error = error.what();
  }
  return -1;
}

// NVIDIA's driver, if it is there. Attributes 2 and 8 of cuPointerGetAttribute: the memory's type, and whether it is
// managed.
using PointerAttribute = int (*)(void* value, int attribute, unsigned long long pointer);
PointerAttribute cuda_attribute() {
  static const auto found = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return driver == nullptr ? nullptr : reinterpret_cast<PointerAttribute>(dlsym(driver, "cuPointerGetAttribute"));
  }();
  return found;
}

}  // namespace
}  // namespace verbena::compat

using verbena::compat::clients;
using verbena::compat::find_client;
using verbena::compat::guarded;
using verbena::compat::s3rdma_error;

extern "C" {

const char* s3rdma_version(void) { return "verbena " VERBENA_VERSION; }

int s3rdma_check_rdma(char* buffer, size_t size) {
  S3RdmaClientHandle client = s3rdma_client_init(nullptr, buffer, size);
  s3rdma_client_free(client);
  return client != nullptr ? 1 : 0;
}

size_t s3rdma_last_error(char* buffer, size_t size) {
  verbena::compat::copy_text(s3rdma_error, buffer, size);
  return buffer == nullptr || size == 0 ? 0 : strlen(buffer);
}

S3RdmaClientHandle s3rdma_client_init(const char* device, char* error, size_t error_size) {
  uintptr_t id = 0;
  const int result = guarded([&] {
    const char* fallback = getenv("S3RDMA_DEVICE");
    const char* devices = device != nullptr && *device != 0 ? device : fallback != nullptr ? fallback : "";
    auto made = std::make_shared<verbena::compat::Client>(devices);
    const std::lock_guard lock(clients().mutex);
    id = ++clients().last;
    clients().open.emplace(id, std::move(made));
  });
  verbena::compat::copy_text(result == 0 ? "" : s3rdma_error, error, error_size);
  return reinterpret_cast<S3RdmaClientHandle>(id);
}

void s3rdma_client_free(S3RdmaClientHandle client) {
  std::shared_ptr<verbena::compat::Client> last;  // ends outside of the lock
  const std::lock_guard lock(clients().mutex);
  const auto there = clients().open.find(reinterpret_cast<uintptr_t>(client));
  if (there == clients().open.end()) return;
  last = std::move(there->second);
  clients().open.erase(there);
}

int s3rdma_client_ready(S3RdmaClientHandle client) { return s3rdma_client_healthy_nic_count(client) > 0 ? 1 : 0; }

int s3rdma_client_nic_count(S3RdmaClientHandle client) {
  int count = 0;
  guarded([&] { count = find_client(client)->rails(); });
  return count;
}

int s3rdma_client_healthy_nic_count(S3RdmaClientHandle client) {
  int count = 0;
  guarded([&] { count = find_client(client)->healthy_rails(); });
  return count;
}

int s3rdma_client_report_token_failure(S3RdmaClientHandle client, const char* token) {
  return guarded([&] { find_client(client)->failed(token != nullptr ? token : ""); });
}

int s3rdma_client_register(S3RdmaClientHandle client, void* memory, size_t size) {
  return guarded([&] { find_client(client)->pin(memory, size); });
}

int s3rdma_client_deregister(S3RdmaClientHandle client, void* memory) {
  return guarded([&] { find_client(client)->unpin(memory); });
}

int s3rdma_client_get_token(S3RdmaClientHandle client, void* memory, size_t size, size_t offset, char** token) {
  if (token == nullptr) return -1;
  *token = nullptr;
  return guarded([&] {
    *token = strdup(find_client(client)->token(memory, size, offset).c_str());
    if (*token == nullptr) throw std::bad_alloc();
  });
}

void s3rdma_client_free_token(char* token) { free(token); }

int s3rdma_client_memory_type(const void* memory) {
  const auto attribute = verbena::compat::cuda_attribute();
  if (attribute == nullptr) return S3RDMA_MEM_SYSTEM;
  const auto address = reinterpret_cast<unsigned long long>(memory);
  unsigned type = 0;
  if (attribute(&type, 2, address) != 0) return S3RDMA_MEM_SYSTEM;  // memory that the driver does not know
  int managed = 0;
  if (attribute(&managed, 8, address) == 0 && managed != 0) return S3RDMA_MEM_CUDA_MANAGED;
  return type == 2 ? S3RDMA_MEM_CUDA_DEVICE : type == 1 ? S3RDMA_MEM_SYSTEM : S3RDMA_MEM_UNKNOWN;
}

}  // extern "C"
