// Batches with windows in a device's memory: consecutive items share a half of the lane's ring, and the device copies
// one half while the server fills, or reads, the other.
#include <algorithm>

#include "client/api/client_impl.h"
#include "client/api/many.h"

namespace verbena {

using client::DeviceCopies;
using client::DeviceLane;
using client::fault;

namespace client {
namespace {

using Many = Client::Inside::Impl::Many;

// Consecutive items in one message: of those on a device, the bytes fit a half of the ring, or there is one item alone.
struct DeviceGroup {
  size_t first = 0, count = 0;
  size_t staged = 0;  // bytes of items on a device
};

class DeviceMany {
 public:
  DeviceMany(Client::Inside::Impl& impl, Many what, std::span<const BatchItem> items, std::span<const Buffer> windows,
             std::span<BatchResult> results, const BatchOptions& options, DeviceCopies& copies)
      : impl_(impl),
        what_(what),
        items_(items),
        windows_(windows),
        results_(results),
        options_(options),
        copies_(copies),
        placed_(items.begin(), items.end()) {
    share();
  }

  Outcome<Transfer> run() {
    Transfer all;
    auto moved = what_ == Many::get ? get(all) : put(all);
    if (auto ended = copies_.finish(); moved && !ended) moved = std::unexpected(std::move(ended).error());
    if (moved) {
      tell(items_.size());
      return all;
    }
    // Items that were not sent, or whose bytes did not get to the device.
    for (size_t i = sure_; i < items_.size(); ++i) {
      if (i >= sent_ || what_ == Many::get) results_[i].error = moved.error().code;
    }
    return std::unexpected(std::move(moved).error());
  }

 private:
  bool on_device(const BatchItem& item) const { return windows_[item.window].on_device(); }
  uint64_t address(const BatchItem& item) const {
    return reinterpret_cast<uintptr_t>(windows_[item.window].data()) + item.offset;
  }
  unsigned half_of(size_t group) const { return group % 2; }

  // Forms the groups, and gives each item on a device its place in the ring.
  void share() {
    DeviceGroup now;
    for (size_t i = 0; i < items_.size(); ++i) {
      const size_t size = on_device(items_[i]) ? items_[i].size : 0;
      if (now.count != 0 && now.staged + size > DeviceLane::half) {
        groups_.push_back(now);
        now = {.first = i};
      }
      if (on_device(items_[i])) placed_[i].offset = now.staged;
      now.staged += size;
      ++now.count;
    }
    groups_.push_back(now);
  }

  // The windows of a group's message: host memory instead of the device's.
  Outcome<std::vector<Buffer>> windows_for(size_t group) {
    Buffer host = copies_.lane().ring.slice(half_of(group) * DeviceLane::half, DeviceLane::half);
    if (large(group)) {
      OUT_TRY(copies_.finish());  // of an earlier large item
      OUT_ASSIGN(host, impl_.allocate(groups_[group].staged));
      OUT_TRY(copies_.enlarge(host, {}));
    }
    std::vector<Buffer> windows(windows_.begin(), windows_.end());
    for (Buffer& window : windows) {
      if (window.on_device()) window = host;
    }
    return windows;
  }

  Outcome<> send(size_t group, const std::vector<Buffer>& windows, Transfer& all) {
    const DeviceGroup& now = groups_[group];
    BatchOptions options;
    options.lease = options_.lease;
    options.verify_device = options_.verify_device;
    sent_ = now.first + now.count;
    OUT_ASSIGN(auto moved, impl_.many(what_, std::span(placed_).subspan(now.first, now.count), windows,
                                      results_.subspan(now.first, now.count), options));
    moved.attempts = std::max(moved.attempts, all.attempts);
    moved.bytes += all.bytes;
    if (moved.fell_back_reason.empty()) moved.fell_back_reason = std::move(all.fell_back_reason);
    all = std::move(moved);
    return {};
  }

  MutableBytes place(const std::vector<Buffer>& windows, size_t item) const {
    return windows[items_[item].window].bytes().subspan(placed_[item].offset, items_[item].size);
  }

  Outcome<> get(Transfer& all) {
    for (size_t group = 0; group < groups_.size(); ++group) {
      const DeviceGroup& now = groups_[group];
      OUT_TRY(copies_.wait(half_of(group)));
      if (group >= 2) tell(groups_[group - 1].first);
      OUT_ASSIGN(const auto windows, windows_for(group));
      OUT_TRY(send(group, windows, all));
      OUT_TRY(order());
      for (size_t i = now.first; i < now.first + now.count; ++i) {
        if (results_[i].error || !on_device(items_[i])) continue;
        const size_t bytes = std::min<uint64_t>(results_[i].bytes, items_[i].size);
        const Bytes from = place(windows, i).first(bytes);
        OUT_TRY(large(group) ? copies_.write_large(address(items_[i]), from) : copies_.write(address(items_[i]), from));
      }
      OUT_TRY(copies_.mark(half_of(group)));
    }
    return {};
  }

