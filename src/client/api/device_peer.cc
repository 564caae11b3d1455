// A window's memory for RDMA devices of this host.
#include "client/api/device.h"

namespace verbena::client {
namespace {

class PeerNativeMemory final : public NativeMemory {
 public:
  PeerNativeMemory(std::shared_ptr<const memory::cuda::PeerMemory> memory, MutableBytes bytes, const PeerPlace& place)
      : window_(std::move(memory), bytes, place) {}
  MutableBytes bytes() const override { return window_.bytes(); }
  const PeerWindow* peer() const override { return &window_; }

 private:
  const PeerWindow window_;
};

}  // namespace

const NativeMemory* DevicePeer::find(memory::cuda::Platform platform,
                                     const std::vector<memory::cuda::Allocation>& allocations, MutableBytes window,
                                     std::string_view provider, std::string& why) {
  using memory::cuda::Driver;
  PeerPlace place = PeerPlace::of(platform, allocations);
  place.dma_buf = given_.number;
  if (refused_places().has(place, provider, SteadyClock::now())) {  // also before it is exported
    why = "the RDMA device has refused this memory a moment ago";
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  if (!std::exchange(asked_, true)) {
    const auto driver = Driver::get(platform);
    auto made = driver ? memory::cuda::PeerMemory::of(**driver, allocations, reinterpret_cast<uintptr_t>(window.data()),
                                                      window.size(), std::move(given_))
                       : std::unexpected(driver.error());
    if (made) {
      memory_ = std::make_shared<PeerNativeMemory>(std::move(*made), window, place);
    } else {
      why_ = made.error().text;
    }
  }
  if (memory_ == nullptr) why = why_;
  return memory_.get();
}

DevicePeer::~DevicePeer() {
  // The driver cannot be used in the child of a fork.
  if (memory_ != nullptr && forks_ != client::forks()) new std::shared_ptr<NativeMemory>(std::move(memory_));
}

}  // namespace verbena::client
