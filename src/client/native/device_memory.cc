#include "client/native/device_memory.h"

#include <algorithm>
#include <thread>

#include "client/native/streams.h"
#include "fabric/device.h"
#include "native/wire/device.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

constexpr std::chrono::seconds rest_after_refusal{10}, rest_when_full{1};
// Where the server has no room for more descriptors: others' are taken within milliseconds.
constexpr std::chrono::milliseconds first_pause{2}, last_pause{256};
constexpr std::chrono::seconds driver_patience{6};  // more than the server gives a device

uint64_t size_of(const NativeDevice::Pieces& pieces) {
  uint64_t all = 0;
  for (const auto& piece : pieces) all += piece->size();
  return all;
}

struct DeviceCall : NativeCall {
  Result<void> answered(Bytes body) override {
    const auto reply = wire::decode_device_shared(body);
    if (!reply) return fail(Errc::malformed, "native: reply");
    number = reply->number;
    return {};
  }
  uint64_t number = 0;
};

}  // namespace

NativeDevice::NativeDevice(const memory::cuda::DeviceName& device, Pieces pieces, memory::cuda::Platform platform)
    : exported_{.device = device, .size = size_of(pieces), .platform = platform},
      pieces_(std::move(pieces)),
      begin_(pieces_.front()->begin()) {}

bool NativeDevice::is_there(MutableBytes part) const {
  const uint64_t begin = reinterpret_cast<uintptr_t>(part.data()), end = begin + part.size();
  return std::ranges::all_of(pieces_, [&](const auto& piece) {
    return piece->begin() >= end || piece->begin() + piece->size() <= begin || piece->is_there();
  });
}

// Of the pieces, in order.
Result<NativeDevice::Files> NativeDevice::files() const {
  Files all;
  for (const auto& piece : pieces_) {
    auto descriptor = piece->descriptor();
    if (!descriptor) return fail(Errc::unsupported, "native: the GPU's driver gives no descriptor");
    all.push_back(std::move(*descriptor));
  }
  return all;
}

Result<wire::Device> NativeDevice::described(fabric::Link& link, const Files& files) const {
  wire::Device request{.device = exported_.device, .size = exported_.size, .handle = exported_.handle};
  const bool hip = exported_.platform == memory::cuda::Platform::rocm;
  if (hip) request.kind = wire::device_by_hip_handle;
  if (by_handle()) return request;
  auto* const devices = dynamic_cast<fabric::DeviceLink*>(&link);
  if (devices == nullptr) return fail(Errc::unsupported, "native: the link takes no descriptors");
  request.kind = hip ? wire::device_by_hip_pieces : wire::device_by_pieces;
  std::vector<int> numbers;
  for (const Fd& file : files) numbers.push_back(file.get());
  for (const auto& piece : pieces_) request.pieces.push_back(piece->size());
  VB_ASSIGN(request.handed_over, devices->hand_over(numbers));
  return request;
}

NativeDevice::~NativeDevice() {
  const Deadline until = deadline_in(driver_patience);  // all that are awaited share it
  for (const Unanswered& one : unanswered_) {
    const auto streams = one.streams.lock();
    if (streams == nullptr) continue;
    const auto number = one.stream->late_device(one.request, until, /*forget=*/true);
    if (number && *number != 0) shares_.push_back({one.streams, one.stream, *number});
  }
  for (const Share& share : shares_) {
    const auto streams = share.streams.lock();
    if (streams == nullptr || share.stream->broken()) continue;
    CodeCall call;
    call.type = wire::Type::device_end;
    call.deadline = deadline_in(driver_patience);
    call.patient = true;
    const auto prepare = [&](NativeStream::Body& body) -> Result<void> {
      encode(body.out, wire::DeviceEnd{share.number});
      return {};
    };
    static_cast<void>(share.stream->run(call, prepare));
  }
}

Result<uint64_t> NativeDevice::number_on(NativeStreams& streams, NativeStream& stream, Deadline deadline) const {
  if (!streams.shares_devices(exported_.platform))
    return fail(Errc::unsupported, "native: the server lets no device copy");
  const std::lock_guard lock(mutex_);  // threads that share it at the same time share it once
  std::erase_if(shares_, [](const Share& share) { return share.streams.expired(); });
  const auto known = std::ranges::find(shares_, &stream, &Share::stream);
  if (known != shares_.end()) return known->number;
  std::erase_if(unanswered_, [](const Unanswered& one) { return one.streams.expired(); });
  const auto late = late_number(stream);
  if (!late) return fail(Errc::unsupported, "native: the server has not answered yet whether it maps this memory");
  if (*late != 0) {
    shares_.push_back({streams.weak_from_this(), &stream, *late});
    return *late;
  }
  if (by_handle() ? !streams.takes_handles(exported_.platform) : !streams.takes_descriptors(exported_.platform)) {
    return fail(Errc::unsupported, by_handle() ? "native: the server takes no handles of such memory"
                                               : "native: the server takes no descriptors of memory");
  }
  if (SteadyClock::now() < refused_until_) {
    return fail(Errc::unsupported, "native: the server has refused this memory");
  }
  const auto number = share_on(streams, stream, deadline);
  if (!number) {
    refused_until_ = deadline_in(number.error() == Errc::slow_down ? rest_when_full : rest_after_refusal);
    return fail(Errc::unsupported, "native: the server maps no such memory");
  }
  shares_.push_back({streams.weak_from_this(), &stream, *number});
  return *number;
}

// 0: the server does not have it. would_block: that is not known yet, and asked again it would map the memory twice.
Result<uint64_t> NativeDevice::late_number(NativeStream& stream) const {
  const auto one = std::ranges::find(unanswered_, &stream, &Unanswered::stream);
  if (one == unanswered_.end()) return 0;
  VB_ASSIGN(const uint64_t number, stream.late_device(one->request, Deadline::min(), /*forget=*/false));
  unanswered_.erase(one);
  return number;
}

// The descriptors are open here for no longer than the server's answer takes.
Result<uint64_t> NativeDevice::share_on(NativeStreams& streams, NativeStream& stream, Deadline deadline) const {
  VB_ASSIGN(const Files open, files());
  for (auto pause = first_pause;; pause *= 2) {
    DeviceCall call;
    call.type = wire::Type::device;
    call.deadline = std::min(deadline, deadline_in(driver_patience));
    call.patient = true;
    const auto prepare = [&](NativeStream::Body& body) -> Result<void> {
      VB_ASSIGN(const wire::Device request, described(body.link, open));
      if (!encode(body.out, request)) return fail(Errc::too_large, "native: message");
      return {};
    };
    auto done = stream.run(call, prepare);
    if (done) return call.number;
    if (done.error() == Errc::timed_out) unanswered_.push_back({streams.weak_from_this(), &stream, call.request});
    if (done.error() != Errc::slow_down || pause > last_pause || deadline_in(pause) >= deadline) {
      return std::unexpected(std::move(done).error());
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace verbena::client