  Outcome<> fetch(size_t group) {
    OUT_ASSIGN(fetched_[half_of(group)], windows_for(group));
    const DeviceGroup& now = groups_[group];
    for (size_t i = now.first; i < now.first + now.count; ++i) {
      if (!on_device(items_[i])) continue;
      const MutableBytes into = place(fetched_[half_of(group)], i);
      OUT_TRY(large(group) ? copies_.read_large(into, address(items_[i])) : copies_.read(into, address(items_[i])));
    }
    return copies_.mark(half_of(group));
  }

  Outcome<> put(Transfer& all) {
    OUT_TRY(order());
    OUT_TRY(fetch(0));
    for (size_t group = 0; group < groups_.size(); ++group) {
      const bool more = group + 1 < groups_.size();
      OUT_TRY(copies_.wait(half_of(group)));
      // A large item has memory of its own, which ends with its group: nothing is fetched beside it.
      const bool beside = more && !large(group) && !large(group + 1);
      if (beside) OUT_TRY(fetch(group + 1));
      OUT_TRY(send(group, fetched_[half_of(group)], all));
      sure_ = sent_;
      if (more && !beside) OUT_TRY(fetch(group + 1));
    }
    return {};
  }

  bool large(size_t group) const { return groups_[group].staged > DeviceLane::half; }

  // The windows' own streams come first.
  Outcome<> order() {
    if (ordered_) return {};
    for (const Buffer& window : windows_) {
      if (window.on_device()) OUT_TRY(copies_.after(Client::Inside::device(window), {}));
    }
    ordered_ = true;
    return {};
  }

  // The bytes of the leading items are on the device.
  void tell(size_t leading) {
    if (what_ != Many::get) return;
    sure_ = leading;
    if (options_.in_order) options_.in_order(leading);
  }

  Client::Inside::Impl& impl_;
  Many what_;
  std::span<const BatchItem> items_;
  std::span<const Buffer> windows_;
  std::span<BatchResult> results_;
  const BatchOptions& options_;
  DeviceCopies& copies_;
  std::vector<BatchItem> placed_;  // in the ring
  std::vector<DeviceGroup> groups_;
  std::vector<Buffer> fetched_[2];
  size_t sent_ = 0;  // items of groups that were sent
  size_t sure_ = 0;  // leading items whose outcome is known
  bool ordered_ = false;
};

}  // namespace
}  // namespace client

Outcome<Transfer> Client::Impl::many_on_device(Many what, std::span<const BatchItem> items,
                                               std::span<const Buffer> windows, std::span<BatchResult> results,
                                               const BatchOptions& options) {
  std::vector<MutableBytes> memory;
  for (const Buffer& window : windows) memory.push_back(window.bytes());
  const bool reads = what == Many::get;
  if (options.take != nullptr) return fault(ErrorCode::unsupported, "a lease is taken by batches into host memory");
  OUT_TRY(client::check_items(items, memory, results.size(), reads, true, !reads));
  std::unique_ptr<DeviceLane> lane;
  for (const Buffer& window : windows) {
    if (!window.on_device()) continue;
    const client::DeviceMemory& device = *window.memory_->device;
    if (reads && device.read_only) return fault(ErrorCode::invalid_argument, "device memory: it is read-only");
    if (lane && !lane->queue->is_of(device.platform, device.device)) {
      return fault(ErrorCode::invalid_argument, "a batch has windows of one device");
    }
    OUT_ASSIGN(auto one, device_lane(window, {}));
    if (lane) lanes_->give_back(std::move(lane));
    lane = std::move(one);
  }
  DeviceCopies copies(*lanes_, std::move(lane), options_.operation_timeout);
  std::string reason;
  if (auto straight = straight_many(what, items, windows, results, options, copies, reason))
    return std::move(*straight);
  auto moved = own_many(what, items, windows, results, options, copies);
  if (moved && moved->fell_back_reason.empty()) moved->fell_back_reason = std::move(reason);
  return moved;
}

Outcome<Transfer> Client::Impl::own_many(Many what, std::span<const BatchItem> items, std::span<const Buffer> windows,
                                         std::span<BatchResult> results, const BatchOptions& options,
                                         DeviceCopies& copies) {
  auto moved = client::DeviceMany(*this, what, items, windows, results, options, copies).run();
  if (moved) moved->device_path = client::device_path(copies.lane(), *moved);
  return moved;
}

}  // namespace verbena
