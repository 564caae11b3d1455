// The shortest way to a device on the server's host: the device copies for the server, and no byte passes through this
// process. What fails here goes the client's own way, except where the device may still be at work.
#include "client/api/client_impl.h"
#include "client/native/device_memory.h"
#include "client/native/many.h"

namespace verbena {

using client::DeviceCopies;
using client::DeviceMemory;

namespace client {
namespace {

using memory::cuda::Allocation;
using memory::cuda::Driver;
using memory::cuda::Fault;

// What another way could do better, and where nothing has happened.
bool another_way_may_help(const ClientError& error, bool repeatable) {
  switch (error.code) {
    case ErrorCode::unsupported:
    case ErrorCode::slow_down:
    case ErrorCode::local_error:
    case ErrorCode::connection_failed:
    case ErrorCode::invalid_argument:
      return true;
    case ErrorCode::server_error:
    case ErrorCode::malformed_reply:
    case ErrorCode::outcome_unknown:
      return repeatable;
    default:
      return false;
  }
}

// Items of a batch without a result that counts, which another way may have. A place that was told to hold its bytes
// stays as it is.
std::vector<AgainItem> repeatable_items(const ManyCall& call, const Outcome<>& done, bool writes) {
  std::vector<AgainItem> again;
  for (size_t i = call.told; i < call.items.size(); ++i) {
    const BatchItem& item = call.items[i];
    const bool repeatable = !writes || (item.if_match.empty() && item.if_none_match.empty());
    ClientError error;
    if (call.answered[i] != 0) {
      if (!call.results[i].error) continue;
      error.code = *call.results[i].error;
    } else if (!done) {
      error.code = done.error().code;
    }
    if (another_way_may_help(error, repeatable)) {
      again.push_back({i, {}});
      if (writes) again.back().doubt.after(error);
    } else if (call.answered[i] == 0) {
      call.results[i].error = error.code;
    }
  }
  return again;
}

memory::cuda::Outcome<std::shared_ptr<NativeDevice>> by_handle(const Driver& driver, const Allocation& allocation) {
  const auto exported = driver.share(allocation);
  if (!exported) return std::unexpected(exported.error());
  return std::make_shared<NativeDevice>(*exported, allocation.begin);
}

memory::cuda::Outcome<std::shared_ptr<NativeDevice>> by_pieces(const Driver& driver,
                                                               const std::vector<Allocation>& allocations) {
  if (allocations.size() > NativeDevice::pieces_max) {
    return std::unexpected(
        Fault{.text = "the window is in more than " + std::to_string(NativeDevice::pieces_max) + " allocations"});
  }
  NativeDevice::Pieces pieces;
  for (const Allocation& one : allocations) {
    auto piece = memory::cuda::Physical::behind(driver, one);
    if (!piece) return std::unexpected(std::move(piece).error());
    // Not all physical memory may be shared: the driver says so here, and not when it is too late to say why.
    if (auto given = (*piece)->descriptor(); !given) return std::unexpected(std::move(given).error());
    pieces.push_back(std::move(*piece));
  }
  const auto device = driver.name_of(allocations.front().device);
  if (!device) return std::unexpected(device.error());
  return std::make_shared<NativeDevice>(*device, std::move(pieces));
}

}  // namespace

void DeviceExport::ask(memory::cuda::Platform platform, const std::vector<Allocation>& allocations) {
  const auto driver = Driver::get(platform);
  if (!driver) {
    why_ = driver.error().text;
    return;
  }
  const bool single = allocations.size() == 1;
  auto made = single ? by_handle(**driver, allocations.front()) : by_pieces(**driver, allocations);
  if (!made && single) {
    why_ = made.error().text + "; ";
    made = by_pieces(**driver, allocations);
  }
  if (made) {
    device_ = std::move(*made);
  } else {
    why_ += made.error().text;
  }
}

const NativeDevice* DeviceExport::find(memory::cuda::Platform platform, const std::vector<Allocation>& allocations) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(asked_, true)) ask(platform, allocations);
  return device_.get();
}

DeviceExport::~DeviceExport() {
  // The child of a fork cannot use the parent's sessions.
  if (device_ != nullptr && forks_ != client::forks()) new std::shared_ptr<NativeDevice>(std::move(device_));
}

}  // namespace client

const client::NativeDevice* Client::Impl::direct_memory(const Buffer& window, std::string& reason) {
  const DeviceMemory& memory = *window.memory_->device;
  if (!session_ || !session_->open()) return nullptr;
  const auto session = session_->session();
  if (!session || !(*session)->shares_devices(memory.platform)) return nullptr;
  const client::NativeDevice* const found = memory.exported->find(memory.platform, memory.allocations);
  if (found == nullptr) {
    reason = "direct: " + memory.exported->why();
  } else if (!found->is_there(window.bytes())) {
    reason = "direct: other memory was mapped there after the window was registered";
    return nullptr;
  }
  return found;
}

