// GET into a device's memory: into the halves of a lane's ring, whose bytes the device copies meanwhile.
#include "base/checksum.h"
#include "client/api/client_impl.h"
#include "client/http/object_headers.h"

namespace verbena {

using client::DeviceCopies;
using client::DeviceLane;
using client::fault;

namespace client {

DevicePath device_path(const DeviceLane& lane, const Transfer& transfer) {
  return lane.native != nullptr && transfer.provider == "local" ? DevicePath::shared : DevicePath::staged;
}

namespace {

// The checksum of a whole object whose bytes pass in pieces, in host memory.
class PassingChecksum {
 public:
  explicit PassingChecksum(const std::string& known) {
    auto parsed = parse_checksum(known);
    if (!parsed) return;
    expected_ = std::move(parsed->base64);
    digest_.emplace(parsed->algorithm);
  }
  void add(Bytes bytes) {
    if (digest_) digest_->update(bytes);
  }
  bool matches() { return !digest_ || digest_->finish_base64() == expected_; }

 private:
  std::string expected_;
  std::optional<Digest> digest_;
};

class DeviceGet {
 public:
  DeviceGet(Client::Inside::Impl& impl, const std::string& bucket, const std::string& key, MutableBytes window,
            const DeviceMemory& memory, const GetOptions& options, DeviceCopies& copies)
      : impl_(impl), bucket_(bucket), key_(key), window_(window), memory_(memory), options_(options), copies_(copies) {}

  Outcome<GetReply> run() {
    const auto& range = options_.range;
    if (window_.size() <= DeviceLane::half) return whole(window_.size());
    if (range && range->length != 0 && range->length <= DeviceLane::half) return whole(range->length);
    constexpr unsigned attempts_max = 4;
    for (unsigned i = 0; i < attempts_max; ++i) {
      changed_ = false;
      auto got = pieces();
      if (!changed_) return got;
      OUT_TRY(copies_.finish());
    }
    return fault(ErrorCode::slow_down, "the object was replaced again and again while it was read");
  }

 private:
  Outcome<GetReply> whole(size_t size) {
    const MutableBytes into = copies_.lane().bytes.first(size);
    auto got = impl_.get(bucket_, key_, {into, copies_.lane().native}, options_);
    if (got) OUT_TRY(to_device(0, into.first(got->bytes)));
    return got;
  }

  Outcome<> to_device(size_t at, Bytes bytes) {
    if (!ordered_) OUT_TRY(copies_.after(memory_, options_.cancel));
    ordered_ = true;
    return copies_.write(reinterpret_cast<uintptr_t>(window_.data()) + at, bytes);
  }

  // The first piece names the version, and those after it must be of it.
  Outcome<GetReply> pieces() {
    const Range range = options_.range.value_or(Range{});
    GetOptions one = options_;
    one.range = Range{range.offset, DeviceLane::half};
    const bool verify = impl_.options().verify_checksums && !options_.range;
    one.metadata = options_.metadata || verify;
    auto first = impl_.get(bucket_, key_, {copies_.lane().part(0), copies_.lane().native}, one);
    if (!first && first.error().code == ErrorCode::invalid_range && !options_.range) return empty_object();
    if (!first) return first;
    uint64_t total = first->info.size - range.offset;
    if (range.length != 0) total = std::min(total, range.length);
    if (total > window_.size()) return fault(ErrorCode::buffer_too_small, "the object is larger than the window");
    if (first->bytes != std::min<uint64_t>(total, DeviceLane::half)) return malformed();
    if (first->info.etag.empty() && first->bytes != total) return malformed();
    PassingChecksum sum(verify && first->transfer.provider != "local" ? first->info.checksum : std::string());
    OUT_TRY(pass_on(0, 0, first->bytes, sum));

    one.if_match = first->info.etag;
    one.if_none_match.clear();
    one.metadata = false;
    for (uint64_t at = first->bytes; at < total;) {
      const unsigned number = at / DeviceLane::half % 2;
      one.range = Range{range.offset + at, std::min<uint64_t>(DeviceLane::half, total - at)};
      OUT_TRY(copies_.wait(number));
      auto next = impl_.get(bucket_, key_, {copies_.lane().part(number), copies_.lane().native}, one);
      changed_ = !next && next.error().code == ErrorCode::precondition_failed;
      if (!next) return next;
      if (next->bytes != one.range->length) return malformed();
      OUT_TRY(pass_on(number, at, next->bytes, sum));
      join(first->transfer, next->transfer);
      at += next->bytes;
    }
    if (!sum.matches()) {
      return fault(ErrorCode::checksum_mismatch, "the bytes that arrived do not match the object's checksum");
    }
    first->bytes = first->transfer.bytes = total;
    return first;
  }

