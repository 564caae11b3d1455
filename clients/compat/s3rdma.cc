// libs3rdma.so.0: MinIO's SDKs load it to lend memory for a request; the tokens that it makes are of the dialect ofi1.
#include "s3rdma.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "lender.h"
#include "memory_kind.h"

namespace verbena::compat {
namespace {

thread_local std::string s3rdma_error;

void copy_text(const std::string& text, char* into, size_t size) {
  if (into == nullptr || size == 0) return;
  const size_t length = std::min(text.size(), size - 1);
  memcpy(into, text.data(), length);
  into[length] = 0;
}

struct Clients {
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<Lender>> open;
  uintptr_t last = 0;
};

// Never destroyed: a program may free clients as late as in its exit handlers.
Clients& clients() {
  static auto* const all = new Clients;
  return *all;
}

std::shared_ptr<Lender> find_client(S3RdmaClientHandle handle) {
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
    auto made = std::make_shared<verbena::compat::Lender>(device != nullptr ? device : "");
    const std::lock_guard lock(clients().mutex);
    id = ++clients().last;
    clients().open.emplace(id, std::move(made));
  });
  verbena::compat::copy_text(result == 0 ? "" : s3rdma_error, error, error_size);
  return reinterpret_cast<S3RdmaClientHandle>(id);
}

void s3rdma_client_free(S3RdmaClientHandle client) {
  std::shared_ptr<verbena::compat::Lender> last;  // ends outside of the lock
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

int s3rdma_client_memory_type(const void* memory) { return static_cast<int>(verbena::compat::memory_kind(memory)); }

}  // extern "C"
