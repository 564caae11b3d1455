// Objects by RDMA in six calls, over verbena.h (C++17, header only; link libverbena):
//
//   verbena::RDMAContext ctx("mlx5_0", 1);
//   ctx.connect(host, 9100);                    // keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or credentials()
//   void* buffer = ctx.alloc_mr(size);
//   ctx.rdma_read(bucket, key, buffer, size);   // the object's bytes
//   ctx.rdma_write(bucket, key, buffer, size);
//   ctx.free_mr(buffer);
//
// Calls that fail throw verbena::RDMAError. A context may be used from any thread once it is connected; a buffer must
// not be freed while a call uses it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "verbena/verbena.h"

namespace verbena {

class RDMAError : public std::runtime_error {
 public:
  explicit RDMAError(const verbena_error& error)
      : std::runtime_error(error.message), code_(error.code), s3_code_(error.s3_code) {}
  int code() const noexcept { return code_; }  // a verbena_code
  const std::string& s3_code() const noexcept { return s3_code_; }

 private:
  int code_;
  std::string s3_code_;
};

class RDMAContext {
 public:
  // A preference: the route to the server decides which device carries the bytes. A server on the same host is reached
  // by shared memory, one without RDMA by an encrypted TCP; provider() returns the one used.
  explicit RDMAContext(std::string device = {}, int port = 1) : device_(std::move(device)), port_(port) {}
  ~RDMAContext() {
    for (auto& [address, buffer] : buffers_) verbena_buffer_free(buffer);
    verbena_close(client_);
  }
  RDMAContext(const RDMAContext&) = delete;
  RDMAContext& operator=(const RDMAContext&) = delete;

  void credentials(std::string access_key, std::string secret_key) {
    access_key_ = std::move(access_key);
    secret_key_ = std::move(secret_key);
  }

  // The native port of a server.
  void connect(const std::string& host, int port) {
    const bool v6 = host.find(':') != std::string::npos && host.front() != '[';
    const std::string name = v6 ? "[" + host + "]" : host;
    const std::string native = name + ":" + std::to_string(port), http = "http://" + name;
    const std::string access = access_key_.empty() ? environment("AWS_ACCESS_KEY_ID") : access_key_;
    const std::string secret = access_key_.empty() ? environment("AWS_SECRET_ACCESS_KEY") : secret_key_;
    verbena_options options{};
    options.struct_size = sizeof options;
    options.endpoint = http.c_str();
    options.native_endpoint = native.c_str();
    options.access_key = access.c_str();
    options.secret_key = secret.c_str();
    options.via = "native";
    verbena_client* made = nullptr;
    check(verbena_connect(&options, &made));
    verbena_close(client_);
    client_ = made;
  }

  // Memory registered for RDMA, zeroed.
  void* alloc_mr(size_t size) {
    verbena_buffer* buffer = nullptr;
    check(verbena_buffer_alloc(client_, size, &buffer));
    std::lock_guard<std::mutex> lock(mutex_);
    buffers_[verbena_buffer_data(buffer)] = buffer;
    return verbena_buffer_data(buffer);
  }
  // Memory of alloc_mr; nullptr is allowed.
  void free_mr(void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = buffers_.find(address);
    if (found == buffers_.end()) return;
    verbena_buffer_free(found->second);
    buffers_.erase(found);
  }

  // Reads the object into memory of `size` bytes, from alloc_mr or any other. Returns the object's size.
  size_t rdma_read(const std::string& bucket, const std::string& key, void* memory, size_t size) {
    uint64_t bytes = 0;
    size_t offset = 0;
    verbena_transfer transfer = sized_transfer();
    if (verbena_buffer* buffer = buffer_of(memory, size, offset)) {
      check(
          verbena_get(client_, bucket.c_str(), key.c_str(), buffer, offset, size, nullptr, &bytes, nullptr, &transfer));
    } else {
      check(verbena_get_bytes(client_, bucket.c_str(), key.c_str(), memory, size, nullptr, &bytes, nullptr, &transfer));
    }
    remember(transfer);
    return bytes;
  }
  void rdma_write(const std::string& bucket, const std::string& key, const void* memory, size_t size) {
    size_t offset = 0;
    verbena_transfer transfer = sized_transfer();
    if (verbena_buffer* buffer = buffer_of(memory, size, offset)) {
      check(verbena_put(client_, bucket.c_str(), key.c_str(), buffer, offset, size, nullptr, nullptr, &transfer));
    } else {
      check(verbena_put_bytes(client_, bucket.c_str(), key.c_str(), memory, size, nullptr, nullptr, &transfer));
    }
    remember(transfer);
  }

  // The provider of the last transfer: "local", "verbs;ofi_rxm", "tcp". Empty before the first.
  std::string provider() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return provider_;
  }
  const std::string& device() const { return device_; }
  int port() const { return port_; }
  // Whether this machine has the preferred device.
  bool device_present() const {
    return !device_.empty() && ::access(("/sys/class/infiniband/" + device_).c_str(), F_OK) == 0;
  }

 private:
  static std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  }
  static verbena_transfer sized_transfer() {
    verbena_transfer transfer{};
    transfer.struct_size = sizeof transfer;
    return transfer;
  }
  static void check(int code) {
    if (code == VERBENA_OK) return;
    verbena_error error{};
    error.struct_size = sizeof error;
    verbena_error_details(&error);
    throw RDMAError(error);
  }
  // The registered memory that contains this range.
  verbena_buffer* buffer_of(const void* memory, size_t size, size_t& offset) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto at = reinterpret_cast<uintptr_t>(memory);
    auto after = buffers_.upper_bound(const_cast<void*>(memory));
    if (after == buffers_.begin()) return nullptr;
    --after;
    offset = at - reinterpret_cast<uintptr_t>(after->first);
    const size_t whole = verbena_buffer_size(after->second);
    return offset <= whole && size <= whole - offset ? after->second : nullptr;
  }
  void remember(const verbena_transfer& transfer) {
    std::lock_guard<std::mutex> lock(mutex_);
    provider_ = transfer.provider;
  }

  std::string device_;
  int port_;
  std::string access_key_, secret_key_;
  verbena_client* client_ = nullptr;
  mutable std::mutex mutex_;
  std::map<void*, verbena_buffer*, std::less<>> buffers_;
  std::string provider_;
};

}  // namespace verbena