  // A range of an empty object is invalid. If it is not empty any more, it is read anew.
  Outcome<GetReply> empty_object() {
    auto got = whole(DeviceLane::half);
    changed_ = !got && got.error().code == ErrorCode::buffer_too_small;
    return got;
  }

  Outcome<> pass_on(unsigned number, uint64_t at, size_t size, PassingChecksum& sum) {
    const Bytes bytes = copies_.lane().part(number).first(size);
    OUT_TRY(to_device(at, bytes));
    OUT_TRY(copies_.mark(number));
    sum.add(bytes);
    return {};
  }

  static void join(Transfer& all, const Transfer& one) {
    all.attempts = std::max(all.attempts, one.attempts);
    if (all.provider == one.provider) return;
    all.door = one.door;
    all.provider = one.provider;
    if (all.fell_back_reason.empty()) all.fell_back_reason = one.fell_back_reason;
  }

  static std::unexpected<ClientError> malformed() {
    return fault(ErrorCode::malformed_reply, "a range of an object that is not the requested one");
  }

  Client::Inside::Impl& impl_;
  const std::string &bucket_, &key_;
  MutableBytes window_;
  const DeviceMemory& memory_;
  const GetOptions& options_;
  DeviceCopies& copies_;
  bool ordered_ = false, changed_ = false;
};

}  // namespace
}  // namespace client

Outcome<std::unique_ptr<DeviceLane>> Client::Impl::device_lane(const Buffer& window, const std::stop_token& stop) {
  const client::DeviceMemory& memory = *window.memory_->device;
  OUT_TRY(usable());
  if (stop.stop_requested()) return fault(ErrorCode::cancelled, "cancelled by the caller");
  OUT_TRY(client::device_memory_is_there(memory, reinterpret_cast<uintptr_t>(window.data()), window.size()));
  std::shared_ptr<client::NativeSession> session;
  if (session_) session = session_->session(stop).value_or(nullptr);
  OUT_ASSIGN(auto lane, lanes_->take(memory, session));
  if (lane) return lane;
  auto queue = memory::cuda::Queue::open(memory.device, memory.platform);
  if (!queue) return fault(std::move(queue).error());
  lane = std::make_unique<DeviceLane>();
  OUT_ASSIGN(lane->ring, allocate(2 * DeviceLane::half));
  lane->bytes = lane->ring.bytes();
  lane->native = lane->ring.memory_->native.get();
  lane->session = session;
  lane->queue = std::move(*queue);
  // Without it the driver copies through memory of its own: slower, and as right.
  static_cast<void>(lane->queue->page_lock(lane->bytes));
  return lane;
}

Outcome<GetReply> Client::Impl::get_to_device(const std::string& bucket, const std::string& key, const Buffer& into,
                                              const GetOptions& options) {
  if (into.size() == 0) return get(bucket, key, {{}, nullptr}, options);
  const client::DeviceMemory& memory = *into.memory_->device;
  if (memory.read_only) return fault(ErrorCode::invalid_argument, "device memory: it is read-only");
  OUT_ASSIGN(auto lane, device_lane(into, options.cancel));
  DeviceCopies copies(*lanes_, std::move(lane), options_.operation_timeout);
  std::string reason;
  if (auto straight = straight_get(bucket, key, into, options, copies, reason)) return std::move(*straight);
  auto got = client::DeviceGet(*this, bucket, key, into.bytes(), memory, options, copies).run();
  auto ended = copies.finish();
  if (!got) return got;
  if (!ended) return std::unexpected(std::move(ended).error());
  got->transfer.device_path = client::device_path(copies.lane(), got->transfer);
  if (got->transfer.fell_back_reason.empty()) got->transfer.fell_back_reason = std::move(reason);
  return got;
}

Outcome<GetReply> Client::Impl::device_get_ranges(const std::string& bucket, const std::string& key,
                                                  std::span<const Range> ranges, const Buffer& into,
                                                  const GetOptions& options) {
  if (ranges.empty()) return fault(ErrorCode::invalid_argument, "no range");
  GetReply all;
  GetOptions one = options;
  for (size_t i = 0; i < ranges.size(); ++i) {
    one.range = ranges[i];
    OUT_ASSIGN(auto got, device_get(bucket, key, into.slice(all.bytes, into.size() - all.bytes), one));
    const uint64_t before = all.bytes;
    if (i == 0) {
      all = std::move(got);
      one.if_match = all.info.etag;  // all ranges of one version
      one.if_none_match.clear();
    } else {
      all.bytes = before + got.bytes;
      all.transfer.device_verified = client::weaker(all.transfer.device_verified, got.transfer.device_verified);
    }
  }
  all.transfer.bytes = all.bytes;
  return all;
}

}  // namespace verbena
