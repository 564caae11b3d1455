#include "cli/bench/device.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <thread>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "cli/bench/loop.h"
#include "cli/report.h"
#include "client/api/device.h"
#include "client/outcome.h"
#include "memory/cuda.h"
#include "memory/cuda_calls.h"

namespace verbena::cli {

using client::fault;
namespace cuda = memory::cuda;

// Calls that transfers do not need, and the driver's others.
struct DeviceArea::Calls {
  const cuda::Driver* driver = nullptr;
  int (*allocate)(uint64_t* address, size_t size) = nullptr;
  int (*release)(uint64_t address) = nullptr;
  int (*to_device)(uint64_t to, const void* from, size_t size) = nullptr;
  int (*to_host)(void* to, uint64_t from, size_t size) = nullptr;

  bool find() {
    const bool hip = driver->platform() == cuda::Platform::rocm;
    void* const library = ::dlopen(driver->path().c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto need = [&](const char* name, auto& into) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(library ? ::dlsym(library, name) : nullptr);
      return into != nullptr;
    };
    return need(hip ? "hipMalloc" : "cuMemAlloc_v2", allocate) && need(hip ? "hipFree" : "cuMemFree_v2", release) &&
           need(hip ? "hipMemcpyHtoD" : "cuMemcpyHtoD_v2", to_device) &&
           need(hip ? "hipMemcpyDtoH" : "cuMemcpyDtoH_v2", to_host);
  }
};

DeviceArea::DeviceArea(const BenchDevice& device, uint64_t size) : device_(device), size_(size) {}

template <class Fn>
Outcome<> DeviceArea::call(const char* name, Fn&& fn) const {
  const cuda::Calls& driver = calls_->driver->calls();
  int status = driver.push(context_);
  if (status == cuda::success) {
    status = fn();
    void* was = nullptr;
    driver.pop(&was);
  }
  if (status == cuda::success) return {};
  return fault(ErrorCode::local_error, calls_->driver->fault(name, status).text);
}

Outcome<std::unique_ptr<DeviceArea>> DeviceArea::make(const BenchDevice& device, uint64_t size) {
  const auto driver = cuda::Driver::get(static_cast<cuda::Platform>(device.kind));
  if (!driver) return fault(ErrorCode::unsupported, driver.error().text);
  std::unique_ptr<DeviceArea> area(new DeviceArea(device, size));
  area->calls_ = std::make_unique<Calls>(*driver);
  if (!area->calls_->find()) return fault(ErrorCode::unsupported, (*driver)->path() + " has no memory to give");
  const cuda::Calls& calls = (*driver)->calls();
  int handle = 0;
  if (const int status = calls.device(&handle, device.number); status != cuda::success) {
    return fault(ErrorCode::invalid_argument, (*driver)->fault("cuDeviceGet", status).text);
  }
  if (const int status = calls.primary_context(&area->context_, handle); status != cuda::success) {
    return fault(ErrorCode::local_error, (*driver)->fault("cuDevicePrimaryCtxRetain", status).text);
  }
  OUT_TRY(area->call("cuMemAlloc", [&] { return area->calls_->allocate(&area->address_, size); }));
  return area;
}

DeviceArea::~DeviceArea() {
  if (address_ != 0) static_cast<void>(call("cuMemFree", [&] { return calls_->release(address_); }));
}

Outcome<> DeviceArea::write(std::span<const std::byte> from) const {
  return call("cuMemcpyHtoD", [&] { return calls_->to_device(address_, from.data(), from.size()); });
}

Outcome<> DeviceArea::read(std::span<std::byte> into) const {
  return call("cuMemcpyDtoH", [&] { return calls_->to_host(into.data(), address_, into.size()); });
}

namespace {

struct DeviceCaller {
  std::unique_ptr<DeviceArea> area;
  Buffer window, host;  // `host`: of get_copy, and of the checks
  std::vector<std::string> keys;
  std::vector<BatchItem> items;
  std::vector<BatchResult> results;
  uint32_t crc = 0;
  DevicePath path = DevicePath::none;
};

Outcome<> check_way(DeviceCaller& caller, const Transfer& transfer, Via door) {
  OUT_TRY(check_door(transfer, door));
  caller.path = transfer.device_path;
  return {};
}

Outcome<> device_batch(const Client& client, DeviceCaller& caller, bool put, Via door) {
  const std::span window(&caller.window, 1);
  OUT_ASSIGN(const auto moved, put ? client.put_many(caller.items, window, caller.results)
                                   : client.get_many(caller.items, window, caller.results));
  OUT_TRY(check_items(caller.results, caller.keys));
  return check_way(caller, moved, door);
}

Outcome<> device_op(const Client& client, const std::string& bucket, DeviceCaller& caller, const std::string& op,
                    Via door) {
  if (op.ends_with("_many")) return device_batch(client, caller, op == "put_many", door);
  if (op == "put") {
    OUT_ASSIGN(const auto put, client.put(bucket, caller.keys[0], caller.window));
    return check_way(caller, put.transfer, door);
  }
  const Buffer& into = op == "get_copy" ? caller.host : caller.window;
  OUT_ASSIGN(const auto got, client.get(bucket, caller.keys[0], into));
  if (got.bytes != into.size()) return fault(ErrorCode::malformed_reply, "a GET came back short");
  OUT_TRY(check_way(caller, got.transfer, door));
  return op == "get_copy" ? caller.area->write(into.bytes()) : Outcome<>();
}

// GETs into wiped memory must bring the bytes of the PUTs to the device.
Outcome<> verify_on_device(const Client& client, const std::string& bucket, DeviceCaller& caller, const std::string& op,
                           Via door) {
  std::ranges::fill(caller.host.bytes(), std::byte{0});
  OUT_TRY(caller.area->write(caller.host.bytes()));
  OUT_TRY(device_op(client, bucket, caller, op.ends_with("_many") ? "get_many" : op == "put" ? "get" : op, door));
  OUT_TRY(caller.area->read(caller.host.bytes()));
  if (crc32c(caller.host.bytes()) != caller.crc) {
    return fault(ErrorCode::checksum_mismatch, caller.keys[0] + ": the device's bytes differ from those that were put");
  }
  return {};
}

Outcome<> prepare_on_device(const Client& client, const std::string& bucket, DeviceCaller& caller, unsigned index,
                            uint64_t size, const std::string& op, Via door, const BenchPlan& plan) {
  const unsigned batch = op.ends_with("_many") ? plan.batch : 1;
  OUT_ASSIGN(caller.area, DeviceArea::make(*plan.device, size * batch));
  OUT_ASSIGN(caller.window, client.register_memory(caller.area->window()));
  OUT_ASSIGN(caller.host, client.allocate(size * batch));
  fill_pattern(caller.host.bytes(), index);
  caller.crc = crc32c(caller.host.bytes());
  OUT_TRY(caller.area->write(caller.host.bytes()));
  for (unsigned i = 0; i < batch; ++i) {
    caller.keys.push_back("bench/device/" + std::to_string(size) + "/" + std::to_string(index) + "/" +
                          std::to_string(i));
  }
  for (unsigned i = 0; i < batch; ++i) {
    caller.items.push_back({.bucket = bucket, .key = caller.keys[i], .offset = i * size, .size = size});
  }
  caller.results.resize(batch);
  OUT_TRY(device_op(client, bucket, caller, batch > 1 || op.ends_with("_many") ? "put_many" : "put", door));
  OUT_TRY(verify_on_device(client, bucket, caller, op, door));
  for (int i = 0; i < 10; ++i) OUT_TRY(device_op(client, bucket, caller, op, door));
  return {};
}

// Of a session that is opened now.
Outcome<Transfer> moved_by_local(ClientOptions options, const std::string& bucket, const DeviceArea& area) {
  options.via = Via::native;
  options.provider = "local";
  const std::string key = "bench/device/ready";
  OUT_ASSIGN(const auto client, Client::connect(std::move(options)));
  OUT_ASSIGN(const auto window, client.register_memory(area.window()));
  OUT_ASSIGN(auto put, client.put(bucket, key, window));
  OUT_TRY(client.remove(bucket, key));
  return std::move(put.transfer);
}

}  // namespace

void wait_for_direct(const BenchServer& server, const std::string& bucket, const BenchDevice& device) {
  constexpr std::chrono::seconds at_most{20};
  constexpr std::chrono::milliseconds pause{50};
  const auto area = DeviceArea::make(device, 4 * KiB);
  if (!area) return;  // the rows say so
  const std::string not_yet = client::server_shares_none(static_cast<cuda::Platform>(device.kind));
  std::string why = not_yet;
  for (const Deadline until = deadline_in(at_most); SteadyClock::now() < until; std::this_thread::sleep_for(pause)) {
    const auto moved = moved_by_local(server.options(), bucket, **area);
    if (moved && moved->device_path == DevicePath::direct) return;
    why = moved ? moved->fell_back_reason : moved.error().message;
    if (!why.empty() && why != not_yet) break;
  }
  report("bench", "no GPU copies for the server: " + why, exit_failure);
}

bool device_serves(const std::string& op) {
  return op == "get" || op == "put" || op == "get_copy" || op == "get_many" || op == "put_many";
}

Outcome<BenchRow> measure_on_device(const Client& client, const BenchServer& server, const std::string& bucket,
                                    Via door, const std::string& op, uint64_t size, unsigned concurrency,
                                    const BenchPlan& plan) {
  std::vector<DeviceCaller> callers(concurrency);
  for (unsigned i = 0; i < concurrency; ++i) {
    OUT_TRY(prepare_on_device(client, bucket, callers[i], i, size, op, door, plan));
  }
  BenchRow row = row_of(door, op, size, concurrency, static_cast<unsigned>(callers[0].items.size()));
  row.memory = to_string(*plan.device);
  std::vector<BenchCaller> running;
  for (DeviceCaller& caller : callers) {
    running.push_back({.op = [&] { return device_op(client, bucket, caller, op, door); }});
  }
  OUT_TRY(run_callers(running, plan, [&] { return server.cpu_seconds(); }, row));
  row.device_path = op == "get_copy" ? "copy" : to_string(callers[0].path);
  count_objects(row);
  for (DeviceCaller& caller : callers) {
    OUT_TRY(verify_on_device(client, bucket, caller, op, door));
    OUT_TRY(client.remove_many(caller.items, caller.results));
  }
  return row;
}

}  // namespace verbena::cli
