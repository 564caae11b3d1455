// The ways on which no byte passes through this process: `direct`, where the device copies for a server on its host,
// and `peer`, where RDMA devices reach its memory themselves. What fails here goes the client's own way, except where
// the device may still be at work.
#include "client/api/client_impl.h"
#include "client/native/device_memory.h"
#include "client/native/many.h"

namespace verbena {

using client::DeviceCopies;
using client::DeviceMemory;
using client::DeviceWay;
using client::fault;

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

// After a GET: what RDMA devices have written is seen by work that the device begins from now on.
Outcome<> settle(const DeviceWay& way) {
  if (way.path != DevicePath::peer) return {};
  auto settled = way.memory->peer()->memory().settle_writes();
  if (!settled) return fault(std::move(settled).error());
  return {};
}

// Why a transfer goes another way.
std::string said(DevicePath path, const std::string& why) { return std::string(to_string(path)) + ": " + why; }

// Why links of that provider reach no GPU. Empty: there is none, or another way is better than that.
std::string unreached(const std::string& provider, const char* or_else) {
  if (provider.empty() || provider == "local") return {};
  if (provider == "tcp") return "peer: tcp has no RDMA device, which would reach memory of GPUs";
  return "peer: the device of " + provider + " reaches no memory of GPUs" + or_else;
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
  return std::make_shared<NativeDevice>(*device, std::move(pieces), driver.platform());
}

}  // namespace

std::string server_shares_none(memory::cuda::Platform platform) {
  if (platform == memory::cuda::Platform::cuda) {
    return "direct: no GPU of NVIDIA's copies for the server (gpudirect.enabled)";
  }
  return "direct: no GPU of AMD's copies for the server (gpudirect.enabled; before ROCm 7.14 gpudirect.rocm_handles, "
         "too)";
}

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
  if (!session) return nullptr;
  if (!(*session)->shares_devices(memory.platform)) {
    if ((*session)->provider() == "local") reason = client::server_shares_none(memory.platform);
    return nullptr;
  }
  const client::NativeDevice* const found = memory.exported->find(memory.platform, memory.allocations);
  if (found == nullptr) {
    reason = "direct: " + memory.exported->why();
  } else if (found->by_handle() && !(*session)->takes_handles(memory.platform)) {
    reason = "direct: the server takes descriptors of this memory, and no handles (gpudirect.rocm_handles)";
    return nullptr;
  } else if (!found->is_there(window.bytes())) {
    reason = "direct: other memory was mapped there after the window was registered";
    return nullptr;
  }
  return found;
}

const client::NativeMemory* Client::Impl::peer_memory(const Buffer& window, std::string_view provider,
                                                      std::string& reason) {
  const DeviceMemory& memory = *window.memory_->device;
  std::string why;
  const client::NativeMemory* const found =
      memory.peer->find(memory.platform, memory.allocations, memory.window, provider, why);
  if (found == nullptr) {
    reason = "peer: " + why;
  } else if (!found->peer()->memory().is_there(reinterpret_cast<uintptr_t>(window.data()), window.size())) {
    reason = "peer: other memory was mapped there after the window was registered";
    return nullptr;
  }
  return found;
}

DeviceWay Client::Impl::straight_way(const Buffer& window, std::string& reason) {
  if (const auto* const direct = direct_memory(window, reason); direct != nullptr) return {direct, DevicePath::direct};
  if (!session_ || !session_->open()) return {};
  const auto session = session_->session();
  if (!session) return {};
  const std::string provider = (*session)->provider();
  if (!(*session)->reaches_devices()) {
    if (std::string why = client::unreached(provider, ", or the session is sealed"); !why.empty()) {
      reason = std::move(why);
    }
    return {};
  }
  if (const auto* const peer = peer_memory(window, provider, reason); peer != nullptr) return {peer, DevicePath::peer};
  return {};
}

const client::NativeMemory* Client::Impl::token_memory(const Buffer& window, uint64_t size, const std::stop_token& stop,
                                                       std::string& reason) {
  if (!wants_token(size)) return nullptr;
  if (!token_->reaches_devices(stop)) {
    reason = token_->seals() ? "peer: a sealed token's bytes pass a CPU" : client::unreached(token_->provider(), "");
    return nullptr;
  }
  return peer_memory(window, token_->provider(), reason);
}

std::optional<Outcome<GetReply>> Client::Impl::straight_get(const std::string& bucket, const std::string& key,
                                                            const Buffer& into, const GetOptions& options,
                                                            DeviceCopies& copies, std::string& reason) {
  const bool by_session = native_open() && options.version_id.empty();
  DeviceWay way;
  if (by_session) {
    way = straight_way(into, reason);
  } else if (options_.via != Via::native) {
    way = {token_memory(into, client::expected_size(into.size(), options), options.cancel, reason), DevicePath::peer};
  }
  if (way.memory == nullptr) return std::nullopt;
  if (auto after = copies.after(*into.memory_->device, options.cancel); !after) {
    return std::unexpected(std::move(after).error());
  }
  auto got = by_session ? session_->get(bucket, key, into.bytes(), way.memory, options, {})
                        : get_by_token(bucket, key, into.bytes(), options, way.memory->peer());
  if (got) {
    if (auto settled = client::settle(way); !settled) got = std::unexpected(std::move(settled).error());
  }
  if (!got && client::another_way_may_help(got.error(), true)) {
    device_counts_.attempt_failed(way.path);
    reason = client::said(way.path, got.error().message);
    return std::nullopt;
  }
  if (!got) return got;
  // An empty object needs no token, and the server may not have looked at it.
  const bool in_body = !by_session && got->transfer.door != Via::token;
  got->transfer.device_path = in_body ? client::device_path(copies.lane(), got->transfer) : way.path;
  return got;
}

