// PUT from a device's memory: the device copies into a lane's ring, through it, or into memory for the whole object.
#include <cstring>

#include "client/api/client_impl.h"

namespace verbena {

using client::DeviceCopies;
using client::DeviceLane;
using client::fault;

namespace client {
namespace {

// The bytes of a window in order, with one half of the ring ahead of those that are taken.
class DeviceReader {
 public:
  DeviceReader(DeviceCopies& copies, uint64_t address, size_t size) : copies_(copies), address_(address), size_(size) {}

  // Fills `into` unless the end comes first; returns the bytes filled.
  Outcome<size_t> fill(MutableBytes into) {
    size_t filled = 0;
    while (filled < into.size() && taken_ < size_) {
      OUT_TRY(read_ahead());
      const unsigned number = taken_ / DeviceLane::half % 2;
      const size_t inside = taken_ % DeviceLane::half;
      if (inside == 0) OUT_TRY(copies_.wait(number));
      const size_t left = std::min(DeviceLane::half - inside, size_ - taken_);
      const size_t size = std::min(left, into.size() - filled);
      std::memcpy(into.data() + filled, copies_.lane().part(number).data() + inside, size);
      filled += size;
      taken_ += size;
    }
    return filled;
  }

 private:
  Outcome<> read_ahead() {
    while (queued_ < size_ && queued_ / DeviceLane::half < taken_ / DeviceLane::half + 2) {
      const unsigned number = queued_ / DeviceLane::half % 2;
      const size_t size = std::min(DeviceLane::half, size_ - queued_);
      OUT_TRY(copies_.read(copies_.lane().part(number).first(size), address_ + queued_));
      OUT_TRY(copies_.mark(number));
      queued_ += size;
    }
    return {};
  }

  DeviceCopies& copies_;
  uint64_t address_;
  size_t size_, queued_ = 0, taken_ = 0;
};

constexpr size_t native_whole_max = 256 * MiB;  // larger objects go in parts, if the caller did not ask for that door

}  // namespace
}  // namespace client

Outcome<PutReply> Client::Impl::put_from_device(const std::string& bucket, const std::string& key, const Buffer& from,
                                                const PutOptions& options) {
  if (from.size() == 0) return put(bucket, key, {{}, nullptr}, options);
  OUT_ASSIGN(auto lane, device_lane(from, options.cancel));
  DeviceCopies copies(*lanes_, std::move(lane), options_.operation_timeout);
  OUT_TRY(copies.after(*from.memory_->device, options.cancel));
  std::string reason;
  client::Doubt doubt;
  if (auto straight = straight_put(bucket, key, from, options, reason, doubt)) return std::move(*straight);
  auto stored = own_put(bucket, key, from, options, copies);
  if (!stored) return std::unexpected(doubt.about(std::move(stored).error()));
  stored->transfer.device_path = client::device_path(copies.lane(), stored->transfer);
  if (stored->transfer.fell_back_reason.empty()) stored->transfer.fell_back_reason = std::move(reason);
  return stored;
}

Outcome<PutReply> Client::Impl::own_put(const std::string& bucket, const std::string& key, const Buffer& from,
                                        const PutOptions& options, DeviceCopies& copies) {
  const uint64_t address = reinterpret_cast<uintptr_t>(from.data());
  if (from.size() <= copies.lane().bytes.size()) {
    const MutableBytes bytes = copies.lane().bytes.first(from.size());
    OUT_TRY(copies.read(bytes, address));
    OUT_TRY(copies.finish());
    return put(bucket, key, {bytes, copies.lane().native}, options);
  }
  client::DeviceReader reader(copies, address, from.size());
  const bool native = session_ && (options_.via == Via::native || session_->open());
  const bool whole = options_.via == Via::native || options.append_at || !options.checksum.empty() ||
                     from.size() <= (native ? client::native_whole_max : options_.multipart_threshold);
  if (!whole) {
    PutOptions sized = options;
    sized.stream_size = from.size();
    const Reader fill = [&](std::span<std::byte> into) { return reader.fill(into); };
    return put_stream(bucket, key, fill, sized);
  }
  OUT_ASSIGN(const Buffer staged, allocate(from.size()));
  OUT_TRY(copies.enlarge(staged, options.cancel));
  // What is not page-locked is copied through the ring, which is.
  if (copies.lane().large_lock) {
    OUT_TRY(copies.read_large(staged.bytes(), address));
  } else {
    OUT_TRY(reader.fill(staged.bytes()));
  }
  OUT_TRY(copies.finish());
  return put(bucket, key, memory_of(staged), options);
}

}  // namespace verbena