std::optional<Outcome<GetReply>> Client::Impl::direct_get(const std::string& bucket, const std::string& key,
                                                          const Buffer& into, const GetOptions& options,
                                                          DeviceCopies& copies, std::string& reason) {
  const client::NativeDevice* const memory = options.version_id.empty() ? direct_memory(into, reason) : nullptr;
  if (memory == nullptr) return std::nullopt;
  if (auto after = copies.after(*into.memory_->device, options.cancel); !after) {
    return std::unexpected(std::move(after).error());
  }
  auto got = session_->get(bucket, key, into.bytes(), memory, options, {});
  if (!got && client::another_way_may_help(got.error(), true)) {
    reason = "direct: " + got.error().message;
    return std::nullopt;
  }
  if (got) got->transfer.device_path = DevicePath::direct;
  return got;
}

std::optional<Outcome<PutReply>> Client::Impl::direct_put(const std::string& bucket, const std::string& key,
                                                          const Buffer& from, const PutOptions& options,
                                                          std::string& reason, client::Doubt& doubt) {
  if (options.append_at || !fits_native(from.size())) return std::nullopt;
  const client::NativeDevice* const memory = direct_memory(from, reason);
  if (memory == nullptr) return std::nullopt;
  flush_appends(bucket, key);
  auto put = session_->put(bucket, key, from.bytes(), memory, options);
  const bool repeatable = options.if_match.empty() && options.if_none_match.empty();
  if (!put && client::another_way_may_help(put.error(), repeatable)) {
    doubt.after(put.error());
    reason = "direct: " + put.error().message;
    return std::nullopt;
  }
  if (put) put->transfer.device_path = DevicePath::direct;
  return put;
}

std::optional<Outcome<Transfer>> Client::Impl::direct_many(Many what, std::span<const BatchItem> items,
                                                           std::span<const Buffer> windows,
                                                           std::span<BatchResult> results, const BatchOptions& options,
                                                           DeviceCopies& copies, std::string& reason) {
  std::vector<const client::NativeDevice*> devices;
  std::vector<MutableBytes> memory;
  for (const Buffer& window : windows) {
    memory.push_back(window.bytes());
    devices.push_back(window.on_device() ? direct_memory(window, reason) : nullptr);
    if (window.on_device() && devices.back() == nullptr) return std::nullopt;
  }
  for (const Buffer& window : windows) {
    if (!window.on_device()) continue;
    if (auto after = copies.after(*window.memory_->device, {}); !after)
      return std::unexpected(std::move(after).error());
  }
  const bool writes = what == Many::put;
  for (const BatchItem& item : items) {
    if (writes) flush_appends(std::string(item.bucket), std::string(item.key));
  }
  client::ManyCall call;
  call.type = writes ? native::wire::Type::put_many : native::wire::Type::get_many;
  call.items = items;
  call.windows = memory;
  call.devices = devices;
  call.results = results;
  call.in_order = options.in_order;
  if (!writes) call.lease = options.lease;
  const auto done = session_->many(call);
  call.answered.resize(items.size(), 0);
  Transfer transfer{.door = Via::native, .device_path = DevicePath::direct, .provider = session_->provider()};
  if (!done) reason = "direct: " + done.error().message;
  const auto again = client::repeatable_items(call, done, writes);
  if (!done && again.empty()) return std::unexpected(done.error());
  if (again.size() == items.size() && call.told == 0 && !writes) return std::nullopt;
  if (!again.empty()) {
    if (reason.empty()) reason = "direct: the device did not copy all items";
    auto rest = some_again(what, again, items, windows, results, options, copies);
    if (!rest) return rest;
    if (again.size() == items.size()) {
      transfer = std::move(*rest);
      transfer.bytes = 0;
    }
    if (transfer.fell_back_reason.empty()) transfer.fell_back_reason = std::move(reason);
  }
  for (size_t i = 0; i < items.size(); ++i) transfer.bytes += results[i].error ? 0 : results[i].bytes;
  return transfer;
}

// Those items go the client's own way. Of one whose first attempt may have happened the second does not tell that
// nothing was done.
Outcome<Transfer> Client::Impl::some_again(Many what, std::span<const client::AgainItem> which,
                                           std::span<const BatchItem> items, std::span<const Buffer> windows,
                                           std::span<BatchResult> results, const BatchOptions& options,
                                           DeviceCopies& copies) {
  std::vector<BatchItem> some;
  for (const client::AgainItem& item : which) some.push_back(items[item.number]);
  std::vector<BatchResult> found(some.size());
  auto moved = own_many(what, some, windows, found, {.in_order = {}, .lease = options.lease, .take = nullptr}, copies);
  for (size_t i = 0; i < which.size(); ++i) {
    if (found[i].error) {
      ClientError second;
      second.code = *found[i].error;
      found[i].error = which[i].doubt.about(std::move(second)).code;
    }
    if (!moved) moved = std::unexpected(which[i].doubt.about(std::move(moved).error()));
    results[which[i].number] = std::move(found[i]);
  }
  if (moved && options.in_order) options.in_order(items.size());
  return moved;
}

}  // namespace verbena