std::optional<Outcome<PutReply>> Client::Impl::straight_put(const std::string& bucket, const std::string& key,
                                                            const Buffer& from, const PutOptions& options,
                                                            std::string& reason, client::Doubt& doubt) {
  if (!fits_native(from.size())) return std::nullopt;
  const bool by_session = native_open();
  const uint64_t token_max = std::min(options_.multipart_threshold, client::put_size_max);
  DeviceWay way;
  if (by_session) {
    way = straight_way(from, reason);
  } else if (options_.via != Via::native && token_may_put(from.size(), options)) {
    way = {token_memory(from, from.size(), options.cancel, reason), DevicePath::peer};
  }
  if (way.memory == nullptr) return std::nullopt;
  if (options.append_at || (!by_session && from.size() > token_max)) {
    reason =
        client::said(way.path, options.append_at ? "what is appended passes host memory"
                                                 : "objects above multipart_threshold go in parts, by host memory");
    return std::nullopt;
  }
  flush_appends(bucket, key);
  auto put = by_session ? session_->put(bucket, key, from.bytes(), way.memory, options)
                        : put_by_token(bucket, key, from.bytes(), options, *way.memory->peer());
  const bool repeatable = options.if_match.empty() && options.if_none_match.empty();
  if (!put && client::another_way_may_help(put.error(), repeatable)) {
    doubt.after(put.error());
    device_counts_.attempt_failed(way.path);
    reason = client::said(way.path, put.error().message);
    return std::nullopt;
  }
  if (put) put->transfer.device_path = way.path;
  return put;
}

// From a device's window.
Outcome<PutReply> Client::Impl::put_by_token(const std::string& bucket, const std::string& key, Bytes from,
                                             const PutOptions& options, const client::PeerWindow& device) {
  std::string why;
  bool done = false;
  auto put = put_by_token(bucket, key, from, options, why, done, &device);
  if (put && !done) return fault(ErrorCode::unsupported, why);
  return put;
}

std::optional<Outcome<Transfer>> Client::Impl::straight_many(Many what, std::span<const BatchItem> items,
                                                             std::span<const Buffer> windows,
                                                             std::span<BatchResult> results,
                                                             const BatchOptions& options, DeviceCopies& copies,
                                                             std::string& reason) {
  std::vector<const client::NativeMemory*> devices;
  std::vector<MutableBytes> memory;
  DeviceWay way;
  for (const Buffer& window : windows) {
    memory.push_back(window.bytes());
    const DeviceWay one = window.on_device() ? straight_way(window, reason) : DeviceWay();
    devices.push_back(one.memory);
    if (!window.on_device()) continue;
    // A session that was opened anew meanwhile may have another way.
    if (one.memory == nullptr || (way.memory != nullptr && way.path != one.path)) return std::nullopt;
    way = one;
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
  // Bytes are told to be there when the device sees them.
  size_t told = 0;
  Outcome<> settled;
  if (options.in_order) {
    call.in_order = [&](size_t leading) {
      if (settled && !writes) settled = client::settle(way);
      if (!settled) return;
      told = leading;
      options.in_order(leading);
    };
  }
  if (!writes) call.lease = options.lease;
  call.tell_checksums = !writes && options.verify_device;
  auto done = session_->many(call);
  call.answered.resize(items.size(), 0);
  if (settled && !writes) settled = client::settle(way);
  if (!settled) {  // what was told before is there
    call.told = told;
    std::fill(call.answered.begin() + static_cast<ptrdiff_t>(told), call.answered.end(), 0);
    done = settled;
  }
  Transfer transfer{.door = Via::native, .device_path = way.path, .provider = session_->provider()};
  if (!done) reason = client::said(way.path, done.error().message);
  if (!writes) ask_for_told(call);
  const auto again = client::repeatable_items(call, done, writes);
  if (!done && again.empty() && (writes || call.told < items.size())) return std::unexpected(done.error());
  if (!done) device_counts_.attempt_failed(way.path);
  if (again.size() == items.size() && call.told == 0 && !writes) return std::nullopt;
  if (!again.empty()) {
    if (reason.empty()) reason = client::said(way.path, "not all items went that way");
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

// Items that were told and whose answer was lost: their bytes are in their places, so only what the answer said of them
// is asked for. Each has a result then, which is an error where nothing names the bytes that came.
void Client::Impl::ask_for_told(client::ManyCall& call) {
  std::vector<BatchItem> some;
  std::vector<size_t> which;
  for (size_t i = 0; i < call.told; ++i) {
    if (call.answered[i] != 0 || !call.may_ask_again(i)) continue;
    some.push_back(call.items[i]);
    which.push_back(i);
  }
  if (some.empty()) return;
  std::vector<BatchResult> found(some.size());
  const auto asked = many(Many::head, some, {}, found, {});
  for (size_t k = 0; k < which.size(); ++k) {
    BatchResult& result = call.results[which[k]];
    const std::optional<Range>& range = some[k].range;
    result = {};
    if (asked && !found[k].error) {
      result = std::move(found[k]);
      const uint64_t rest = range ? result.size - std::min(range->offset, result.size) : result.size;
      result.bytes = range && range->length != 0 ? std::min(range->length, rest) : rest;
    } else {
      result.error = ErrorCode::connection_failed;
    }
    call.answered[which[k]] = 1;
  }
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
  BatchOptions again;
  again.lease = options.lease;
  again.verify_device = options.verify_device;
  auto moved = own_many(what, some, windows, found, again, copies);
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
